"""What ttnn's own kernels gave, as recorded, is right by the judge, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from ci.benchmarks.real_kernels import KernelJob, kernel_jobs
from ci.calibration.silicon_rows import SILICON
from opscope import Verdict, judge
from opscope.harness.judge.promise import promised

pytestmark = pytest.mark.slow

RECORDED = SILICON.parent / "real_kernels"
Lie = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""An operand and the right result -> a wrong one."""
TYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32), "i32": np.dtype(np.int32)}


def named(job: KernelJob, inputs: list[np.ndarray], output: np.ndarray) -> str:
    """What the judge calls a kernel with its attributes: a formula, or a StableHLO text."""
    op, params = job.operation.kernel, job.operation.params
    if op in ("eq", "lt"):
        return text(
            inputs,
            output,
            "%0 = stablehlo.compare {op}, %a0, %a1 : (tensor<{a}>, tensor<{a}>) -> tensor<{b}>\n"
            "%1 = stablehlo.convert %0 : (tensor<{b}>) -> tensor<{y}>".replace("{op}", op.upper()),
        )
    if op == "max":
        return text(
            inputs,
            output,
            "%0 = stablehlo.constant dense<0x{inf}> : tensor<{e}>\n"
            "%1 = stablehlo.reduce(%a0 init: %0) applies stablehlo.maximum across dimensions = [{dim}] "
            ": (tensor<{a}>, tensor<{e}>) -> tensor<{y}>".replace("{dim}", str(params.dims[0])),
        )
    if op == "typecast":
        return text(inputs, output, "%1 = stablehlo.convert %a0 : (tensor<{a}>) -> tensor<{y}>")
    if op in ("sum", "mean"):
        return f"{op}(axis={params.dims[0]})"
    if op in ("layer_norm", "rms_norm"):
        return f"{op}(epsilon={params.epsilon})"
    return "gelu_tanh" if op == "gelu" and params.scalars else op


def text(inputs: list[np.ndarray], output: np.ndarray, body: str) -> str:
    kinds = {kind: name for name, kind in TYPES.items()}
    a, y = ("x".join((*map(str, each.shape), kinds[each.dtype])) for each in (inputs[0], output))
    words = {"a": a, "y": y, "b": f"{a.rpartition('x')[0]}xi1", "e": kinds[output.dtype]}
    words["inf"] = "FF80" if output.dtype.itemsize == 2 else "FF800000"
    for word, said in words.items():
        body = body.replace("{" + word + "}", said)
    operands = ", ".join(f"%a{number}: tensor<{a}>" for number in range(len(inputs)))
    return f"func.func @main({operands}) -> tensor<{y}> {{\n{body}\nreturn %1 : tensor<{y}>\n}}"


def arrays(job: KernelJob) -> tuple[list[np.ndarray], np.ndarray]:
    """A job's operands and its result, in their types."""
    *sources, result = job.program.tensors
    inputs = [
        values.astype(TYPES[desc.element_type]) for values, desc in zip(job.values.values(), sources, strict=True)
    ]
    block = result.data_format.startswith("Bfp")
    output = job.expected.view(np.float32 if block else TYPES[result.element_type]).astype(TYPES[result.element_type])
    if hasattr(params := job.operation.params, "dims"):
        return inputs, output.reshape(np.max(inputs[0], params.dims).shape)
    return inputs, output.reshape(result.shape)


def judged(job: KernelJob, lie: Lie | None = None) -> Verdict:
    """The verdict on a job's result, or on a lie, by its kernel's own fidelity and Dst."""
    (inputs, output), numerics = arrays(job), job.operation.numerics
    target = promised(f"card:p150:{numerics.fidelity}" + ":dst16" * (numerics.dst_format != "Float32")).target
    if (stored := job.program.tensors[-1].data_format).startswith("Bfp"):
        target = replace(target, float_format=stored)
    if lie is not None:
        output = lie(inputs[0].astype(np.float64), output.astype(np.float64)).astype(output.dtype)
    return judge(named(job, inputs, output), inputs, output, target=target)


@pytest.fixture(scope="module")
def jobs() -> Iterator[dict[str, KernelJob]]:
    if not RECORDED.exists():
        pytest.skip(f"no recorded runs at {RECORDED}")
    found, without = kernel_jobs(RECORDED)
    assert not without
    with np.errstate(all="ignore"):
        yield {job.name: job for job in found}


def test_recorded_results_are_right(jobs: dict[str, KernelJob]) -> None:
    wrong = [str(verdict) for job in jobs.values() if not (verdict := judged(job))]
    assert not wrong, "\n".join(wrong)


def far(x: np.ndarray) -> np.ndarray:
    return np.abs(x) >= 1e6


TAILS = {
    "sin_bf16": far,
    "cos_bf16": far,
    "tan_bf16": far,
    "rsqrt_bf16": lambda x: (x > 0) & (x < 2.0**-126),
    "erfc_f32": lambda x: (x > 1) & (x < 5),
    "softmax_64x96_bf16": lambda x: x < 0,
    "typecast_bf16_to_bfp4": lambda x: np.repeat(np.isinf(x).reshape(-1, 16).any(1), 16).reshape(x.shape) & (x < 2e37),
}
"""Jobs with elements that are right as documented alone, and which these are."""
LIES: dict[str, Lie] = {
    "flipped": lambda _, y: -y,
    "larger": lambda _, y: 1.05 * y,
    "zero": lambda _, y: 0 * y,
    "another's": lambda _, y: np.roll(y, 1),
    "1.0": lambda _, y: np.ones_like(y),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", TAILS)
def test_another_value_in_a_tail_or_outside_it_is_wrong(jobs: dict[str, KernelJob], name: str, lie: str) -> None:
    """Where it differs at all, as zeros times a number do not."""
    inside, change = TAILS[name], LIES[lie]
    if (name, lie) == ("typecast_bf16_to_bfp4", "larger"):
        change = lambda _, y: 2 * y  # noqa: E731  its steps are a seventh of the largest in 16
    (x, *_), right = arrays(jobs[name])
    assert "documented_tail" in judged(jobs[name]).flags
    assert any("ttnn 0.81.1" in said for said in judged(jobs[name]).documented)
    for where in (inside, lambda x: ~inside(x)):
        spoiled: Lie = lambda x, y, where=where: np.where(where(x), change(x, y), y)  # noqa: E731
        wide = right.astype(np.float64)
        if np.array_equal(spoiled(x.astype(np.float64), wide), wide, equal_nan=True):
            assert name == "typecast_bf16_to_bfp4"
            continue
        assert judged(jobs[name], spoiled).answer == "wrong"
