"""Where the simulator's bits, in exact order, are not those of ttnn's own kernels: what their rule is, and how far off.

Held against runs of ttnn 0.81.1's kernels on ttsim 1.10.0, Tenstorrent's own simulator, which says of itself that it
has the hardware's bits; no silicon was asked. `python -m ci.benchmarks.real_kernels FOLDER` compares any folder
of recorded runs. `python -m opscope.simulator.real_kernels` prints the section of docs/conformance.md.
"""

from __future__ import annotations

from dataclasses import dataclass

BF16, F32, BFP4 = "Float16_b", "Float32", "Bfp4_b"


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
    "products at every fidelity and width of Dst, in blocks and with block floats, with a bias and an activation, "
    "fused or as an operation of its own; convolutions of which ttnn deals the pixels to cores, with a bias",
    "sums and means, along rows and columns, of bfloat16 and float32; maxima",
    "add, subtract, multiply, divide, maximum, minimum, comparisons, rounding, sign",
    "exponentials, logarithms, roots, reciprocals, sigmoid, silu, tanh, erf, erfc, gelu, trigonometric and hyperbolic "
    "functions and their inverses, of bfloat16 and float32",
    "softmax, layer_norm, rms_norm, with ttnn's own settings and others, with a weight and a bias; batch_norm",
)
"""What has every bit in exact order."""

APART = (
    *(
        Apart(
            ("conv2d",),
            data_format,
            "of windows larger than 1x1, where ttnn deals channels and not pixels to cores (seen with 64 channels and "
            "few pixels): an order that was not found",
            f"up to {percent} % of the largest result",
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
    Apart(("tanh",), F32, "NaN keeps its sign", "the sign of NaN"),
    Apart(
        ("pow_tensor", "pow_scalar", "atan2", "remainder", "erfinv", "hardsigmoid", "square"),
        F32,
        "steps of their own, which were not looked at",
        "the function's own rounding here, up to some 4",
    ),
    Apart(
        ("pow_tensor", "pow_scalar", "atan2", "remainder", "erfinv", "hardsigmoid"),
        BF16,
        "steps of their own, which were not looked at",
        "the function rounded once here, up to some 1",
    ),
    Apart(
        ("typecast",), F32, "NaN becomes the largest or smallest integer, of bfloat16 Inf", "0 and NaN, for NaN alone"
    ),
    Apart(
        ("typecast",),
        BFP4,
        "exponent 255 is one of a block's, and reads as Inf",
        "the largest finite number, in blocks with Inf, NaN or the largest bfloat16 alone",
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
        "Bits that no recorded run has, and rest on the kernels' sources alone: of norms and softmax along other dims",
        "than the last, of mean and variance in training, of activations fused to convolutions, and of functions in a",
        "format that the recorded jobs lack. Group norm has no kernel here: it is composed of reshapes, means and",
        "elementwise kernels, each by its own rule, and was not compared with ttnn's.",
        "",
        "Without `--exact-order` sums and products are added as the host adds them, sums of bfloat16 are rounded once,",
        "functions, softmax and norms are exact but for rounding, and the larger and smaller of two propagate NaN.",
        "On Wormhole 89 of 116 recorded runs have Blackhole's bits; its rules are not followed apart.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(section())
