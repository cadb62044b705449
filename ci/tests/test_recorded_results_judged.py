"""What ttnn's own kernels gave, as recorded, is right by the judge; what is not, is named here with the reason."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from ci.benchmarks.real_kernels import KernelJob, kernel_jobs
from ci.calibration.silicon_rows import SILICON
from opscope import judge
from opscope.harness.judge.promise import promised

pytestmark = pytest.mark.slow

RECORDED = SILICON.parent / "real_kernels"
TYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32), "i32": np.dtype(np.int32)}
PERIODS = "from 1e6 on multiples of pi are taken away in float32, and from 1e13 on nothing is left of the function"
APPROXIMATE = "ttnn's own choice for bf16 are approximate exponentials, 3.5 % off"
WRONG = {
    "sin_bf16": PERIODS,
    "cos_bf16": PERIODS,
    "tan_bf16": PERIODS,
    "rsqrt_bf16": "of denormals it is neither as of them nor as of zero",
    "erfc_f32": "2e-4 off below -1, 0.6 at 5",
    "softmax_32x1024_bf16": APPROXIMATE,
    "softmax_64x96_bf16": APPROXIMATE,
    "softmax_64x96_bf16_numeric_stableTrue": APPROXIMATE,
    "typecast_bf16_to_bfp4": "a block that holds an infinity is 0 elsewhere",
}
"""Jobs whose results are wrong, and why."""


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


def judged(job: KernelJob) -> str:
    """Why a job's result is wrong by its kernel's own fidelity and Dst; empty if it is right."""
    *sources, result = job.program.tensors
    inputs = [
        values.astype(TYPES[desc.element_type]) for values, desc in zip(job.values.values(), sources, strict=True)
    ]
    bits, block = job.expected, result.data_format.startswith("Bfp")
    output = bits.view(np.float32 if block else TYPES[result.element_type]).astype(TYPES[result.element_type])
    numerics, params = job.operation.numerics, job.operation.params
    if hasattr(params, "dims"):
        output = output.reshape(np.max(inputs[0], params.dims).shape)
    target = promised(f"card:p150:{numerics.fidelity}" + ":dst16" * (numerics.dst_format != "Float32")).target
    if block:
        target = replace(target, float_format=result.data_format)
    verdict = judge(named(job, inputs, output), inputs, output, target=target)
    return "" if verdict else str(verdict)


@pytest.mark.skipif(not RECORDED.exists(), reason=f"no recorded runs at {RECORDED}")
def test_recorded_results_are_right_but_for_those_that_are_not() -> None:
    jobs, without = kernel_jobs(RECORDED)
    assert not without
    with np.errstate(all="ignore"):
        wrong = {job.name: said for job in jobs if (said := judged(job))}
    assert wrong.keys() == WRONG.keys(), "\n".join(said for name, said in wrong.items() if name not in WRONG)
