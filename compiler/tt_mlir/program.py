"""Makes a program of ours of a TTNN module of tt-mlir: its layouts, formats and order of ops, our kernels.

A function is a program; those that ops name follow it. The entry's tensors come from the host and go back to it, in
the element types that the executable declares.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from opscope.compiler.dialects.ttnn import DeviceType
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.target.formats import host_dtype
from opscope.compiler.target.numerics import MATRIX, lowest
from opscope.compiler.target.program import Binary, ControlParams, LayoutParams, Program, TensorDesc, programs_of
from opscope.compiler.target.program import Operation as Call
from opscope.compiler.target.system_desc import SystemDesc
from opscope.compiler.tt_mlir.attributes import written
from opscope.compiler.tt_mlir.calls.call import TABLE, Emit
from opscope.compiler.tt_mlir.locations import place_of
from opscope.compiler.tt_mlir.module import SUBGRAPH, TtMlirModule, name_of
from opscope.compiler.tt_mlir.narrowing import Step, narrowed, narrowest
from opscope.compiler.tt_mlir.original_types import originals
from opscope.compiler.tt_mlir.reader import read_tt_mlir
from opscope.compiler.tt_mlir.tensors import STAGE, described, on_host
from opscope.compiler.tt_mlir.values import Unknown


def declared_value(value: np.ndarray, desc: TensorDesc) -> np.ndarray:
    """An input as an executable takes it.

    Integers saturate in fewer bits, booleans become numbers, a complex number is its parts and a 64-bit one two words,
    low first, along a dim more.
    """
    dtype = host_dtype(desc.element_type)
    if value.ndim + 1 == len(desc.shape):
        parts = np.ascontiguousarray(value).reshape(-1).view(_part(value.dtype))
        return parts.astype(dtype).reshape(desc.shape)
    if dtype.kind in "iu" and value.dtype.kind in "iu":
        limits, own = np.iinfo(dtype), np.iinfo(value.dtype)
        value = np.clip(value, max(limits.min, own.min), min(limits.max, own.max))
    return value.astype(dtype)


def original_value(value: np.ndarray, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    """A result as the module's types have it."""
    if dtype == np.bool_:
        return value != 0
    if value.ndim == len(shape) + 1:
        return np.ascontiguousarray(value).astype(_part(dtype)).view(dtype).reshape(shape)
    return value.astype(dtype)


def _part(dtype: np.dtype) -> np.dtype:
    """Of what two numbers a number is made."""
    if dtype.kind == "c":
        return np.dtype(f"f{dtype.itemsize // 2}")
    return np.dtype(f"u{dtype.itemsize // 2}")


COMPILER = "tt-mlir"
GENERATED = "ttnn.generic"
"""The op that runs C++ of tt-mlir's own, which is no kernel of ttnn."""
_ARCH = re.compile(r"\barch = <(\w+)>")
_MESH_SHAPE = re.compile(r"#ttnn<mesh_shape (\d+(?:x\d+)*)>")


@dataclass(frozen=True)
class TtMlirProgram:
    """What tt-mlir made of a module, as a device of ours loads it, and what a verdict on its results needs to know."""

    binary: Binary
    narrowed: tuple[str, ...]
    """Values that the module's own types did not ask to be narrowed: `f32 -> bf16 at ttnn.max_pool2d`."""
    float_format: str | None
    """The narrowest format of floats that were so narrowed; None: each tensor is in that of its own type."""
    math_fidelity: str
    """The lowest of its products and sums."""
    matrix_format: str
    """What a product takes of a float32."""
    narrow_dst: bool
    """Whether a product or sum of floats accumulates in 16 bits."""
    computes: tuple[str, ...]
    """Kernels that compute floats, each once: where there is one, its bound of error is the result's."""

    def inputs_of(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The module's inputs in the types that the executable declares."""
        entry = self.binary.programs[0]
        if len(values) != len(entry.inputs):
            raise ValueError(f"inputs: expected {len(entry.inputs)}, got {len(values)}; try those of the module")
        return [declared_value(x, entry.tensors[t]) for x, t in zip(values, entry.inputs, strict=True)]

    def outputs_as(
        self, values: Sequence[np.ndarray], types: Sequence[tuple[np.dtype, Sequence[int]]]
    ) -> list[np.ndarray]:
        """What the executable made, in the types and shapes of the module's results."""
        return [original_value(x, dtype, shape) for x, (dtype, shape) in zip(values, types, strict=True)]


def tt_mlir_program(text: str, board: SystemDesc) -> TtMlirProgram:
    """Reads a TTNN module as an executable holds it and makes it a program for a board.

    Raises CompilerInputError for other text, and StageFailure of stage `run`, which names the op, for an op that the
    simulator lacks or one with an attribute that is not understood.
    """
    module = read_tt_mlir(text, "<executable>")
    _check_arch(module, board)
    functions = {func.sym_name.data: func for func in module.functions}
    entry = _entry(module)
    inline = {_subgraph_of(op) for func in functions.values() for op in func.walk() if name_of(op) == SUBGRAPH}
    made = {
        name: _Function(func, module.mesh, functions).build() for name, func in functions.items() if name not in inline
    }
    _check_names(made)
    programs = [made[name] for name in _ordered(entry.sym_name.data, made)]
    programs[0] = _around(programs[0])
    own = originals(entry)
    steps = [step for one in programs for step in one.steps]
    narrowings = narrowed([(one.program, one.names, one.truths) for one in programs], own)
    fidelity, narrow = lowest(
        step.call.numerics for step in steps if step.call.kernel in MATRIX and step.computes_floats
    )
    return TtMlirProgram(
        Binary(board.board, board.arch, tuple(one.program for one in programs), COMPILER),
        tuple(dict.fromkeys([*own.narrowed, *(row.words for row in narrowings)])),
        narrowest(narrowings),
        fidelity,
        "Tf32",
        narrow,
        tuple(dict.fromkeys(step.call.kernel for step in steps if step.computes_floats and not step.moves)),
    )


def _check_arch(module: TtMlirModule, board: SystemDesc) -> None:
    """Checks that a module was compiled for the board's architecture, where it says so. Raises CompilerInputError."""
    archs = {arch for _, text in module.before for arch in _ARCH.findall(text)}
    if archs - {board.arch}:
        got = ", ".join(sorted(archs))
        raise CompilerInputError(
            f"{module.name}: expected a program for {board.arch}, as {board.board} is, got one for {got}; "
            "try the board that it was compiled for"
        )


def _entry(module: TtMlirModule) -> FuncOp:
    """The function that no other calls: the one that is not private."""
    public = [func for func in module.functions if func.sym_visibility is None or func.sym_visibility.data == "public"]
    if len(public) != 1:
        names = ", ".join(func.sym_name.data for func in public) or "none"
        raise StageFailure(STAGE, "func.func", f"expected one public function, got {names}", kind="notimpl")
    return public[0]


@dataclass(frozen=True)
class _Made:
    """A function as a program, with the op of TTNN that each call comes from."""

    program: Program
    names: tuple[str, ...]
    truths: frozenset[int]
    """Inputs that were booleans before tt-mlir gave them another type."""
    steps: tuple[Step, ...] = field(default=())


class _Function:
    """Collects one function's tensors and calls, numbered in order of appearance."""

    def __init__(self, func: FuncOp, mesh: tuple[int, ...], functions: Mapping[str, FuncOp]) -> None:
        self.func, self.block, self.mesh, self.functions = func, func.body.block, mesh, functions
        self.ids: dict[SSAValue, int] = {}
        self.tensors: list[TensorDesc] = []
        self.inside: list[str] = []
        """The subgraphs whose ops are being added."""
        self.known: dict[int, TensorDesc] = {}
        """Identity of a type, which a module has once, and the description of its values."""

    def tensor(self, value: SSAValue, op: str) -> int:
        """Returns the value's number; enters new values in the table."""
        if value not in self.ids:
            self.ids[value] = len(self.tensors)
            kind = value.type
            if id(kind) not in self.known:
                self.known[id(kind)] = described(kind, op)
            self.tensors.append(self.known[id(kind)])
        return self.ids[value]

    def build(self) -> _Made:
        """Returns the program."""
        inputs = tuple(self.tensor(arg, "func.func") for arg in self.block.args)
        calls: list[Call] = []
        names: list[str] = []
        outputs = self._into(self.block, calls, names)
        program = Program(self.func.sym_name.data, tuple(self.tensors), inputs, outputs, tuple(calls))
        truths = frozenset(n for n, kind in enumerate(originals(self.func).inputs) if kind == "i1")
        steps = tuple(Step(call, program) for call in calls)
        return _Made(program, tuple(names), truths, steps)

    def _into(self, block: Block, calls: list[Call], names: list[str]) -> tuple[int, ...]:
        """Adds a block's kernel calls, and the op that each comes from; returns what the block returns."""
        outputs: tuple[int, ...] = ()
        for op in block.ops:
            if isinstance(op, ReturnOp):
                outputs = tuple(self.tensor(value, "func.return") for value in op.operands)
            elif name_of(op) == "ttnn.get_device":
                _check_chips(op, self.mesh)
            elif name_of(op) == SUBGRAPH:
                self._subgraph(op, calls, names)
            else:
                emitted = self.emitted(op)
                calls += emitted
                names += [name_of(op)] * len(emitted)
        return outputs

    def _subgraph(self, op: Operation, calls: list[Call], names: list[str]) -> None:
        """Adds the ops of the function that a subgraph names in its place, as tt-mlir does with their kernels."""
        name = _subgraph_of(op)
        block = func.body.block if (func := self.functions.get(name)) is not None else Block()
        takes = [value.type for value in op.operands[: len(block.args)]]
        if func is None or takes != [arg.type for arg in block.args] or name in self.inside:
            got = f"none of {name}" if func is None else f"{name} in itself" if name in self.inside else "others"
            raise StageFailure(STAGE, SUBGRAPH, f"expected a function of the types that it is given, got {got}")
        self.inside.append(name)
        for inner in block.ops:
            for value in inner.results:
                self.ids.pop(value, None)  # of another place that names it
        for arg, value in zip(block.args, op.operands, strict=False):
            self.ids[arg] = self.tensor(value, SUBGRAPH)
        self.ids |= dict(zip(op.results, self._into(block, calls, names), strict=True))
        self.inside.pop()

    def emitted(self, op: Operation) -> list[Call]:
        """Returns the kernel calls of an op."""
        name = name_of(op)
        row = TABLE.get(name)
        if row is None:
            why = "its kernels are generated by tt-mlir" if name == GENERATED else "the simulator has no kernel for it"
            raise StageFailure(STAGE, name, why, kind="notimpl")
        operands = [self.tensor(value, name) for value in op.operands if not isinstance(value.type, DeviceType)]
        results = [self.tensor(value, name) for value in op.results]
        emit = Emit(op, name, operands, results, self.tensors, place_of(op.location), self.mesh)
        try:
            row(emit)
        except Unknown as error:
            raise emit.refused(str(error)) from error
        except (ValueError, TypeError, KeyError, IndexError, ZeroDivisionError) as error:
            raise emit.refused(f"expected attributes and shapes that go together, got: {error}") from error
        if emit.attributes.unread:
            raise emit.refused(f"expected attributes that are understood, got {', '.join(emit.attributes.unread)}")
        self.ids |= {value: emit.written[number] for value, number in self.ids.items() if number in emit.written}
        return emit.calls


def _subgraph_of(op: Operation) -> str:
    """The function that a subgraph names; empty if it names none."""
    return written(op.properties["d2m_func"]).removeprefix("@") if "d2m_func" in op.properties else ""


def _check_chips(op: Operation, mesh: tuple[int, ...]) -> None:
    """Checks that a function takes the chips of the module's mesh, all of them. Raises StageFailure."""
    shape = op.properties.get("mesh_shape")
    if shape is None:
        return
    match = _MESH_SHAPE.fullmatch(words := written(shape))
    if match is None or tuple(map(int, match[1].split("x"))) != mesh:
        expected = "x".join(map(str, mesh))
        raise StageFailure(STAGE, "ttnn.get_device", f"expected the module's mesh {expected}, got {words}")


def _check_names(made: dict[str, _Made]) -> None:
    """Checks that each program that a call names is there. Raises StageFailure."""
    for one in made.values():
        for call in one.program.operations:
            for name in programs_of(call.params):
                if name not in made:
                    raise StageFailure(STAGE, call.kernel, f"expected a function {name}, got none")


def _ordered(entry: str, made: dict[str, _Made]) -> Sequence[str]:
    """The entry and what it calls, each before those that it calls itself. Raises StageFailure for a cycle."""
    done: list[str] = []
    under_way: set[str] = set()

    def visit(name: str) -> None:
        if name in under_way:
            raise StageFailure(STAGE, "func.func", f"expected functions that do not call themselves, got {name}")
        if name in done:
            return
        under_way.add(name)
        for call in made[name].program.operations:
            if isinstance(call.params, ControlParams):
                for callee in call.params.programs:
                    visit(callee)
        under_way.discard(name)
        done.append(name)

    visit(entry)
    return done[::-1]


def _around(made: _Made) -> _Made:
    """The entry between tensors of the host, which go to the device before it and come back after it."""
    program = made.program
    tensors, before, after = list(program.tensors), list[Call](), list[Call]()

    def host(number: int) -> int:
        tensors.append(on_host(tensors[number]))
        return len(tensors) - 1

    inputs = []
    for number in program.inputs:
        inputs.append(host(number))
        before.append(Call("to_device", (inputs[-1],), (number,), LayoutParams()))
    outputs = []
    for number in program.outputs:
        outputs.append(host(number))
        after.append(Call("from_device", (number,), (outputs[-1],), LayoutParams()))
    calls = (*before, *program.operations, *after)
    around = Program(program.name, tuple(tensors), tuple(inputs), tuple(outputs), calls)
    names = ("",) * len(before) + made.names + ("",) * len(after)
    return _Made(around, names, made.truths, made.steps)
