"""Compares the values inside a model, as far as a device shows them while it runs the model whole, with their goldens.

A value's error holds what it got from the values it was computed from. So an op is *suspect* where its error is above
its own row of the tolerance table and more than `GROWTH` times that of its inputs. XLA computes the result of a suspect
op once more, on the inputs that the device had: an op that is right on those only passes errors on (`amplifies`), one
that is wrong on them is where the model's error *jumps*.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from opscope.base.op_families import PRODUCTS, judged_as, op_family
from opscope.harness.prepare.live_golden import LiveGolden
from opscope.harness.prepare.paths import moved_shape, moves_of, path_of
from opscope.harness.prepare.program import Node, SingleOp, SplitModule
from opscope.harness.prepare.walk import Missing
from opscope.harness.record.records import Jump, ResultCheck, TensorDesc
from opscope.harness.verdict.check import check, check_cancelling
from opscope.harness.verdict.compare import compare_op
from opscope.harness.verdict.operands import Operands, wide
from opscope.harness.verdict.ordered_sums import norm
from opscope.harness.verdict.target import Target
from opscope.harness.verdict.tolerance import SUM_BODY, Tolerance, inner_size, tolerance

GROWTH = 4.0
"""An error that is at most so many times that of the op's inputs is theirs."""

HELD_BYTES = 4 << 30
"""Values of the device that may be kept at once; above, a suspect op cannot be computed again on its own inputs."""

MOST_FUSED = 64
"""Values before an op that are not shown; with more of them its own inputs are not looked for."""

Fetch = Callable[[], Sequence[np.ndarray]]


@dataclass(frozen=True)
class Intermediate:
    """One op of the program as it went inside the model."""

    path: str
    op_id: str
    op_name: str
    location: str
    pcc: float | None
    """The smallest PCC over its results; None if PCC has no meaning."""
    error: float | None
    """Relative L2 against the golden, the largest over its results; of integers and booleans the share that differs;
    None if NaN or infinities stand elsewhere."""
    pcc_before: float | None
    error_before: float | None
    """The same for the values that it was computed from; 0 for arguments and constants."""
    verdict: str
    """`right`; `amplifies`: right on the inputs that the device had; `jump`: wrong on them; `suspect`: the error grows,
    and these inputs are not all known, as where a compiler fused them away."""


class Watch:
    """Receives the values of one run and compares each as it comes."""

    def __init__(
        self, split: SplitModule, inputs: Sequence[np.ndarray], target: Target, cache_dir: Path | None
    ) -> None:
        """`inputs` are the values of the program's arguments; the device must not write to them."""
        self.split = split
        # Any value may be what a product reads, and lies in that format then.
        self.target = replace(target, float_format=target.product_format) if target.product_format else target
        self.nodes = {node.path: node for node in split.program.walk() if node.kind == "op" and node.outputs}
        self.seconds = 0.0
        """Time that comparing took; the device did nothing meanwhile."""
        self.intermediates: dict[str, Intermediate] = {}
        self.skipped: dict[str, str] = {}
        self._inputs, self._cache_dir = inputs, cache_dir
        self._producer = {value: node for node in split.program.walk() for value in node.results}
        self._arguments = {value: number for number, value in enumerate(split.program.arguments)}
        self._walk: LiveGolden | None = None
        self._errors: dict[int, tuple[float, float | None]] = {}
        self._values: dict[int, np.ndarray] = {}
        self._readers: dict[int, int] = {}
        self._held = 0
        self._groups: dict[str, list[Node]] = {}
        self._paths: frozenset[str] = frozenset()

    @property
    def expected(self) -> Mapping[str, tuple[TensorDesc, ...]]:
        """Path -> types of the results that a value must have to be compared."""
        return {path: tuple(self.split.values[v] for v in node.outputs) for path, node in self.nodes.items()}

    def begin(self, paths: frozenset[str]) -> None:
        """Receives the paths of the nodes whose values will come."""
        self._walk = LiveGolden(self.split, self._inputs, paths, self._cache_dir)
        self._paths = paths
        for path in paths:
            for value in self._read_by(self.nodes[path]):
                self._readers[value] = self._readers.get(value, 0) + 1

    def seen(self, path: str, fetch: Fetch) -> None:
        """Receives the results of the node at `path`. If a node runs again, its first results count."""
        if path in self.intermediates or path in self.skipped or self._walk is None:
            return
        begun = time.perf_counter()
        node = self.nodes[path]
        goldens = self._walk.results(path)
        missing = next((g.why for g in goldens if isinstance(g, Missing)), "" if goldens else "never evaluated")
        if missing:
            self.skipped[path] = missing
        else:
            self._judge(node, [g for g in goldens if not isinstance(g, Missing)], fetch())
        self._release(node)
        self.seconds += time.perf_counter() - begun

    def close(self) -> None:
        """Ends the walk; what is held is forgotten."""
        if self._walk is not None:
            self._walk.close()
        self._walk, self._values = None, {}

    def in_order(self) -> list[Intermediate]:
        """The compared ops, in the program's order."""
        return [self.intermediates[path] for path in self.nodes if path in self.intermediates]

    def first_jump(self) -> Jump | None:
        """The first op of the program whose own error makes the model's jump."""
        for intermediate in self.in_order():
            if intermediate.verdict in ("jump", "suspect"):
                fields = asdict(intermediate)
                return Jump(confirmed=fields.pop("verdict") == "jump", **fields)
        return None

    def lines(self) -> str:
        """The compared values, one line each, as their artifact holds them."""
        return "".join(f"{json.dumps(asdict(intermediate))}\n" for intermediate in self.in_order())

    # --- one node

    def _judge(self, node: Node, goldens: Sequence[np.ndarray], got: Sequence[np.ndarray]) -> None:
        """Compares a node's results and keeps them for the nodes that read them."""
        got = [_narrowed(array, golden) for array, golden in zip(got, goldens, strict=True)]
        rows = [self._row(node, number) for number in range(len(goldens))]
        checks = [check(g, d, row) for g, d, row in zip(goldens, got, rows, strict=True)]
        errors = [_error(result_check, g, d) for result_check, g, d in zip(checks, goldens, got, strict=True)]
        measured = [result_check.pcc for result_check in checks if result_check.pcc is not None]
        error, pcc = max(errors), min(measured, default=None)
        before = [self._error_of(value) for value in self._read_by(node)]
        error_before = max((e for e, _ in before), default=0.0)
        pcc_before = min((p for _, p in before if p is not None), default=None)
        for value, array, own_error, result_check in zip(node.outputs, got, errors, checks, strict=True):
            self._errors[value] = own_error, result_check.pcc
            self._keep(value, array)
        limit = min(row.relative_l2 for row in rows)
        verdict = "right"
        # An error that is no number is above every limit.
        if not error <= max(limit, GROWTH * error_before):
            verdict = self._on_own_inputs(node, got)
        self.intermediates[node.path] = Intermediate(
            node.path,
            node.op_id,
            node.name,
            node.location,
            pcc,
            _finite(error),
            pcc_before,
            _finite(error_before),
            verdict,
        )

    def _row(self, node: Node, number: int) -> Tolerance:
        """What one result of a node is held to: the coarsest row of the node and of what was fused into it."""
        rows = [self._own_row(fused_node, min(number, len(fused_node.outputs) - 1)) for fused_node in self._fused(node)]
        return max(rows, key=lambda row: row.relative_l2)

    def _own_row(self, node: Node, number: int) -> Tolerance:
        """The row of an op by itself."""
        op = self.split.ops[node.op_id]
        kind, body = op_family(op.op_name), op.op_params.get("body")
        inner = inner_size(kind, op.inputs, op.outputs, op.op_params)
        data_type = op.outputs[number].data_type
        ulp = self.target.error_bound(op.op_name) if self.target.error_bound else None
        op_name = judged_as(op.op_name, (desc.data_type for desc in op.inputs))
        return tolerance(self.target, kind, data_type, inner, op_name=op_name, body=body, ulp=ulp)

    def _on_own_inputs(self, node: Node, got: Sequence[np.ndarray]) -> str:
        """The verdict on a suspect op by the inputs that the device had."""
        values: dict[int, np.ndarray] = {}
        for value in self._read_by(node):
            array = self._value(value)
            if array is None:
                return "suspect"
            values[value] = array
        assert self._walk is not None
        fused = self._fused(node)
        right: list[Any] = []
        for fused_node in fused:
            right = self._walk.alone(fused_node, values)
            if any(isinstance(result, Missing) for result in right):
                return "suspect"
            values.update(zip(fused_node.outputs, right, strict=True))
        if len(fused) > 1:
            pairs = enumerate(zip(right, got, strict=True))
            checks = [self._judge_fused(fused, values, r, d, self._row(node, number)) for number, (r, d) in pairs]
            return "amplifies" if all(result_check.passed for result_check in checks) else "jump"
        op = self.split.ops[node.op_id]
        operands = self._operands(op, [values[value] for value in node.inputs])
        checks = compare_op(op, right, got, self.target, operands)
        return "amplifies" if all(result_check.passed for result_check in checks) else "jump"

    def _operands(self, op: SingleOp, inputs: Sequence[np.ndarray]) -> Operands:
        """The operands that an op had on the device."""
        return Operands(
            op.op_name, op.bytecode, lambda: inputs, op.op_params.get("body"), None, lambda: self._cache_dir
        )

    # --- what a compiler fused

    def _judge_fused(
        self, fused: Sequence[Node], values: dict[int, np.ndarray], right: np.ndarray, got: np.ndarray, row: Tolerance
    ) -> ResultCheck:
        """The comparison of one result of several ops in one; where one of them is a sum of its size whose terms may
        cancel, by the size of these, scaled as the other ops scale the sum."""
        plain = check(right, got, row)
        for node in reversed(fused):
            op, total = self.split.ops[node.op_id], values[node.outputs[0]]
            if plain.passed or plain.max_abs is None or row.exact:
                break
            sums = op_family(op.op_name) in PRODUCTS or op.op_params.get("body") == SUM_BODY
            if sums and total.size == right.size:
                terms = self._operands(op, [values[value] for value in node.inputs]).term_sizes[0]
                scale = norm(wide(right).ravel()) / max(norm(wide(total).ravel()), 1e-300)
                return check_cancelling(right, got, row, terms.reshape(right.shape) * scale, plain)
        return plain

    def _fused(self, node: Node) -> list[Node]:
        """A node, last, and those before it whose values the device does not show: it makes them on the way to this."""
        group = self._groups.get(node.path)
        if group is None:
            member_of_path = {node.path: node}
            waiting = [node]
            while waiting and len(member_of_path) <= MOST_FUSED:
                for value in waiting.pop().inputs:
                    maker = self._producer.get(value)
                    if maker is not None and maker.kind == "op" and maker.path not in {*self._paths, *member_of_path}:
                        member_of_path[maker.path] = maker
                        waiting.append(maker)
            # Values are numbered in the program's order.
            group = self._groups[node.path] = sorted(member_of_path.values(), key=lambda member: member.results)
        return group

    def _read_by(self, node: Node) -> list[int]:
        """The values that a node, with what was fused into it, is computed from."""
        fused = self._fused(node)
        made_inside = {value for member in fused for value in member.results}
        return list(dict.fromkeys(value for member in fused for value in member.inputs if value not in made_inside))

    # --- values

    def _value(self, value: int) -> np.ndarray | None:
        """What the device held for a value, if it is known."""
        if value in self._arguments:
            return self._inputs[self._arguments[value]]
        maker = self._producer.get(value)
        if maker is not None and maker.kind == "constant":
            return maker.value
        return self._values.get(value)

    def _error_of(self, value: int) -> tuple[float, float | None]:
        """Error and PCC of a value; of one that was fused away, those of what it was computed from."""
        stack, errors = [value], [0.0]
        met, pccs = set[int](), list[float]()
        while stack:
            number = stack.pop()
            if number in met:
                continue
            met.add(number)
            if number in self._errors:
                error, pcc = self._errors[number]
                errors.append(error)
                pccs += [] if pcc is None else [pcc]
            elif (maker := self._producer.get(number)) is not None:
                stack.extend(maker.operands)
        return max(errors), min(pccs, default=None)

    def _keep(self, value: int, array: np.ndarray) -> None:
        """Keeps a value of the device until its last reader has been judged."""
        if self._readers.get(value) and self._held + array.nbytes <= HELD_BYTES:
            self._values[value] = array
            self._held += array.nbytes

    def _release(self, node: Node) -> None:
        """Forgets the values whose last reader this was."""
        for value in self._read_by(node):
            self._readers[value] -= 1
            if not self._readers[value] and value in self._values:
                self._held -= self._values.pop(value).nbytes


def _finite(error: float) -> float | None:
    """An error as files hold it."""
    return error if math.isfinite(error) else None


class CompiledOp(NamedTuple):
    """One operation of a compiled program."""

    program: int
    """0: the entry."""
    location: str
    results: Sequence[tuple[tuple[int, ...], str]]
    """Shape and element type of each."""


def candidates(operations: Sequence[CompiledOp], expected: Mapping[str, tuple[TensorDesc, ...]]) -> dict[str, int]:
    """Path -> number of the operation that holds the value of the node there, its results of the right types: the first
    whose location says by which moves, else the last of that path; one of the entry before any other."""
    number_of_path: dict[str, int] = {}
    for number, (program, location, results) in enumerate(operations):
        path, moves = path_of(location), moves_of(location)
        descs = expected.get(path)
        if descs is None or moves is None or len(descs) != len(results):
            continue
        before = operations[number_of_path[path]] if path in number_of_path else None
        if before is not None and (before.program < program or moves_of(before.location)):
            continue
        if all(
            _same(desc, moved_shape(shape, moves), kind) for desc, (shape, kind) in zip(descs, results, strict=True)
        ):
            number_of_path[path] = number
    return number_of_path


def _same(desc: TensorDesc, shape: tuple[int, ...] | None, element: str) -> bool:
    """Whether a device's tensor stands for a value: indices of 64 bits may have become 32."""
    return desc.shape == shape and (desc.data_type == element or (desc.data_type, element) in _NARROWED)


_NARROWED = {("i64", "i32"), ("ui64", "ui32"), ("ui64", "i32"), ("i64", "ui32")}


def _narrowed(got: np.ndarray, golden: np.ndarray) -> Any:
    """A value in the type that the program declares."""
    return got if got.dtype == golden.dtype else got.astype(golden.dtype)


def _error(result_check: ResultCheck, golden: np.ndarray, got: np.ndarray) -> float:
    """The size of the error of a result; infinite where infinities or NaN stand in other places."""
    if result_check.relative_l2 is not None:
        return float(result_check.relative_l2)
    if result_check.passed:
        return 0.0  # next to nothing in place of zeros
    return float(np.mean(golden != got)) if golden.dtype.kind in "biu" else float("inf")
