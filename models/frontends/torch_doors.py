"""The two doors from PyTorch to StableHLO, and which of them a model takes. Imports neither.

torchax has JAX trace the module; torch-mlir lowers what `torch.export` makes of it. A door is usable where its package
is installed and PyTorch's release is one that it was run with.
"""

from __future__ import annotations

from opscope.models import frontends
from opscope.models.frontends.base import Refused

TORCHAX, TORCH_MLIR = "torchax", "torch-mlir"
EXTRAS = {TORCHAX: "torch", TORCH_MLIR: "torchmlir"}
"""Door -> the extra that installs it, first the one that is taken where both are usable."""


def door(asked: str) -> str:
    """The door that was asked for (`--torch-by`), or the first usable one; without any, the first that is installed.

    Raises Refused if none is installed, or the one that was asked for is not made for the installed PyTorch.
    """
    if asked:
        if (strange := _why_not(asked)) is None:
            return asked
        other = next((name for name in EXTRAS if name != asked and _why_not(name) is None), "")
        hint = f"--torch-by {other}" if other else frontends.install_command(EXTRAS[asked])
        raise Refused(f"--torch-by {asked}", frontends.releases_run(EXTRAS[asked]), strange, hint)
    found = [name for name in EXTRAS if _why_not(name) is None]
    installed = [name for name in EXTRAS if frontends.installed(name)]
    if not installed:
        raise Refused("PyTorch", " or ".join(EXTRAS), "neither", frontends.install_command(EXTRAS[TORCHAX]))
    return [*found, *installed][0]


def _why_not(name: str) -> str | None:
    """What is wrong with the packages of a door; None if nothing is."""
    if not frontends.installed(name):
        return f"no {name}"
    return ", ".join(frontends.strangers(EXTRAS[name])) or None
