"""One walk over a split program: goldens, and captured inputs, of the first use of each unique op.

The ops are evaluated in program order by the executables of `opscope.harness.prepare.golden`; values are freed at their
last use, and what a first use needs is stored once. A value that could not be computed is *missing*, and so is all
that rests on it: its users get random inputs by the distribution of their domain, so that every op that can be tested
is, and what they make of these is their own golden and nobody's input.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.jobs_ahead import JobsAhead
from opscope.base.slots import Slots
from opscope.base.stablehlo import nesting
from opscope.harness.cache.export_folder import JOURNAL, OPS, VALUES
from opscope.harness.prepare import golden
from opscope.harness.prepare.authorities import beside_goldens, formulas, known_wrong
from opscope.harness.prepare.authorities.beside_goldens import save_anew
from opscope.harness.prepare.input_distributions import class_distributions, domain_distribution
from opscope.harness.prepare.inputs import drawn
from opscope.harness.prepare.own_random_numbers import OWN_NUMBERS, own_random_numbers
from opscope.harness.prepare.program import Node, Program, SingleOp, SplitModule, last_uses
from opscope.harness.record.element_types import MOST_DIMS, NUMPY_NAMES, byte_size, load, numpy_dtype, size_text
from opscope.harness.record.records import ClassInputs, OpRow, SecondAuthority, Source, TensorDesc
from opscope.models.seeding import draw

BARRIER = "stablehlo.optimization_barrier"
LINE = 256
"""Bytes of a line of the walk's journal."""


@dataclass(frozen=True)
class Limits:
    """Sizes above which a value is not computed."""

    tensor_bytes: int = 2 << 30
    live_bytes: int = 8 << 30
    input_bytes: int = 2 << 30
    """No random input above this is made: neither the walk nor a lane would survive a few of them."""
    measured_bytes: int = 1 << 30
    """Operands up to here are squared to measure the terms of a sum."""


@dataclass(frozen=True)
class Missing:
    """A value that was not computed, and why."""

    reason: str
    op_name: str = ""
    """The op that has no value, whose own this is or on whose value it rests; empty for an argument or a constant."""

    @property
    def why(self) -> str:
        """Why there is no golden of what rests on it."""
        return f"rests on {self.op_name}: {self.reason}" if self.op_name else self.reason


@dataclass
class WalkTask:
    """The input of a walk."""

    split: SplitModule
    distributions: Sequence[str]
    """Distribution of each argument of the program."""
    seed: int
    folder: Path
    """Export folder under construction: values are stored below it."""
    provenance: str
    """Beginning of the provenance of captured inputs: `captured:<module>:<weights seed>`."""
    author: str = field(default="", kw_only=True)
    """End of the provenance: ` by jaxlib@0.10.2`, where it is not the installed release that makes goldens."""
    cache_dir: Path | None = None
    limits: Limits = field(default_factory=Limits)
    fatal_ops: Mapping[str, str] = field(default_factory=dict)
    """Ops that crashed an earlier walk -> how. They are not evaluated again."""
    value_files: Mapping[int, str] = field(default_factory=dict)
    """Argument -> file below `folder` with its value, where that is not drawn by its distribution."""
    compile_threads: int = 0
    """On how many threads ops are compiled before they are needed. With none, each is compiled when it is needed, and
    what ends the process is the doing of the op in the journal."""
    random: bool = False
    """Whether all inputs are random, so that no op reads what another computed."""
    classes: bool = False
    """Whether these are of the classes that reach each op's domain (input_distributions.py)."""
    frontend: str = ""
    journal: str = JOURNAL
    """File below `folder` with the op under evaluation."""
    slots: Slots | None = None
    """Of these the walk has one, which it hands on between two ops where another process waits."""
    on_progress: Callable[[int, int], None] = lambda done, total: None
    """Called with ops evaluated and ops in all."""
    on_row: Callable[[OpRow], None] | None = None
    """Called with the row of each op once its inputs and goldens are stored."""


@dataclass(frozen=True)
class Walked:
    """The result of a walk."""

    rows: list[OpRow]
    results: Sequence[np.ndarray | Path | Missing]
    """Final outputs of the whole program, or the files with them (none with random inputs)."""


def walk(plan: WalkTask, kind: Callable[[WalkTask], Walker] | None = None) -> Walked:
    """Evaluates the program of `plan.split` once; one row per unique op, in order of first use.

    `kind` makes the walker, by default one of a single device.
    """
    for name in (OPS, VALUES):
        (plan.folder / name).mkdir(exist_ok=True)
    walker = (kind or Walker)(plan)
    if plan.random:
        first = {node.op_id: node for node in reversed(list(plan.split.program.walk())) if node.kind == "op"}
        for done, op in enumerate(plan.split.ops.values()):
            if op.op_id in first:
                walker.evaluate_apart(op, first[op.op_id])
                walker.announce(op)
            plan.on_progress(done + 1, len(plan.split.ops))
        results: list[np.ndarray | Missing] = []
    else:
        results = walker.run()
    walker.close()
    return Walked([walker.row(op) for op in plan.split.ops.values()], results)


def journal_line(op: SingleOp) -> bytes:
    """An op as the journal of the walk names it: id, name and place, padded so that it covers the line before."""
    place = op.uses[0].location if op.uses else ""
    return f"{op.op_id} {op.op_name}{f' at {place}' if place else ''}".encode("utf-8", "replace")[:LINE].ljust(LINE)


class Walker:
    """The state of one walk."""

    def __init__(self, plan: WalkTask) -> None:
        self.plan, self.split = plan, plan.split
        self.arguments = {v: i for i, v in enumerate(self.split.program.arguments)}
        self.sources: dict[str, tuple[Source, ...]] = {}
        self.goldens: dict[str, tuple[str, ...]] = {}
        self.term_sizes: dict[str, tuple[str, ...]] = {}
        self.second: dict[str, SecondAuthority] = {}
        self.reasons: dict[str, str] = {}
        self.provenance: dict[str, str] = {}
        self.classes: dict[str, tuple[ClassInputs, ...]] = {}
        self.stored: set[int] = set()
        self.executables: dict[str, golden.Executable | str] = {}
        self.ahead = JobsAhead(self.jobs(), plan.compile_threads) if plan.compile_threads else None
        self.journal = os.open(plan.folder / plan.journal, os.O_WRONLY | os.O_CREAT)
        self.live_bytes = 0
        self.draws: dict[str, str] = {}
        """Op -> the op in it, or itself, that draws such numbers; empty if none does."""
        self.drawn: dict[int, str] = {}
        """Values that rest on random numbers of XLA's own, and the op that drew these: they are captured, since each op
        is judged on its own inputs, but no other implementation has the same in the end."""
        self.computed: set[int] = set()
        """Values that count in `live_bytes`."""
        self.nested: dict[str, int] = {}
        """Op -> how deep the branches and loops in it lie in one another."""
        _note_nesting(self.split.program, self.nested)
        self.total = sum(node.kind == "op" for node in self.split.program.nodes)

    def close(self) -> None:
        """Ends the journal: nothing is under evaluation any more."""
        if self.ahead is not None:
            self.ahead.close()
        os.ftruncate(self.journal, 0)
        os.close(self.journal)

    # --- the program ---------------------------------------------------------------------------------------------

    def run(self) -> list[np.ndarray | Missing]:
        """Evaluates the whole program; its final outputs."""
        program = self.split.program
        last = last_uses(program)
        env: dict[int, Any] = {}
        done = 0
        for position, node in enumerate(program.nodes):
            self.node(node, env)
            done += node.kind == "op"
            if node.kind == "op" and (done % 20 == 0 or done == self.total):
                self.plan.on_progress(done, self.total)
            for value in last.get(position, ()):
                self.free(value, env)
        return [self.final(value, env) for value in program.results]

    def final(self, value: int, env: Mapping[int, Any]) -> np.ndarray | Missing:
        """A result of the program."""
        if value in self.drawn:
            return Missing(OWN_NUMBERS, self.drawn[value])
        buffer = env[value] if value in env else self.argument(value)
        if isinstance(buffer, np.ndarray):  # a constant, of any type
            return np.array(buffer, copy=True, order="C")
        return buffer if isinstance(buffer, Missing) else golden.take(buffer)

    def node(self, node: Node, env: dict[int, Any]) -> None:
        """Evaluates one node and puts its results into `env`."""
        if node.kind == "constant":
            missing = Missing(f"constant of {self.split.values[node.results[0]].data_type}")
            value = missing if node.value is None else node.value
            env[node.results[0]] = self.above_cap(node.results[0], "constant") or value
            return
        if node.kind == "unsplittable":
            for value in node.results:
                env[value] = Missing("it could not be split", node.name)
            return
        op = self.split.ops[node.op_id]
        first = self.meets(node)
        absent = self.rests_on(node, env)
        if absent is not None and not first:
            env |= dict.fromkeys(node.results, absent)
            return
        buffers, sources = self.inputs(op, node, env, store=first)
        if first:
            self.sources[op.op_id] = sources
            self.provenance[op.op_id] = self.provenance_of(node, sources)
        results = self.evaluate(op, buffers)
        self.hand_on(node, results, absent, env)
        self.note_drawn(op, node)
        if first:
            self.remember(op, node.outputs, results)
            self.measure_terms(op, buffers)
            self.ask_second(op)
            self.announce(op)
        for body in node.bodies:
            self.body(body, node, env)

    def hand_on(self, node: Node, results: Sequence[Any], absent: Missing | None, env: dict[int, Any]) -> None:
        """Puts what a use has computed into `env`. With `absent`, which it reads, its results are those of random
        inputs: goldens, and no values of the program."""
        env |= dict.fromkeys(node.results, absent or Missing("it has no value for a result", node.name))
        for value, result in zip(node.outputs, results, strict=True):
            if absent is None and isinstance(result, Missing):
                env[value] = Missing(result.reason, node.name)
            elif absent is None:
                env[value] = result
                self.computed.add(value)
                self.live_bytes += self.bytes_of(value)
        if absent is not None and node.name == BARRIER:  # each result is an operand, whatever the others are
            env |= {value: env[operand] for value, operand in zip(node.results, node.operands, strict=True)}

    def rests_on(self, node: Node, env: dict[int, Any]) -> Missing | None:
        """The missing value that a node reads, if there is one."""
        for value in node.inputs:
            if value not in env:
                env[value] = self.argument(value)
            if isinstance(env[value], Missing):
                return env[value]
        return None

    def provenance_of(self, node: Node, sources: Sequence[Source]) -> str:
        """Where the inputs of a first use come from: `random` stands first if one of them is."""
        random = [source.kind == "random" for source in sources]
        captured = f"{self.plan.provenance}:{node.path}"
        if not any(random):
            return captured
        return f"random:{self.plan.seed}" if all(random) else f"random:{self.plan.seed}+{captured}"

    def note_drawn(self, op: SingleOp, node: Node) -> None:
        """Remembers which results rest on random numbers that each implementation draws for itself."""
        if op.op_id not in self.draws:
            self.draws[op.op_id] = own_random_numbers(op)
        drew = self.draws[op.op_id] or next((self.drawn[v] for v in node.inputs if v in self.drawn), "")
        if drew:
            self.drawn |= dict.fromkeys(node.outputs, drew)

    def body(self, body: Program, node: Node, env: dict[int, Any]) -> None:
        """Evaluates the body of a while/if/case once, on the values of its first iteration, if it holds new ops."""
        if not self.enters(body):
            return
        before = self.live_bytes
        local = dict(env)
        for argument, operand in zip(body.arguments, node.operands, strict=bool(body.arguments)):
            local[argument] = local[operand] if operand in local else self.argument(operand)
        for inner in body.nodes:
            self.node(inner, local)
        # What the body computed dies with `local`.
        self.live_bytes = before

    def meets(self, node: Node) -> bool:
        """Whether a node is the use of its op of which inputs and goldens are stored."""
        return node.op_id not in self.sources

    def enters(self, body: Program) -> bool:
        """Whether a body holds an op that was not met before."""
        return any(inner.kind == "op" and self.meets(inner) for inner in body.walk())

    # --- values --------------------------------------------------------------------------------------------------

    def bytes_of(self, value: int) -> int:
        """Size of a value."""
        desc = self.split.values[value]
        return byte_size(desc.shape, desc.data_type)

    def above_cap(self, value: int, what: str) -> Missing | None:
        """Why an argument or a constant is not made: it alone takes more than all values may take together, or has too
        many dims."""
        if reason := _no_array(self.split.values[value]):
            return Missing(reason)
        size, limit = self.bytes_of(value), self.plan.limits.live_bytes
        return Missing(f"{what} of {size_text(size)} is above the cap of {size_text(limit)}") if size > limit else None

    def free(self, value: int, env: dict[int, Any]) -> None:
        """Forgets a value after its last use."""
        if value in self.computed:
            self.live_bytes -= self.bytes_of(value)
        env.pop(value, None)

    def argument(self, value: int) -> Any:
        """The buffer of an argument of the program: from its file, or drawn by its distribution."""
        index = self.arguments[value]
        desc = self.split.values[value]
        if desc.data_type not in NUMPY_NAMES:
            return Missing(f"argument of {desc.data_type}")
        if missing := self.above_cap(value, "argument"):
            return missing
        if index in self.plan.value_files:
            return golden.put(load(self.plan.folder / self.plan.value_files[index], desc.shape, desc.data_type))
        return golden.put(self.draw(desc, self.plan.distributions[index], index))

    def draw(self, desc: TensorDesc, distribution: str, index: int) -> np.ndarray:
        """A seeded array."""
        return draw(distribution, desc.shape, numpy_dtype(desc.data_type), self.plan.seed, index)

    def inputs(
        self, op: SingleOp, node: Node, env: dict[int, Any], store: bool
    ) -> tuple[list[Any] | Missing, tuple[Source, ...]]:
        """The input buffers of one use; with `store`, also where each comes from, and captured ones become files."""
        buffers: list[Any] = []
        sources: list[Source] = []
        for index, value in enumerate(node.inputs):
            if value not in env:
                env[value] = self.argument(value)
            buffer = env[value]
            if isinstance(buffer, Missing):
                reason = self.no_random(op.inputs[index])
                if reason:
                    return Missing(reason), ()
                source, buffer = self.random(op, node, index)
                sources.append(source)
                buffers.append(buffer)
                continue
            if isinstance(buffer, np.ndarray):
                buffer = env[value] = golden.put(buffer)
            buffers.append(buffer)
            if not store:
                continue
            if value in self.arguments:
                sources.append(self.source(self.arguments[value]))
            else:
                sources.append(Source(kind="captured", path=f"{VALUES}/{value}.npy"))
                self.store(value, buffer)
        return buffers, tuple(sources)

    def source(self, index: int) -> Source:
        """Where the value of an argument of the program comes from."""
        if index in self.plan.value_files:
            return Source(kind="captured", path=self.plan.value_files[index])
        return drawn("seeded", self.plan.distributions[index], self.plan.seed, index)

    def random(self, op: SingleOp, node: Node, index: int, distribution: str = "") -> tuple[Source, Any]:
        """A random input, by the distribution of the op's domain unless another is asked for."""
        distribution = distribution or domain_distribution(self.split, node, index)
        source = drawn("random", distribution, self.plan.seed, index)
        return source, golden.put(self.draw(op.inputs[index], distribution, index))

    def no_random(self, desc: TensorDesc) -> str:
        """Why no random value of that type is made; empty if one is."""
        if desc.data_type not in NUMPY_NAMES:
            return f"no value of {desc.data_type}"
        if reason := _no_array(desc):
            return reason
        size = byte_size(desc.shape, desc.data_type)
        limit = self.plan.limits.input_bytes
        return f"input of {size_text(size)} is above the cap of {size_text(limit)}" if size > limit else ""

    def store(self, value: int, buffer: Any) -> None:
        """Writes a value once."""
        if value not in self.stored:
            save_anew(self.plan.folder / VALUES / f"{value}.npy", golden.view(buffer))
            self.stored.add(value)

    # --- ops -----------------------------------------------------------------------------------------------------

    def jobs(self) -> Iterator[tuple[str, Callable[[], Callable[[], golden.Executable]]]]:
        """The ops that are most likely evaluated, in the order of their first use."""
        for op in self.split.ops.values():
            if not op.unsplittable and op.op_id not in self.plan.fatal_ops and not self.too_large(op):
                yield op.op_id, partial(self.begin_compiling, op)

    def begin_compiling(self, op: SingleOp) -> Callable[[], golden.Executable]:
        """The first half of compiling an op; its result is the other."""
        descs = *op.inputs, *op.outputs
        size = sum(byte_size(desc.shape, desc.data_type) for desc in descs)
        level = golden.level_of(op.op_name, [desc.data_type for desc in descs], size)
        return golden.begin_compiling(op.bytecode, self.plan.cache_dir, widen=True, level=level)

    def executable(self, op: SingleOp) -> golden.Executable | str:
        """The op's executable, or why there is none."""
        executable = self.executables.get(op.op_id)
        if executable is None:
            try:
                executable = self.begin_compiling(op)() if self.ahead is None else self.ahead.take(op.op_id)
            except golden.GoldenError as error:
                executable = f"XLA does not compile it: {error}"
            self.executables[op.op_id] = executable
        return executable

    def evaluate(self, op: SingleOp, buffers: list[Any] | Missing) -> list[Any]:
        """The results of one use: buffers, or Missing."""
        reason = self.too_large(op) or (buffers.reason if isinstance(buffers, Missing) else "")
        if reason or isinstance(buffers, Missing):
            return [Missing(reason)] * len(op.outputs)
        if not (reason := self.plan.fatal_ops.get(op.op_id, "")):
            self.take_turns()
            os.pwrite(self.journal, journal_line(op), 0)
            if (form := known_wrong.formula_of(op)) is not None:
                # Of every use, not only of that whose golden is stored: what rests on it, and the results of the whole
                # model, would have XLA's error else, and an equally wrong backend would be right.
                self.second[op.op_id] = beside_goldens.by_formula(form)
                [result] = formulas.computed(op, [golden.view(buffer) for buffer in buffers])
                return [golden.put(result)]
            executable = self.executable(op)
            if isinstance(executable, golden.Executable):
                try:
                    return executable.run(buffers)
                except golden.GoldenError as error:
                    reason = f"XLA does not run it: {error}"
            else:
                reason = executable
        inputs = [golden.view(buffer) for buffer in buffers]
        made = beside_goldens.by_another(op, split_row(op, self.plan.frontend), inputs, reason)
        if isinstance(made, str):
            return [Missing(made)] * len(op.outputs)
        self.second[op.op_id], *results = made
        return [golden.put(result) for result in results]

    def take_turns(self) -> None:
        """Lets another process have this one's slot for a while, if its turn has come."""
        if (slots := self.plan.slots) is not None and slots.hand_on():
            os.ftruncate(self.journal, 0)  # no op is under evaluation meanwhile
            slots.take()

    def too_large(self, op: SingleOp) -> str:
        """Why the results, or the op, are too large to be computed; empty if they are not."""
        if reason := nesting.too_deep(self.nested.get(op.op_id, 0)):
            return reason
        if reason := next(filter(None, map(_no_array, op.outputs)), ""):
            return reason
        sizes = [byte_size(d.shape, d.data_type) for d in op.outputs]
        limits = self.plan.limits
        if max(sizes, default=0) > limits.tensor_bytes:
            return f"result of {size_text(max(sizes))} is above the cap of {size_text(limits.tensor_bytes)}"
        if self.live_bytes + sum(sizes) > limits.live_bytes:
            alive = size_text(self.live_bytes + sum(sizes))
            return f"{alive} of values alive at once are above the cap of {size_text(limits.live_bytes)}"
        return ""

    def no_golden(self, op: SingleOp, results: Sequence[Any]) -> str:
        """Why the results cannot be used as goldens; empty if they can."""
        if own_random_numbers(op):
            return OWN_NUMBERS
        return next((r.reason for r in results if isinstance(r, Missing)), "")

    def remember(self, op: SingleOp, outputs: Sequence[int], results: Sequence[Any]) -> None:
        """Stores the goldens of a first use, or the reason why there are none."""
        reason = self.no_golden(op, results)
        if reason:
            self.reasons[op.op_id] = reason
            return
        try:
            for value, result in zip(outputs, results, strict=True):
                self.store(value, result)
        except golden.GoldenError as error:
            self.reasons[op.op_id] = f"XLA does not run it: {error}"
            return
        self.goldens[op.op_id] = tuple(f"{VALUES}/{value}.npy" for value in outputs)

    def measure_terms(self, op: SingleOp, buffers: list[Any] | Missing, part: str = "") -> None:
        """Stores how large the terms of a sum are, which has a golden: what its error is measured by. `part` names
        which of several sets of operands these are."""
        executable = self.executables.get(op.op_id)
        if op.op_id not in self.goldens or isinstance(executable, str | None) or isinstance(buffers, Missing):
            return
        sizes = beside_goldens.term_sizes(op, executable, buffers, self.plan.limits.measured_bytes, part)
        for path, array in sizes.items():
            save_anew(self.plan.folder / path, array)
        if sizes:
            self.term_sizes[op.op_id] = tuple(sizes)

    def ask_second(self, op: SingleOp, part: str = "") -> None:
        """Keeps what a second authority gives for an op whose golden is known to be wrong; `part` as for its terms."""
        form = known_wrong.form_of(op)
        if form is None or op.op_id in self.second or op.op_id not in self.goldens or (row := self.row(op)).shards:
            return
        self.second[op.op_id] = beside_goldens.second_authority(row, form, self.plan.folder, part)

    def evaluate_apart(self, op: SingleOp, node: Node) -> None:
        """Random inputs and the golden on them, for one op apart from all others; several of each, if it has classes
        of inputs."""
        self.provenance[op.op_id] = f"{'classes' if self.plan.classes else 'random'}:{self.plan.seed}"
        usual = {"": [""] * len(op.inputs)}
        laws = (self.plan.classes and class_distributions(self.split, node)) or usual
        held: list[ClassInputs] = []
        for number, (name, distributions) in reversed(list(enumerate(laws.items()))):  # the first is the row's own
            for known in (self.sources, self.goldens, self.term_sizes, self.reasons, self.second):
                known.pop(op.op_id, None)
            self.evaluate_drawn(op, node, distributions, f".c{number}" if number else "")
            row = self.row(op).model_copy(update={"input_class": name})
            held.append(ClassInputs(**{each: getattr(row, each) for each in ClassInputs.model_fields}))
        self.classes[op.op_id] = tuple(reversed(held))

    def evaluate_drawn(self, op: SingleOp, node: Node, distributions: Sequence[str], part: str) -> None:
        """Inputs by their distributions, and the golden on them; `part` names which of several sets they are."""
        absent = next((reason for desc in op.inputs if (reason := self.no_random(desc))), "")
        drawn = [] if absent else [self.random(op, node, index, law) for index, law in enumerate(distributions)]
        self.sources[op.op_id] = tuple(source for source, _ in drawn)
        buffers = Missing(absent) if absent else [buffer for _, buffer in drawn]
        results = self.evaluate(op, buffers)
        reason = self.no_golden(op, results)
        if reason:
            self.reasons[op.op_id] = reason
            return
        paths = tuple(f"{VALUES}/{op.op_id}{part}.{k}.npy" for k in range(len(results)))
        for path, result in zip(paths, results, strict=True):
            save_anew(self.plan.folder / path, golden.view(result))
        self.goldens[op.op_id] = paths
        self.measure_terms(op, buffers, part)
        self.ask_second(op, part)

    def announce(self, op: SingleOp) -> None:
        """Hands on the row of an op whose inputs and goldens are stored."""
        if self.plan.on_row is not None:
            self.plan.on_row(self.row(op))

    def row(self, op: SingleOp) -> OpRow:
        """The manifest's row of a unique op; its module is written if it is not there yet."""
        row = split_row(op, self.plan.frontend)
        if row.module is None:
            return row
        write_module(self.plan.folder, op)
        reason = self.reasons.get(op.op_id, "" if op.op_id in self.goldens else "never evaluated")
        own, *others = self.classes.get(op.op_id, ()) or (None,)
        return row.model_copy(
            update={
                "sources": self.sources.get(op.op_id, ()),
                "golden": self.goldens.get(op.op_id, ()),
                "term_sizes": self.term_sizes.get(op.op_id, ()),
                "no_golden": reason,
                "second": self.second.get(op.op_id),
                "provenance": (place := self.provenance.get(op.op_id, "")) + (self.plan.author if place else ""),
                "input_class": own.input_class if own is not None else "",
                "other_classes": tuple(others),
            }
        )


def _no_array(desc: TensorDesc) -> str:
    """Why there is no array of a shape; empty if there is."""
    rank = len(desc.shape)
    return f"no value of rank {rank}: NumPy has at most {MOST_DIMS} dims" if rank > MOST_DIMS else ""


def _note_nesting(program: Program, depths: dict[str, int]) -> int:
    """Notes how deep the bodies of each op lie in one another; returns the deepest."""
    deepest = 0
    for node in program.nodes:
        if node.bodies:
            depth = 1 + max(_note_nesting(body, depths) for body in node.bodies)
            depths[node.op_id] = max(depths.get(node.op_id, 0), depth)
            deepest = max(deepest, depth)
    return deepest


def split_row(op: SingleOp, frontend: str) -> OpRow:
    """What the split knows of a unique op."""
    return OpRow(
        op_id=op.op_id,
        op_name=op.op_name,
        module=None if op.unsplittable else f"{OPS}/{op.op_id}.mlirbc",
        inputs=op.inputs,
        outputs=op.outputs,
        op_params=op.op_params,
        uses=op.uses,
        frontend=frontend,
        unsplittable=op.unsplittable,
        no_golden=f"unsplittable: {op.unsplittable}" if op.unsplittable else "",
    )


def write_module(folder: Path, op: SingleOp) -> None:
    """Writes an op's module into an export folder, once: a lane may read it already."""
    place = folder / OPS / f"{op.op_id}.mlirbc"
    if not place.exists():
        place.write_bytes(op.bytecode)
