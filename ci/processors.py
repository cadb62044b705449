"""The same bits, the same verdict, on every processor: `python -m ci.processors`.

Judges the results of `ci.wrong_numbers` on this machine as it is, with the kernels that OpenBLAS has for other
processors, with NumPy's instructions switched off, and with code that XLA compiles for older ones, each in a process of
its own. Where golden and result have the same bits the verdicts must be the same, their figures to nine digits; it ends
with 1 if one is not.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from opscope.base.digest import words_digest

BLAS = ("Haswell", "SkylakeX", "Zen", "Nehalem")
XLA = ("AVX2", "SSE4_2")
DIGITS = 9


def settings() -> dict[str, dict[str, str]]:
    """Name of a processor -> the variables that make of this machine as much as it can of that."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    levels = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    blas = {name: {"OPENBLAS_CORETYPE": name} for name in BLAS}
    numpy = {
        f"NumPy without {' '.join(levels[start:])}": {"NPY_DISABLE_CPU_FEATURES": " ".join(levels[start:])}
        for start in range(len(levels))
    }
    xla = {f"XLA for {name}": {"XLA_FLAGS": f"--xla_cpu_max_isa={name}"} for name in XLA}
    return {"as it is": {}, **blas, **numpy, **xla}


def verdicts(seed: int, only: str) -> dict[str, dict[str, Any]]:
    """What became of each wrong and honest result on a host: its bits, and the check to DIGITS digits."""
    from ci.wrong_numbers.cases import CASES
    from ci.wrong_numbers.honest import HONEST
    from ci.wrong_numbers.ops import run
    from ci.wrong_numbers.wrong import WRONG

    once = functools.cache(lambda case: run(CASES[case], seed, "host"))
    found = {}
    for changed in (*WRONG, *HONEST):
        name = f"{changed.kind}: {changed.case}"
        if only not in name or (ran := once(changed.case)) is None:
            continue
        got = changed.change(ran)
        check = ran.verdict(got).model_dump(mode="json")
        rounded = {key: float(f"{each:.{DIGITS}g}") if isinstance(each, float) else each for key, each in check.items()}
        found[name] = {"bits": words_digest(ran.golden.tobytes().hex() + got.tobytes().hex(), digits=16), **rounded}
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each processor; 1 if a verdict depends on it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only results with this in their name")
    parser.add_argument("--here", action="store_true", help="print the verdicts of this process as JSON")
    options = parser.parse_args(arguments)
    if options.here:
        print(json.dumps(verdicts(options.seed, options.only)))
        return 0

    def judged(variables: dict[str, str]) -> dict[str, dict[str, Any]]:
        command = [sys.executable, "-m", "ci.processors", "--here", "--seed", str(options.seed), "--only", options.only]
        answer = subprocess.run(command, env={**os.environ, **variables}, stdout=subprocess.PIPE, check=True)
        return json.loads(answer.stdout)

    base: dict[str, dict[str, Any]] = {}
    differ, of = 0, settings()
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        every = list(zip(of, threads.map(judged, of.values()), strict=True))
    for name, found in every:
        base = base or found
        same = [key for key in found if found[key]["bits"] == base[key]["bits"]]
        parted = [key for key in same if found[key] != base[key]]
        for key in parted:
            print(f"  {name}: {key}: expected {base[key]}, got {found[key]}")
        differ += len(parted)
        print(f"{name}: {len(parted)} of {len(same)} verdicts differ; {len(found) - len(same)} results have other bits")
    return int(differ > 0 or not base)


if __name__ == "__main__":
    sys.exit(main())
