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
    "products at every fidelity and width of Dst, in blocks and with block floats",
    "sums and means, along rows and columns, of bfloat16 and float32",
    "maxima; add, subtract, multiply, maximum and minimum of bfloat16; comparisons",
)
"""What has every bit in exact order."""

APART = (
    Apart(
        ("exp", "sigmoid", "silu", "log", "gelu", "asinh", "cosh"),
        BF16,
        "polynomials of few bits, some of them not those of tt-llk's public source",
        "1 in at most 1 % of all patterns",
    ),
    Apart(("gelu",), BF16, "0 below -5.54", "all of a tail of at most 8.4e-8"),
    Apart(("atanh",), BF16, "probably logarithms of rounded values", "1 to 2 in 83 % of the patterns below 1"),
    Apart(
        ("sin", "cos", "tan"),
        BF16,
        "no right digit above some 1e6, Inf above 1e13: probably the multiple of pi is taken away in float32",
        "1 below 1e4, any number above 1e6",
    ),
    Apart(
        ("ceil", "floor", "sign", "logical_not", "sqrt", "rsqrt"),
        BF16,
        "see denormals, which the simulator flushes",
        "+-1, or the function of the denormal, for 254 patterns",
    ),
    Apart(
        ("reciprocal", "relu6", "sign", "erf", "tanh"),
        BF16,
        "NaN vanishes: 0, 6, +-1, +-1 and 1",
        "Inf here, for NaN alone",
    ),
    Apart(("reciprocal", "silu"), BF16, "a result below 2^-126 + 2^-133 is 0", "one pattern"),
    Apart(("divide",), F32, "probably a product with a rounded reciprocal", "1 in 7 % of the values"),
    Apart(
        ("sqrt", "log", "log1p"), F32, "polynomials and Newton steps of their own", "1 to 2 in 4 to 13 % of the values"
    ),
    Apart(
        ("exp", "tanh", "sigmoid", "erf", "gelu"),
        F32,
        "polynomials of their own",
        "1 to 5 in 24 to 50 % of the values; gelu is 0 below -5.54",
    ),
    Apart(("erfc",), F32, "not exact near 0; 0 beyond 2.9e-12", "up to 0.4 % near 0"),
    Apart(
        ("softmax",),
        BF16,
        "by default probably an approximate exponential, and a Dst of 16 bits between the steps",
        "9 (2 % rms); with HiFi4 and a Dst of 32 bits 1 in 15 % of the values",
    ),
    Apart(
        ("layer_norm", "rms_norm"),
        BF16,
        "intermediate values probably pass SrcA and SrcB, in rms_norm a Dst of 16 bits",
        "1 to 2 in 9 to 65 % of the values, 30 near 0",
    ),
    Apart(
        ("softmax", "layer_norm", "rms_norm"),
        F32,
        "intermediate values probably enter SrcA and SrcB as TF32",
        "5e-4 to 4e-3 relative; 1e-7 here",
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
        "Without `--exact-order` sums and products are added as the host adds them, sums of bfloat16 are rounded once,",
        "exp and sigmoid of bfloat16 are exact but for rounding, and the larger and smaller of two propagate NaN.",
        "On Wormhole 89 of 116 recorded runs have Blackhole's bits; its rules are not followed apart.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(section())
