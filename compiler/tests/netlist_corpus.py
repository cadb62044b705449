"""Real netlists of TT-Buda's back end, each compiled, run on the simulator and compared as its `test-config` asks:
`python -m opscope.compiler.tests.netlist_corpus [PATTERN] [--seed S]`.

Prints why each of the others is not: a template, a field that has no kernel here, or other numbers. The exit code is
1 if one ends in an exception that nobody expected, or an error test of the back end is accepted.
"""

from __future__ import annotations

import argparse
import collections
import sys
import traceback
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml

from opscope.compiler.buda.netlist.check import for_first_chip
from opscope.compiler.buda.netlist.parse import parse
from opscope.compiler.buda.netlist.to_binary import to_binary
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target import binary
from opscope.compiler.tests import netlist_golden
from opscope.compiler.tests.netlist_golden import NotModelledError
from opscope.compiler.tests.programs import CASES
from opscope.simulator.api import Device, DeviceError

ARCHIVE = CASES / "netlists.zip"


@dataclass(frozen=True)
class Outcome:
    """What became of one netlist: `passed`, `compiled` (it asks for no comparison), or why not."""

    name: str
    result: str
    """passed, compiled, template, refused, other numbers, golden, device or exception."""
    why: str = ""
    asks: bool = False
    """Whether it has a `test-config`."""


def outcomes(pattern: str = "", seed: int = 0) -> Iterator[Outcome]:
    """Takes the netlists of the archive whose name contains `pattern` to a compared result."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".yaml") and pattern in name:
                text = archive.read(name).decode()
                result, why = _outcome(text, seed)
                yield Outcome(name, result, why, "test-config" in text)


def _outcome(text: str, seed: int) -> tuple[str, str]:
    try:
        netlist = for_first_chip(parse(text))
        planned = to_binary(netlist, parameters={})
        data = binary.write(planned.binary)
    except CompilerInputError as error:
        return ("template" if "$TEMPLATE" in str(error) else "refused"), str(error)
    except Exception:  # noqa: BLE001 - this list is there to show that there is none
        return "exception", traceback.format_exc(limit=-3)
    raw = yaml.load(text, yaml.CSafeLoader)
    if "test-config" not in raw:
        return "compiled", ""
    try:
        inputs = netlist_golden.inputs_of(raw, seed)
        expected = netlist_golden.golden(raw, inputs)
    except (NotModelledError, ValueError, KeyError) as missing:
        return "golden", f"expected a golden, got {missing}"
    try:
        program = planned.graph
        sources = [inputs[name].astype(np.float32) for name in program.sources]
        results = Device(planned.binary.board, profile="buda").load(data).run(sources).outputs
    except DeviceError as error:
        return "device", str(error)
    except Exception:  # noqa: BLE001 - as above
        return "exception", traceback.format_exc(limit=-3)
    try:
        return _compared(raw, dict(zip(program.outputs, results, strict=True)), expected)
    except NotModelledError as missing:
        return "golden", f"expected a golden, got {missing}"


def _compared(raw: Any, results: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> tuple[str, str]:
    for name, got in results.items():
        if got.shape != expected[name].shape:
            return "other numbers", f"{name}: expected shape {expected[name].shape}, got {got.shape}"
        why = netlist_golden.differences(
            expected[name], got, raw["test-config"].get("comparison-config") or netlist_golden.COMPARISON
        )
        if why:
            return "other numbers", f"{name}: {why}"
    return ("passed", "") if results else ("golden", "expected a queue that the host reads, got none")


def main(arguments: list[str] | None = None) -> int:
    """Prints the outcome of each netlist that did not pass, and the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pattern", nargs="?", default="", help="part of the names of the netlists to take")
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs")
    options = parser.parse_args(arguments)
    counts: collections.Counter[str] = collections.Counter()
    asked = wrong = 0
    for outcome in outcomes(options.pattern, options.seed):
        counts[outcome.result] += 1
        error_test = "error_tests" in outcome.name
        asked += outcome.asks and not error_test
        wrong += outcome.result == "exception" or (error_test and outcome.result != "refused")
        if outcome.result not in ("passed", "compiled"):
            print(f"{outcome.result}: {outcome.name}\n  {outcome.why}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in counts.most_common()))
    print(f"{counts['passed']} passed of {asked} that ask for a comparison")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
