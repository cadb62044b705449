"""Splits a StableHLO module into single-op modules: equal ops merged, every use counted.

Walks jaxlib's objects once, in program order. A called function is walked at each call site, the bodies of while, if
and case become nested programs (loops hide models). Constants that belong to an op are placed inside its module:
splats, also those that reach it through broadcast_in_dim, reshape or transpose, and the shape operands of dynamic
ops; other constants become arguments. An op whose every operand is such a constant keeps the first as an argument,
else nothing would be left to compute (so a broadcast_in_dim of a splat is an op with one argument). A program that
computes nothing and returns constants has these as its ops: what a compiler makes of them is right or wrong too.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base import gc_pause
from opscope.base.mesh.shardings import option_that_splits, sharding_in
from opscope.base.quantised.types import PREFIX
from opscope.harness.prepare.identity import Identity, attribute_items, digest, op_name
from opscope.harness.prepare.mesh.collectives import COLLECTIVES
from opscope.harness.prepare.mlir import Module, bounded, branches, file_models, load, open_shapes, to_bytecode
from opscope.harness.prepare.mlir.dim_names import DimNames, Names, with_names
from opscope.harness.prepare.mlir.locations import Place, place_of
from opscope.harness.prepare.mlir.single_op import TOKEN, CannotBuildError, build_module, inner_ops, spelled_out
from opscope.harness.prepare.mlir.tokens import array_token
from opscope.harness.prepare.mlir.values import (
    DYNAMIC,
    ResourceError,
    constant_array,
    is_splat,
    parameter_text,
    tensor_desc,
)
from opscope.harness.prepare.program import Node, NodeKind, Program, SingleOp, SplitModule
from opscope.harness.prepare.subgraph import KEEPS_SPLAT
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import QUANTISED, TensorDesc, Use

__all__ = ["Node", "Program", "SingleOp", "SplitModule", "split_module"]

BODIES: dict[str, tuple[str, ...]] = {
    "stablehlo.while": ("cond", "body"),
    "stablehlo.if": ("true", "false"),
    "stablehlo.case": (),
}
"""Ops whose regions are split too, and the names of these; a case's are `branch<i>`."""

CONSTANTS = frozenset({"stablehlo.constant", "arith.constant", "mhlo.constant", "sdy.constant"})
CALLS = frozenset({"func.call", "call"})
TUPLES = frozenset({"stablehlo.tuple", "stablehlo.get_tuple_element"})

SHAPE_OPERANDS: dict[str, frozenset[int]] = {
    "stablehlo.dynamic_broadcast_in_dim": frozenset({1}),
    "stablehlo.dynamic_reshape": frozenset({1}),
    "stablehlo.dynamic_iota": frozenset({0}),
    "stablehlo.rng": frozenset({2}),
    "stablehlo.dynamic_pad": frozenset({2, 3, 4}),
    "stablehlo.dynamic_gather": frozenset({2}),
    "stablehlo.dynamic_conv": frozenset({2}),
    "stablehlo.real_dynamic_slice": frozenset({1, 2, 3}),
}
"""Operands that decide a shape: as constants they belong to the op even where they are no splats."""

NAMED_BODIES = frozenset(
    f"stablehlo.{name}" for name in ("reduce", "reduce_window", "scatter", "select_and_scatter", "sort")
)
"""Ops whose record names the ops of their regions (parameter `body`): a sum and a maximum differ in nothing else."""


MESH = ("mhlo.num_replicas", "mhlo.num_partitions")
JOINT = frozenset({"replica_groups", "source_target_pairs"})
"""Attributes of ops that several devices compute together."""

MOST_OPS = 2_000_000
"""How many ops a module may have once its calls are expanded. Calls of calls double their number at each level, so that
a file of a few lines may ask for more than any machine has time for."""
COUNTED_AT = 50_000
"""The number of ops after which all are counted, so that small modules cost nothing."""


def split_module(module: Module | str | bytes | Path, model: str = "") -> SplitModule:
    """The ops of `module` in program order and one module per unique op.

    `model` is written into every `Use`. Raises InputError if `module` cannot be read, has no entry function, lacks the
    values of a constant, is sharded over several devices, or has more than MOST_OPS ops.
    """
    where = str(module) if isinstance(module, Path) else model or "module"
    loaded = load(module, where)
    _refuse_shardings(loaded, where)
    loaded = bounded.with_bounds(loaded, where)
    splitter = _Splitter(branches.structured(loaded, where), model, where)
    try:
        with gc_pause.paused():  # all that is made here stays
            return splitter.split()
    except ResourceError as error:
        raise InputError(f"{where}: {error.name}", error.expected, error.got, "exporting with all weights") from None
    except RecursionError:
        nested = "calls and loops nested a few hundred deep at most"
        raise InputError(where, nested, "deeper ones", "inlining the module's functions") from None


def _refuse_shardings(module: Module, where: str) -> None:
    """Raises InputError if the module is for several devices: its ops are not those that one of them runs."""
    sharded = sharding_in(module.operation)
    if sharded is not None:
        op, sharding = sharded
        expected = "a program for one device, or each device's own with explicit collectives"
        hint = f"{option_that_splits(module.operation)}, which runs each device's part"
        raise InputError(f"{where}: {op}", expected, sharding[:160], hint)


class _Splitter:
    """One pass over one module."""

    def __init__(self, module: Module, model: str, where: str) -> None:
        self.module, self.model, self.where = module, model, where
        self.symbols: dict[str, Any] = {}
        for view in module.body.operations:
            op = view.operation
            if "sym_name" in op.attributes:
                name: Any = op.attributes["sym_name"]
                self.symbols[name.value] = op
        self.identity = Identity(self.symbols.get)
        attributes: Any = module.operation.attributes
        self.mesh = {key: attributes[key] for key in MESH if key in attributes and attributes[key].value > 1}
        """How many devices the module is for: what its collectives mean follows from it."""
        self.tuples: dict[int, tuple[int, ...]] = {}
        """Values of tuples that are only taken apart -> those of their elements."""
        self.types: list[Any] = []
        self.descs: list[TensorDesc] = []
        self.type_tokens: list[str] = []
        self.seen_types: dict[Any, tuple[TensorDesc, str]] = {}
        self.constants: dict[int, np.ndarray] = {}
        """Values that are constants, splats through reshaping ops included."""
        self.splats: set[int] = set()
        self.constant_ops: dict[int, Any] = {}
        """Those before the first op."""
        self.constant_tokens: dict[int, str] = {}
        self.arrays: dict[Any, np.ndarray | None] = {}
        self.ids: dict[Any, str] = {}
        """What makes an op without regions -> its id, so that a repeated op costs no hashing."""
        self.ops: dict[str, SingleOp] = {}
        self.use_lists: dict[str, list[Use]] = {}
        self.dim_names: DimNames | None = None
        self.dims: dict[str, list[Names]] = {}
        """Op of dynamic shape -> for each use the names of the dims of the value that makes it one."""
        self.calls: list[str] = []
        self.total = self.structural = 0

    def split(self) -> SplitModule:
        entry = file_models.entry(self.module, self.where)
        [block] = entry.regions[0].blocks
        env: dict[Any, int] = {}
        arguments = tuple(self._new(env, argument) for argument in block.arguments)
        nodes: list[Node] = []
        if any(min(self.descs[number].shape, default=0) < 0 for number in arguments):
            self.dim_names = DimNames(entry, arguments, self.descs)
        results = self._block(block, env, "main", Place(), nodes)
        if not self.ops:
            self._returned_constants(nodes, results)
        ops = {}
        binding = open_shapes.hint(entry) if any(DYNAMIC in op.unsplittable for op in self.ops.values()) else ""
        for op_id, op in self.ops.items():
            reason = with_names(op.unsplittable, self.dims.get(op_id, ()))
            ops[op_id] = SingleOp(
                op.op_id,
                op.op_name,
                op.bytecode,
                op.inputs,
                op.outputs,
                op.op_params,
                tuple(self.use_lists[op_id]),
                f"{reason}; try {binding}" if binding and DYNAMIC in reason else reason,
            )
        program = Program("main", arguments, tuple(nodes), results)
        return SplitModule(program, tuple(self.descs), ops, self.total, self.structural)

    def _new(self, env: dict[Any, int], value: Any) -> int:
        """A new value number for `value`."""
        type_ = value.type
        seen = self.seen_types.get(type_)
        if seen is None:
            seen = self.seen_types[type_] = tensor_desc(type_), self.identity.type(type_)
        number = env[value] = len(self.types)
        self.types.append(type_)
        self.descs.append(seen[0])
        self.type_tokens.append(seen[1])
        return number

    def _block(self, block: Any, env: dict[Any, int], path: str, call: Place, nodes: list[Node]) -> tuple[int, ...]:
        """Appends the nodes of `block`; returns the numbers of what its terminator hands out."""
        results: tuple[int, ...] = ()
        for index, view in enumerate(block.operations):
            op = view.operation
            name = op.name
            self.total += 1
            if self.total == COUNTED_AT:
                self._check_size()
            operands = tuple([env[value] for value in op.operands])
            if name.endswith(".return"):
                self.structural += 1
                results = operands
                continue
            place = place_of(op.location)
            if call.name or call.file:
                place = place.inside(call)
            spot = f"{path}/{index}"
            if name in CONSTANTS:
                nodes.append(self._constant(op, env, spot, place))
            elif name in CALLS and self._callee(op):
                self.structural += 1
                self._call(op, operands, env, spot, place, nodes)
            elif name in TUPLES and self._renames(op, name, operands, env):
                self.structural += 1
            else:
                nodes.append(self._op(op, name, operands, env, spot, place, call))
        return results

    def _check_size(self) -> None:
        """Raises InputError if the calls expand to more than MOST_OPS ops."""
        counts: dict[str, int] = {}

        def count(block: Any) -> int:
            total = 0
            for view in block.operations:
                op = view.operation
                total += 1
                if op.name in CALLS:
                    name = op.attributes["callee"].value
                    if name not in counts:
                        counts[name] = 0  # while it is counted: a function that calls itself is not expanded
                        function = self.symbols.get(name)
                        counts[name] = sum(map(count, function.regions[0].blocks)) if function is not None else 0
                    total += counts[name]
                elif op.name in BODIES:
                    total += sum(count(inner) for region in op.regions for inner in region.blocks)
            return total

        expanded = count(*file_models.entry(self.module, self.where).regions[0].blocks)
        if expanded > MOST_OPS:
            got = f"{expanded:,} with all calls expanded"
            raise InputError(self.where, f"at most {MOST_OPS:,} ops", got, "fewer calls of calls")

    def _constant(self, op: Any, env: dict[Any, int], path: str, place: Place) -> Node:
        self.structural += 1
        number = self._new(env, op.results[0])
        if not self.ops:
            self.constant_ops[number] = op
        try:
            key = op.attributes["value"]
        except TypeError:
            array = constant_array(op)
        else:
            if key not in self.arrays:
                self.arrays[key] = constant_array(op)
            array = self.arrays[key]
        if array is not None:
            self.constants[number] = array
            if is_splat(array):
                self.splats.add(number)
        return Node(
            "constant", op.name, path, (), (number,), value=array, location=str(place), framework_op=place.framework_op
        )

    def _returned_constants(self, nodes: list[Node], results: tuple[int, ...]) -> None:
        """Makes ops of the constants that a program returns which has no ops."""
        for index, node in enumerate(nodes):
            [number] = node.results
            if number not in results:
                continue
            op = self.constant_ops[number]
            op_id = digest(self.identity.text(op, lambda _: None))
            if op_id not in self.ops:
                self.ops[op_id] = self._single(spelled_out(op, node.value), op_id, {}, {}, [], ())
                self.use_lists[op_id] = []
            use = Use(model=self.model, path=node.path, location=node.location, framework_op=node.framework_op)
            self.use_lists[op_id].append(use)
            self.structural -= 1
            unsplittable = bool(self.ops[op_id].unsplittable)
            kind: NodeKind = "unsplittable" if unsplittable else "op"
            outputs = () if unsplittable else (number,)
            nodes[index] = replace(node, kind=kind, op_id=op_id, outputs=outputs, value=None)

    def _callee(self, op: Any) -> str:
        """The function that a call expands to; empty if it has no body or is being expanded already."""
        name = op.attributes["callee"].value
        function = self.symbols.get(name)
        inlined = function is not None and name not in self.calls and len(function.regions[0].blocks) == 1
        return name if inlined else ""

    def _call(
        self, op: Any, operands: tuple[int, ...], env: dict[Any, int], path: str, place: Place, nodes: list[Node]
    ) -> None:
        """Walks the callee here: its arguments are the operands' numbers, the call's results the returned ones."""
        name = op.attributes["callee"].value
        [block] = self.symbols[name].regions[0].blocks
        inner = dict(zip(block.arguments, operands, strict=True))
        self.calls.append(name)
        results = self._block(block, inner, f"{path}@{name}", place, nodes)
        self.calls.pop()
        env.update(zip(op.results, results, strict=True))

    def _renames(self, op: Any, name: str, operands: tuple[int, ...], env: dict[Any, int]) -> bool:
        """Whether an op only gives values of this program another name, which it then has in `env`."""
        if name == "stablehlo.tuple":
            if not _is_taken_apart(op):
                return False
            self.tuples[self._new(env, op.results[0])] = operands
            return True
        elements = self.tuples.get(operands[0])
        if elements is not None:
            env[op.results[0]] = elements[op.attributes["index"].value]
        return elements is not None

    def _op(
        self,
        op: Any,
        name: str,
        operands: tuple[int, ...],
        env: dict[Any, int],
        path: str,
        place: Place,
        call: Place,
    ) -> Node:
        """The node of one op, its module made and its use counted; `call` is where its function is called."""
        has_regions = len(op.regions) > 0
        outer = dict.fromkeys(operands)
        if has_regions:
            for inner in inner_ops(op):
                outer.update(dict.fromkeys(env[value] for value in inner.operands if value in env))
        tokens = [n for n in outer if self.descs[n].data_type == TOKEN]
        for n in tokens:
            del outer[n]
        embedded = self._embedded(name, operands, outer)
        inputs = tuple([n for n in outer if n not in embedded])
        results = tuple([self._new(env, result) for result in op.results])
        op_id = self._id(op, name, has_regions, operands, results, env, embedded, inputs)
        if op_id not in self.ops:
            self.ops[op_id] = self._single(op, op_id, env, embedded, tokens, inputs)
            self.use_lists[op_id] = []
        single = self.ops[op_id]
        if self.dim_names is not None:
            self._name_dims(op, name, operands, results, single)
        location, framework_op = str(place), place.framework_op
        self.use_lists[op_id].append(Use(model=self.model, path=path, location=location, framework_op=framework_op))
        bodies = self._bodies(op, name, env, path, call) if name in BODIES else ()
        if name in KEEPS_SPLAT and operands[0] in self.splats:
            self._spread_splat(operands[0], results[0])
        return Node(
            "unsplittable" if single.unsplittable else "op",
            single.op_name,
            path,
            operands,
            results,
            op_id,
            () if single.unsplittable else inputs,
            () if single.unsplittable else tuple([n for n in results if self.descs[n].data_type != TOKEN]),
            None,
            location,
            framework_op,
            bodies,
        )

    def _name_dims(
        self, op: Any, name: str, operands: tuple[int, ...], results: tuple[int, ...], single: SingleOp
    ) -> None:
        """Names the dims of an op's results, and those that its reason gives by number."""
        assert self.dim_names is not None
        self.dim_names.follow(op, name, operands, results)
        value, dynamic, _ = single.unsplittable.partition(f" {DYNAMIC}")
        if dynamic:
            kind = value.rpartition(": ")[2]
            values = [n for n in (*operands, *results) if str(self.types[n]) == kind]
            self.dims.setdefault(single.op_id, []).extend(self.dim_names.of(n) for n in values[:1])

    def _embedded(self, name: str, operands: tuple[int, ...], outer: dict[int, None]) -> dict[int, np.ndarray]:
        """The outer values that become constants in the op's module."""
        constants = self.constants
        if constants.keys().isdisjoint(outer):
            return {}
        shapes = SHAPE_OPERANDS.get(name, frozenset())
        own = {n for i, n in enumerate(operands) if i in shapes}
        embedded = {n: constants[n] for n in outer if n in self.splats or (n in own and n in constants)}
        for n in [n for n in embedded if PREFIX in str(self.types[n])]:
            del embedded[n]  # MLIR reads no constant of a quantised type
        first = next(iter(outer))
        if len(embedded) == len(outer) and first not in own:
            del embedded[first]
        return embedded

    def _spread_splat(self, source: int, result: int) -> None:
        """Notes that `result` is the splat `source` in another shape."""
        desc = self.descs[result]
        if desc.data_type == self.descs[source].data_type and all(extent > 0 for extent in desc.shape):
            self.constants[result] = np.broadcast_to(self.constants[source].reshape(-1)[0], desc.shape)
            self.splats.add(result)

    def _token(self, number: int) -> str:
        """What stands in an id for an embedded constant: its bits and type."""
        token = self.constant_tokens.get(number)
        if token is None:
            token = f"c<{array_token(self.constants[number])}:{self.type_tokens[number]}>"
            self.constant_tokens[number] = token
        return token

    def _id(
        self,
        op: Any,
        name: str,
        has_regions: bool,
        operands: tuple[int, ...],
        results: tuple[int, ...],
        env: dict[Any, int],
        embedded: dict[int, np.ndarray],
        inputs: tuple[int, ...],
    ) -> str:
        """The canonical id of `op` in its place."""
        token_of: dict[int | None, str] = {n: self._token(n) for n in embedded}
        for i, n in enumerate(inputs):
            token_of[n] = f"a{i}:{self.type_tokens[n]}"
        if self.mesh and self._joint(op):
            place = "".join(f"{key}={value};" for key, value in self.mesh.items())
            return digest(place + self.identity.text(op, lambda value: token_of.get(env.get(value), TOKEN)))
        if has_regions:
            return digest(self.identity.text(op, lambda value: token_of.get(env.get(value))))
        attributes = tuple(attribute_items(op)) if len(op.attributes) else ()
        tokens = self.type_tokens
        key = (name, attributes, *[token_of.get(n, TOKEN) for n in operands], "->", *[tokens[n] for n in results])
        op_id = self.ids.get(key)
        if op_id is None:
            text = self.identity.text(op, lambda value: token_of.get(env.get(value), TOKEN))
            op_id = self.ids[key] = digest(text)
        return op_id

    def _single(
        self,
        op: Any,
        op_id: str,
        env: dict[Any, int],
        embedded: dict[int, np.ndarray],
        tokens: list[int],
        inputs: tuple[int, ...],
    ) -> SingleOp:
        """The module of one unique op, or why there is none. Its uses come later."""
        inputs_desc = tuple(self.descs[n] for n in inputs)
        outputs = tuple(tensor_desc(r.type) for r in op.results if str(r.type) != TOKEN)
        params = {key: parameter_text(attr) for key, attr in attribute_items(op)}
        if op.name in NAMED_BODIES:
            params["body"] = body_text(op)
        if any(PREFIX in str(value.type) for value in (*op.operands, *op.results)):
            params[QUANTISED] = quantised_text(op)
        reason, bytecode = "", b""
        try:
            if op.name in CALLS:
                callee = op.attributes["callee"].value
                raise CannotBuildError(
                    f"@{callee} calls itself" if callee in self.calls else f"@{callee} has no body of one block"
                )
            module = build_module(
                op,
                env.get,
                [(n, self.types[n]) for n in inputs],
                {n: (array, self.types[n]) for n, array in embedded.items()},
                tokens,
                self.symbols.get,
            )
            if self.mesh and self._joint(op):
                for key, value in self.mesh.items():
                    module.operation.attributes[key] = value
            bytecode = to_bytecode(module)
        except CannotBuildError as error:
            reason = str(error)
        return SingleOp(op_id, op_name(op), bytecode, inputs_desc, outputs, params, (), reason)

    @staticmethod
    def _joint(op: Any) -> bool:
        """Whether an op depends on the devices of the mesh, by itself or by an op in its regions."""
        return any(each.name in COLLECTIVES or not JOINT.isdisjoint(each.attributes) for each in (op, *inner_ops(op)))

    def _bodies(self, op: Any, name: str, env: dict[Any, int], path: str, call: Place) -> tuple[Program, ...]:
        """The regions of a while, if or case as programs of their own."""
        bodies = []
        names = BODIES[name]
        for i, region in enumerate(op.regions):
            label = names[i] if names else f"branch{i}"
            first_inner = len(self.types)
            block = region.blocks[0]
            arguments = tuple([self._new(env, argument) for argument in block.arguments])
            nodes: list[Node] = []
            results = self._block(block, env, f"{path}.{label}", call, nodes)
            bodies.append(Program(label, arguments, tuple(nodes), results, _captures(nodes, results, first_inner)))
        return tuple(bodies)


def _is_taken_apart(op: Any) -> bool:
    """Whether what a `tuple` makes is only taken apart again, or put into another such tuple."""
    users = [use.owner.operation for use in op.results[0].uses]
    return all(
        user.name == "stablehlo.get_tuple_element" or (user.name == "stablehlo.tuple" and _is_taken_apart(user))
        for user in users
    )


def body_text(op: Any) -> str:
    """Names of the ops in the regions of `op` without their returns: `a, b`, regions apart as `a; b`."""
    regions = []
    for region in op.regions:
        inner = [view.operation.name for block in region.blocks for view in block.operations]
        regions.append(", ".join(name for name in inner if not name.endswith(".return")))
    return "; ".join(regions)


def quantised_text(op: Any) -> str:
    """The element types of what an op of quantised tensors takes and gives: `!quant.uniform<...>, f32 -> f32`."""
    words = [
        [str(value.type.element_type) if hasattr(value.type, "element_type") else str(value.type) for value in values]
        for values in (op.operands, op.results)
    ]
    return " -> ".join(", ".join(part) for part in words)


def _captures(nodes: list[Node], results: tuple[int, ...], first_inner: int) -> tuple[int, ...]:
    """Values numbered before `first_inner` that `nodes` or `results` use, in order of first use."""
    used: dict[int, None] = {}
    for node in nodes:
        used.update(dict.fromkeys(node.operands))
        used.update(dict.fromkeys(node.inputs))
        for body in node.bodies:
            used.update(dict.fromkeys(body.captures))
    used.update(dict.fromkeys(results))
    return tuple(n for n in used if n < first_inner)
