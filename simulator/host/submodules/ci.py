"""`pybuda.ci`: where netlists are written, as programs ask."""

from __future__ import annotations

from opscope.simulator.host.compile_results import BUILD
from opscope.simulator.host.settings.options import option


def enabled() -> bool:
    """Whether TT-Buda's own CI collects what is compiled: no."""
    return False


def capture_tensors() -> bool:
    """Whether it also collects tensors: no."""
    return False


def get_netlist_dir() -> str:
    """Returns the folder of netlists."""
    return str(option("backend_output_dir", BUILD))
