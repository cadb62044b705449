"""Each hypothesis on a real result with that fault, and none on results that are right or merely noisy."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.explain.element_errors import Judged
from opscope.harness.explain.explain import explain
from opscope.harness.explain.hypotheses.rounding import in_blocks
from opscope.harness.prepare.golden import compile_module
from opscope.harness.prepare.split import split_module
from opscope.harness.record.explanation import ResultExplanation
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import Target

HOST = Target("host", None, "exact")
CARD = Target("sim-n150", None, "HiFi4", "Tf32")
BLOCKS = Target("sim-n150", "Bfp4_b", "HiFi4", "Tf32")
DOT = """func.func @main(%a: tensor<2x64x48xf32>, %b: tensor<2x48x64xf32>) -> tensor<2x64x64xf32> {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<2x64x48xf32>, tensor<2x48x64xf32>) -> tensor<2x64x64xf32>
  return %0 : tensor<2x64x64xf32>
}"""
EXP = """func.func @main(%a: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = stablehlo.exponential %a : tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}"""
DIVIDE = """func.func @main(%a: tensor<32x64xf32>, %b: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %0 = stablehlo.divide %a, %b : tensor<32x64xf32>
  return %0 : tensor<32x64xf32>
}"""
CONVERT = """func.func @main(%a: tensor<64x64xf32>) -> tensor<64x64xbf16> {
  %0 = stablehlo.convert %a : (tensor<64x64xf32>) -> tensor<64x64xbf16>
  return %0 : tensor<64x64xbf16>
}"""
REVERSE = """func.func @main(%a: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %0 = stablehlo.reverse %a, dims = [0] : tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}"""
SUM = """func.func @main(%a: tensor<64x64xf32>) -> tensor<64xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [1]
    : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}"""


class Ran:
    """The one op of a module, run by XLA on seeded inputs."""

    def __init__(self, text: str, *inputs: np.ndarray, target: Target = HOST) -> None:
        (self.op,) = split_module(text.encode()).ops.values()
        rng = np.random.default_rng(3)
        self.inputs = list(inputs) or [rng.standard_normal(d.shape).astype(np.float32) for d in self.op.inputs]
        self.target = target
        self.operands = Operands(self.op.op_name, self.op.bytecode, lambda: self.inputs, self.op.op_params.get("body"))
        self.golden = compile_module(self.op.bytecode, widen=True)(self.inputs)

    def explained(self, got: np.ndarray) -> ResultExplanation | None:
        """The explanation of the first result; None if it is right."""
        op = self.op
        described = {"inputs": op.inputs, "outputs": op.outputs, "params": op.op_params}
        checks = compare(self.golden, [got], op.op_name, self.target, operands=self.operands, **described)
        if checks[0].passed:
            return None
        judged = Judged(op.op_name, self.target, op.inputs, op.outputs, op.op_params, self.golden, [got], self.operands)
        explanation = explain(judged, checks, op_id=op.op_id, backend="test", seconds=60)
        assert not explanation.note
        return explanation.results[0]


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ran() -> dict[str, Ran]:
    """The ops that the faults are made in."""
    rng = np.random.default_rng(4)
    special = rng.standard_normal((64, 64)).astype(np.float32)
    special[3:5, :40] = np.nan
    special[9, 8:16] = 100.0
    masked = rng.uniform(-6, 0, (64, 64)).astype(np.float32)
    masked[:, ::7] = -1e4
    return {
        "dot": Ran(DOT),
        "dot on a card": Ran(DOT, target=CARD),
        "exp": Ran(EXP),
        "exp on a card": Ran(EXP, target=CARD),
        "convert": Ran(CONVERT),
        "divide": Ran(DIVIDE),
        "reverse": Ran(REVERSE),
        "special": Ran(EXP, special),
        "sum": Ran(SUM),
        "masked": Ran(EXP, masked, target=BLOCKS),
    }


def changed(got: np.ndarray, place: object, value: object) -> np.ndarray:
    wrong = got.copy()
    wrong[place] = value
    return wrong


def cut(x: np.ndarray, bits: int = 16) -> np.ndarray:
    """float32 cut to its upper bits."""
    return (x.astype(np.float32).view(np.uint32) & np.uint32((1 << 32) - (1 << bits))).view(np.float32).astype(x.dtype)


FAULTS: list[tuple[str, Callable[[Ran, np.ndarray], np.ndarray], str]] = [
    (
        "dot on a card",
        lambda op, y: changed(y, np.s_[1, 32:, :32], 0),
        "missing: zeros throughout tile (1, 1, 0), where -",
    ),
    ("dot on a card", lambda op, y: changed(y, np.s_[0, 16:32, 48:], 0), "missing: zeros throughout face (0, 1, 3)"),
    ("dot", lambda op, y: changed(y, np.s_[1, 5], 0), "missing: zeros throughout row (1, 5)"),
    ("dot", lambda op, y: changed(y, np.s_[0], 0), "missing: zeros throughout batch entry 0"),
    ("dot", lambda op, y: np.zeros_like(y), "missing: zeros throughout the whole result"),
    ("dot", lambda op, y: np.where(abs(y) < 0.5, np.float32(0), y), "missing: values of at most 0.499 are zero"),
    ("dot on a card", lambda op, y: changed(y, np.s_[0, :32, 32:], 7), "constant: 7 stands throughout tile (0, 0, 1)"),
    ("dot", lambda op, y: np.clip(y, -9, 9), "clipped: values above 9 and below -9 are cut to that bound"),
    ("dot", lambda op, y: -y, "sign: every value has the other sign"),
    ("dot", lambda op, y: abs(y), "sign: every value lost its minus sign"),
    ("dot", lambda op, y: changed(y, (0, 3, 4), -y[0, 3, 4]), "sign: the sign is turned in 1 of 8,192 elements"),
    ("dot", lambda op, y: y.swapaxes(1, 2), "transposed: the matrix of its last two dims is transposed"),
    (
        "dot on a card",
        lambda op, y: y.reshape(2, 2, 32, 2, 32).transpose(0, 1, 4, 3, 2).reshape(y.shape),
        "transposed: each tile is transposed",
    ),
    (
        "dot",
        lambda op, y: y[::-1],
        "another entry: batch entries of dim 0 stand in another's place: 0 holds 1, 1 holds 0",
    ),
    (
        "dot",
        lambda op, y: y[:, [1, 0, *range(2, 64)]],
        "another entry: entries of dim 1 stand in another's place: 0 holds 1",
    ),
    (
        "exp",
        lambda op, y: changed(np.roll(y, 3, 1), np.s_[:, :3], 9),
        "shifted: every value is 3 places too far along dim 1",
    ),
    (
        "dot on a card",
        lambda op, y: changed(y, np.s_[0, 32:], y[0, :32]),
        "stale: what belongs in the tile before it stands in 2 tiles",
    ),
    (
        "exp on a card",
        lambda op, y: changed(y, np.s_[32:, 32:], op.inputs[0][32:, 32:]),
        "stale: input 0 stands unchanged in tile (1, 1)",
    ),
    ("dot", lambda op, y: y * np.float32(0.125), "factor: everything is 0.125 (2^-3) times what it should be"),
    ("dot", lambda op, y: y / np.float32(48), "factor: everything is 0.020833 (1/48) times what it should be"),
    ("exp", lambda op, y: y * np.float32(1.003), "factor: everything is 1.003 times what it should be"),
    ("dot", lambda op, y: y + 1, "offset: everything is 1 too large"),
    ("exp", lambda op, y: cut(y), "truncated: rounded toward zero to 7 bits behind the leading one (bfloat16)"),
    (
        "dot",
        lambda op, y: cut(y, 13),
        "truncated: rounded toward zero to 10 bits behind the leading one (TF32 or float16)",
    ),
    ("convert", lambda op, y: cut(op.inputs[0]).astype(y.dtype), "truncated: rounded toward zero to 7 bits"),
    (
        "exp",
        lambda op, y: (cut(y).view(np.uint32) + np.uint32(1 << 16)).view(np.float32),
        "rounded away: rounded away from",
    ),
    (
        "exp",
        lambda op, y: y.astype(ml_dtypes.bfloat16).astype(np.float32),
        "narrower format: rounded to 7 bits behind the leading one, as in bfloat16",
    ),
    (
        "special",
        lambda op, y: np.where(np.isnan(y), np.float32(np.inf), y),
        "not finite: +Inf stands where NaN is expected: 80 of 4,096 elements",
    ),
    (
        "special",
        lambda op, y: np.where(np.isinf(y), np.float32(3e38), y),
        "not finite: a number stands where +Inf is expected: 8 of 4,096 elements, 3e+38 in all of them",
    ),
    (
        "special",
        lambda op, y: np.where(y > 9, np.float32(np.inf), y),
        "not finite: +Inf stands where a number is expected",
    ),
    ("divide", lambda op, y: op.inputs[1] / op.inputs[0], "operands exchanged: its two operands are exchanged"),
    ("reverse", lambda op, y: op.inputs[0][:, ::-1], "another axis: computed with dimensions 1 instead of 0"),
    ("sum", lambda op, y: op.inputs[0].sum(axis=0), "another axis: computed with dimensions 0 instead of 1"),
    (
        "exp",
        lambda op, y: in_blocks(y, 2, True),
        "stored in blocks: the result was stored in blocks of 16 that keep 2 bits",
    ),
    (
        "masked",
        lambda op, y: np.exp(in_blocks(op.inputs[0], 2, True)),
        "block format: its operands were stored in blocks of 16 that keep 2 bits of the largest (Bfp4): ",
    ),
    # A host's tensors have no tiles: what is seen is said by rows, or by how much it is.
    ("dot", lambda op, y: changed(y, np.s_[1, 32:, :32], 0), "missing: 1,024 of 8,192 elements are zero, in no row of"),
    ("dot", lambda op, y: changed(y, np.s_[0, :32, 32:], 7), "constant: 7 stands throughout 1,024 of 8,192 elements"),
    (
        "dot",
        lambda op, y: changed(y, np.s_[1, 5], y[1, 4]),
        "stale: what belongs in the row before it stands in row (1, 5",
    ),
    (
        "exp",
        lambda op, y: changed(y, np.s_[32:, 32:], op.inputs[0][32:, 32:]),
        "stale: input 0 stands unchanged in 1,024 of 4,096 elements",
    ),
]


@pytest.mark.parametrize(("name", "fault", "said"), FAULTS, ids=[f"{name}: {said[:44]}" for name, _, said in FAULTS])
def test_a_fault_is_named(ran: dict[str, Ran], name: str, fault: Callable, said: str) -> None:
    op = ran[name]
    result = op.explained(np.ascontiguousarray(fault(op, op.golden[0]).astype(op.golden[0].dtype)))
    assert result is not None, "the verdict lets the fault pass"
    assert result.hypothesis.startswith(said)


@pytest.mark.parametrize("name", ["dot", "exp", "convert", "divide", "sum"])
def test_noise_has_no_hypothesis(ran: dict[str, Ran], name: str) -> None:
    op = ran[name]
    golden = op.golden[0]
    assert op.explained(golden) is None
    rng = np.random.default_rng(5)
    wide = golden.astype(np.float64)
    for size, of_each in ((3e-3, False), (3e-2, True), (1.0, False)):
        noise = rng.standard_normal(golden.shape) * (np.abs(wide) if of_each else np.sqrt(np.mean(wide**2)))
        result = op.explained((wide + size * noise).astype(golden.dtype))
        assert result is not None, size
        assert not result.hypothesis, (size, result.hypothesis)
    result = op.explained(rng.permutation(golden.ravel()).reshape(golden.shape))
    assert result is not None
    assert not result.hypothesis
