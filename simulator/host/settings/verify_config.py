"""What is verified of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class VerifyConfig:
    """Verification of a run against XLA, which computes the module in float32."""

    enabled: bool = True
    test_kind: str = "inference"
    pcc: float | None = None
    """Smallest correlation of each result with XLA's; None checks nothing."""
    verify_each_buda_pass: bool = False
    """Has no effect: every pass is checked by the compiler's own tests."""
