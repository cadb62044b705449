"""Where the simulator's bits, in exact order, are not those of ttnn's own kernels: what their rule is, and how far off.

Held against runs of ttnn 0.81.1's kernels on ttsim 1.10.0, Tenstorrent's own simulator, which says of itself that it
has the hardware's bits; no silicon was asked. `python -m ci.benchmarks.real_kernels FOLDER` compares any folder
of recorded runs. `python -m opscope.simulator.real_kernels` prints the section of docs/conformance.md.
"""

from __future__ import annotations

from dataclasses import dataclass

BF16, F32, BFP8 = "Float16_b", "Float32", "Bfp8_b"


@dataclass(frozen=True)
class Apart:
    """Kernels whose results have other bits than ttnn's."""

    kernels: tuple[str, ...]
    data_format: str
    rule: str
    """What the real kernel does."""
    effect: str
    """How far the simulator is from it, in units in the last place of the format unless it says otherwise."""


SAME = (
    "products at every fidelity and width of Dst, in blocks, with block floats, of operands of two formats, batched "
    "and transposed, with a bias and an activation, fused or as an operation of its own; convolutions, with a bias",
    "sums and means, along rows, columns and both, of bfloat16, float32 and Bfp8_b; maxima and minima",
    "add, subtract, multiply, divide, maximum, minimum, comparisons, logical functions, rounding, sign, also of "
    "operands that broadcast",
    "exponentials, logarithms, powers, roots, reciprocals, sigmoid, silu, tanh, erf and its inverse, erfc, gelu, "
    "trigonometric and hyperbolic functions and their inverses, of bfloat16, float32 and Bfp8_b",
    "softmax along any dim, layer_norm, rms_norm, with ttnn's own settings and others, with a weight and a bias; "
    "batch_norm",
    "conversions between float32, bfloat16, Bfp8_b, Bfp4_b and integers of 8, 16 and 32 bits",
)
"""What has every bit in exact order, in 99 % of values or more (a NaN, a denormal or a tie may differ)."""

APART = (
    *(
        Apart(
            ("conv2d",),
            data_format,
            "deals pixels or channels to cores, as needs less of L1; here channels are dealt from 64 of them on",
            f"up to {percent} % of the largest result, where ttnn chooses the other",
        )
        for data_format, percent in ((BF16, 3), (F32, 1))
    ),
    Apart(
        ("batch_norm_inference",),
        F32,
        "with a Dst of 16 bits, steps that were not found",
        "up to 2^-6 of the terms, with such a Dst alone",
    ),
    Apart(("neg",), F32, "a denormal becomes a zero of its sign", "the denormal here, for denormals alone"),
    Apart(("relu", "leaky_relu"), F32, "a denormal stays one", "0 here, for denormals alone"),
    *(
        Apart(
            ("remainder",),
            data_format,
            "has the divisor's sign, as Python's; fmod, which has this one's, takes steps that were not followed",
            f"another function where the signs differ; {share} % of fmod's values, the sign of 0 among them",
        )
        for data_format, share in ((BF16, 7), (F32, 27))
    ),
    Apart(
        ("min", "divide"),
        BFP8,
        "what fills up a block is Inf, by whose exponent its neighbours become 0",
        "numbers here, in a row's last block of fewer than 16 elements, and where a divisor broadcasts",
    ),
)


def cause(kernel: str, data_format: str) -> str:
    """Returns the rules of the real kernel that the simulator does not follow; empty where none is known."""
    rows = [row for row in APART if kernel in row.kernels and row.data_format == data_format]
    return "; ".join(row.rule for row in rows)


def section() -> str:
    """Returns the section of docs/conformance.md."""
    lines = [
        "## Real kernels",
        "",
        "`--exact-order` computes as ttnn's own kernels do on Blackhole, as far as their rules are known. Recorded",
        "runs of ttnn 0.81.1 on ttsim 1.10.0 have the same bits in:",
        "",
        *(f"- {what}" for what in SAME),
        "",
        "What differs (in ulp of the format, unless it says otherwise):",
        "",
        "| kernels | format | the real kernel | how far this is off |",
        "|---|---|---|---|",
        *(f"| {', '.join(row.kernels)} | `{row.data_format}` | {row.rule} | {row.effect} |" for row in APART),
        "",
        "Bits that no recorded run has, and rest on the kernels' sources alone: of mean and variance in training,",
        "of activations fused to convolutions, of softmax along other dims than the last with a Dst of 16 bits.",
        "ttnn's `fast_and_approximate_mode` was not followed: no recorded run has it, and its results on all values",
        "of bfloat16 would be needed. Group norm has no kernel here: it is composed of reshapes, means and",
        "elementwise kernels, each by its own rule, and was not compared with ttnn's.",
        "",
        "Without `--exact-order` sums and products are added as the host adds them, sums of bfloat16 are rounded",
        "once, functions, softmax and norms are exact but for rounding, and the larger and smaller of two",
        "propagate NaN. Of the measured jobs this differs, in parts of the largest result, by up to 1.6 % with a",
        "Dst of 32 bits (of float32 by 0.1 %, convolutions by 0.7 %); with one of 16 bits by up to 4 %, and 19 %",
        "of Bfp8_b, whose partial sums ttnn packs (K = 2,048); softmax by up to 3 %, norms by up to 6 %.",
        "On Wormhole 89 of 116 recorded runs have Blackhole's bits; its rules are not followed apart.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(section())
