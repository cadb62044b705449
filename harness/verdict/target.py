"""What a verdict is keyed by: what the requested target computes in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from opscope.harness.verdict.tails import Form, Tail


@dataclass(frozen=True)
class Target:
    """What the *requested* target computes in: the key of the tolerance table (harness/verdict/tolerance.py)."""

    card_type: str
    """`sim-n150`, `host`, `none`."""
    float_format: str | None
    """Forced format of floats (`Bfp8_b`, ...) or None: each tensor's own type."""
    math_fidelity: str
    """`HiFi4`, ...; `exact` for a host that computes in IEEE."""
    matrix_format: str | None = None
    """What float32 becomes inside the matrix unit: `Tf32`, or None if it stays float32."""
    narrow_dst: bool = False
    """Whether the matrix unit adds up in 16 bits."""
    exact_order: bool = False
    """Whether products are added as the matrix unit adds them, which rounds each to 10 bits below the largest."""
    sums_in_own_type: bool = False
    """Whether a host adds floats of 16 bits up in their own type, as IREE does, instead of in float32."""
    rounds_steps: bool = False
    """Whether a host may round each step of a composite of 16 bits to the op's own type, as XLA does; else steps stay
    in float32 until the result is rounded."""
    tf32_products: bool = False
    """Whether a host makes products of float32 in TF32, as NVIDIA's tensor cores do."""
    signed_zeros: bool = False
    """Whether a board keeps the sign of a zero that it only moves; a host does."""
    beside_card: bool = False
    """Whether a card's host computed the op: what it has in double precision is on no card."""
    product_format: str | None = None
    """Forced format of what products read and write, narrower than that (mixed precision); None: `float_format`."""
    error_bound: Callable[[str], float | None] | None = field(default=None, compare=False)
    """Op name -> bound of the device's float32 error in units in the last place; None if it states none."""
    cuts_result: Callable[[str], bool] | None = field(default=None, compare=False)
    """Op name -> whether the device cuts the op's results, instead of rounding them, where it computes floats of 16
    bits; None: it never does."""
    tails: tuple[Tail, ...] = ()
    """What its kernels are documented to return in place of a function's value, and where."""
    forms: tuple[Form, ...] = ()
    """What its kernels are documented to compute in a formula's place."""

    @property
    def tiled(self) -> bool:
        """Whether it holds tensors in tiles of 32x32, as a card does; what computes exactly, in IEEE, is no card."""
        return self.math_fidelity != "exact"

    def on_host(self) -> Target:
        """The target of what was asked of a card and computed on its host: in the op's own types, exactly; what comes
        back to the card is stored in the card's format."""
        return replace(
            self,
            beside_card=True,
            product_format=None,
            math_fidelity="exact",
            matrix_format=None,
            narrow_dst=False,
            error_bound=None,
            cuts_result=None,
            tails=(),
            forms=(),
        )


HOST = Target("host", None, "exact")
"""A machine that computes in IEEE arithmetic, each op in its own type."""
