"""Real netlists of TT-Buda's back end, each compiled, run on the simulator and compared as its `test-config` asks:
`python -m opscope.compiler.tests.netlist_corpus [PATTERN] [--seed S] [--json FILE] [--fill-templates]`.

With `--fill-templates` a template gets values of ours (`netlist_templates.py`), and only templates are taken.
Prints why each of the others is not: a template, a field that has no kernel here, or other numbers. The exit code is
1 if one ends in an exception that nobody expected, or an error test of the back end is accepted.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import sys
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.yaml_text import parse_yaml
from opscope.compiler.buda.netlist.check import for_first_chip
from opscope.compiler.buda.netlist.lines import with_line
from opscope.compiler.buda.netlist.parse import parse
from opscope.compiler.buda.netlist.to_binary import to_binary
from opscope.compiler.buda.test_config import config as configs
from opscope.compiler.buda.test_config.rows import NotModelledError
from opscope.compiler.buda.test_config.run import compare_run
from opscope.compiler.buda.test_config.stepwise import Step
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target import binary
from opscope.compiler.tests import netlist_templates
from opscope.compiler.tests.programs import CASES
from opscope.simulator.api import Device, DeviceError, ProgramRun

ARCHIVE = CASES / "netlists.zip"
SLOW = 60.0
"""Seconds above which a netlist is listed as slow."""


@dataclass(frozen=True)
class Outcome:
    """What became of one netlist: `passed`, `compiled` (it asks for no comparison), or why not."""

    name: str
    result: str
    """passed, compiled, template, refused, other numbers, golden, device or exception."""
    why: str = ""
    asks: bool = False
    """Whether it has a `test-config`."""
    seconds: float = 0.0
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Inputs that were compared, and how many the netlist's programs would run."""

    @property
    def is_error_test(self) -> bool:
        """Whether the back end has it to be refused."""
        return "error_tests" in self.name

    @property
    def is_template(self) -> bool:
        """Whether it is a netlist with variables that are not filled in."""
        return self.result == "template"


def outcomes(pattern: str = "", seed: int = 0, chosen: Callable[[str], bool] | None = None) -> Iterator[Outcome]:
    """Takes the netlists of the archive whose name contains `pattern`, or is `chosen`, to a compared result."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".yaml") and pattern in name and (chosen is None or chosen(name)):
                text = archive.read(name).decode()
                started = time.monotonic()
                result, why, notes = _outcome(text, seed)
                yield Outcome(name, result, why, "test-config" in text, time.monotonic() - started, notes)


def outcomes_of_templates(pattern: str = "", seed: int = 0) -> Iterator[Outcome]:
    """Fills the templates that have a `test-config`, and takes each to a compared result.

    Of the sizes and draws, the first counts that the compiler takes, whatever its numbers are.
    """
    with zipfile.ZipFile(ARCHIVE) as archive:
        for name in sorted(archive.namelist()):
            text = archive.read(name).decode()
            if pattern not in name or "$TEMPLATE" not in text or "test-config" not in text:
                continue
            started = time.monotonic()
            result, why, notes, used = "template", "", {}, 0
            for size, draw in netlist_templates.ways(seed):
                try:
                    netlist = netlist_templates.filled(text, size, draw)
                except ValueError as error:
                    result, why, notes = "template", str(error), {}
                    break
                used = size
                result, why, notes = _outcome(netlist, seed)
                if result != "refused":
                    break
            yield Outcome(name, result, why, True, time.monotonic() - started, {**notes, "tiles of a side": used})


def _outcome(text: str, seed: int) -> tuple[str, str, dict[str, Any]]:
    try:
        netlist = for_first_chip(parse(text))
        planned = to_binary(netlist, parameters={})
        data = binary.write(planned.binary)
    except CompilerInputError as error:
        return ("template" if "$TEMPLATE" in str(error) else "refused"), with_line(str(error), text), {}
    except Exception:  # noqa: BLE001 - this list is there to show that there is none
        return "exception", traceback.format_exc(limit=-3), {}
    try:
        raw = parse_yaml(text)
        if "test-config" not in raw:
            Device(planned.binary.board, profile="buda").load(data)
            return "compiled", "", {}
        device = Device(planned.binary.board, profile="buda")

        def runner(data: bytes, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            return device.load(data).run(inputs).outputs

        def step_runner(data: bytes, script: Sequence[Step]) -> Sequence[np.ndarray]:
            return ProgramRun(device.load(data)).do(script)

        verdict = compare_run(raw, configs.read(raw), planned, runner, step_runner, seed)
    except CompilerInputError as error:
        return "refused", with_line(str(error), text), {}
    except NotModelledError as missing:
        return "golden", f"expected a golden, got {missing}", {}
    except DeviceError as error:
        return "device", str(error), {}
    except Exception:  # noqa: BLE001 - as above
        return "exception", traceback.format_exc(limit=-3), {}
    notes = {"inputs": verdict.inputs, "asked": verdict.asked, "positive": verdict.positive, "rounds": verdict.rounds}
    return ("passed", "", notes) if verdict.passed else ("other numbers", verdict.why, notes)


def main(arguments: list[str] | None = None) -> int:
    """Prints the outcome of each netlist that did not pass, and the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pattern", nargs="?", default="", help="part of the names of the netlists to take")
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs")
    parser.add_argument("--fill-templates", action="store_true", help="take the templates, with values of ours")
    parser.add_argument("--json", default="", help="file for one line of JSON per netlist")
    options = parser.parse_args(arguments)
    all_outcomes: list[Outcome] = []
    chosen = outcomes_of_templates if options.fill_templates else outcomes
    for outcome in chosen(options.pattern, options.seed):
        all_outcomes.append(outcome)
        if outcome.result not in ("passed", "compiled"):
            print(f"{outcome.result}: {outcome.name}\n  {outcome.why}", flush=True)
        if options.json:
            with Path(options.json).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(dataclasses.asdict(outcome)) + "\n")
    return summary(all_outcomes)


def summary(all_outcomes: Sequence[Outcome]) -> int:
    """Prints the counts. Returns 1 if one ended in an exception, or an error test was accepted."""
    counts = collections.Counter(outcome.result for outcome in all_outcomes)
    print(", ".join(f"{count} {result}" for result, count in counts.most_common()))
    asked = [outcome for outcome in all_outcomes if outcome.asks and not outcome.is_error_test]
    filled = [outcome for outcome in asked if not outcome.is_template]
    passed = counts["passed"]
    print(f"{passed} passed of {len(filled)} that ask for a comparison, and {len(asked) - len(filled)} templates")
    positive = sum(o.notes.get("positive", False) for o in all_outcomes)
    print(f"{positive} of them with positive inputs, for want of their own")
    slow = [outcome for outcome in all_outcomes if outcome.seconds > SLOW]
    print(f"{sum(o.seconds for o in all_outcomes):.0f} s in all; {len(slow)} took more than {SLOW:.0f} s")
    for outcome in slow:
        print(f"  {outcome.seconds:.0f} s: {outcome.name}")
    wrong = [o for o in all_outcomes if o.result == "exception" or (o.is_error_test and o.result != "refused")]
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
