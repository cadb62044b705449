"""What a run ran under, beside its options and versions: it may explain results that changed though nobody changed the
compiler. No secrets, and no places: where files lie decides no result.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from opscope.base import machine
from opscope.base.digest import digest_of_sources, source_files
from opscope.base.places import HOME, room
from opscope.base.variables import OF_NATIVE_CODE, is_harmless, is_one_of
from opscope.harness.cache import export_folder, verdict_fingerprint
from opscope.harness.record.masking import mask_secrets
from opscope.harness.record.origin import CYCLE_MODEL, cpu_name

_PLACE = re.compile(r"(PATH|HOME|DIR|CACHE|ROOT|FOLDER|PREFIX|FILE)$")
"""How variables end that say where something lies."""
_FOLDERS = re.compile(r"(?<![\w./])/(?!/)(?:[^/:,;\s]+/)*")
"""The folders in front of a file's name."""

INSTRUCTIONS = ("sse4_2", "avx", "f16c", "fma", "avx2", "avx512f", "amx_tile", "asimd", "sve")
"""Sets of instructions by which XLA, NumPy and BLAS choose their code, as Linux calls them."""


def conditions(blas: Iterable[str] = (), environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Each condition and its value, as a run's options hold them (`origin.CONDITIONS`): variables that native code
    reads, processor, instructions and the kernels of `blas` that lanes compute with, what a container grants, and
    digests of our own simulator, goldens and verdict rules."""
    found = {
        name: _FOLDERS.sub("", mask_secrets(value))
        for name, value in sorted(environment.items())
        if is_one_of(name, OF_NATIVE_CODE) and not is_harmless(name) and not _PLACE.search(name)
    }
    found["processor"] = cpu_name()
    if flags := _instructions():
        found["instructions"] = " ".join(flags)
    if kernels := sorted({name for name in blas if name}):
        found["BLAS kernel"] = " ".join(kernels)
    found["processors"] = str(machine.processors())
    if limits := [limit for _, limit in machine.memory_limits()]:
        found["memory limit"] = f"{min(limits) / (1 << 30):.1f} GiB"
    simulator = source_files(HOME / "simulator", room("compiler") / "target")
    found[CYCLE_MODEL] = digest_of_sources(simulator, root=HOME, digits=12)
    found["goldens"] = digest_of_sources(source_files(*map(room, export_folder.SOURCES)), root=HOME, digits=12)
    found["verdict rules"] = verdict_fingerprint.of_rules()
    return found


def _instructions() -> list[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), [])
    return [name for name in INSTRUCTIONS if name in flags]
