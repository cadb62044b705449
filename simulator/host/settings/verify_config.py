"""What is verified of a run."""

from __future__ import annotations

from dataclasses import dataclass

from opscope.simulator.host.errors import PyBudaError


@dataclass
class VerifyConfig:
    """Verification of a run against XLA, which computes the module in float32."""

    enabled: bool = True
    test_kind: str = "inference"
    pcc: float | None = None
    """Smallest correlation of each result with XLA's; None checks nothing."""
    verify_each_buda_pass: bool = False
    """Has no effect: every pass is checked by the compiler's own tests."""

    def __post_init__(self) -> None:
        """Raises PyBudaError for a correlation that is no number."""
        pcc: object = self.pcc
        if pcc is not None and (isinstance(pcc, bool) or not isinstance(pcc, int | float)):
            raise PyBudaError(f"VerifyConfig: pcc: expected a number, such as 0.99, got {pcc!r}")
