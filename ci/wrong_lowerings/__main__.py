"""Runs the wrong lowerings of the table on the simulator: `python -m ci.wrong_lowerings RUN TTNN --cache DIR`.

RUN, TTNN and the cache are those of `ci.tt_mlir_on_simulator`: TTNN has the text that the real compiler emitted for
each op. An op is judged twice: as it was lowered, and with its fault. Printed is whether both verdicts are right.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ci.tt_mlir_on_simulator import Outcome, outcome
from ci.wrong_lowerings.table import WrongLowering, wrong_lowerings
from opscope.harness.record.records import OpRow
from opscope.harness.record.store import read_manifest
from opscope.simulator.api import Device

LEAST = 19
"""Of twenty wrong lowerings, how many have to be noticed."""


def found_again(wrong: WrongLowering, rows: list[OpRow]) -> OpRow | None:
    """The op of a wrong lowering in a manifest: by its id, else by its name, types and location."""
    for row in rows:
        if row.op_id == wrong.op_id:
            return row
    for row in rows:
        types = tuple(
            tuple("x".join((*map(str, d.shape), d.data_type)) for d in side) for side in (row.inputs, row.outputs)
        )
        places = (use.location.split(" ")[0] for use in row.uses)
        if row.op_name == wrong.op and types == (wrong.inputs, wrong.outputs) and wrong.location in places:
            return row
    return None


def judged(wrong: WrongLowering, row: OpRow, ttnn: Path, folder: Path, device: Device) -> tuple[Outcome, Outcome]:
    """The outcome of an op as it was lowered, and with the fault. Raises ValueError if the row does not fit."""
    text = (ttnn / f"{row.op_id}.ttnn").read_text(encoding="utf-8")
    return outcome(row, text, folder, device), outcome(row, wrong.applied(text), folder, device)


def main(argv: list[str] | None = None) -> int:
    """Prints the outcomes; returns 1 if fewer than 19 faults are noticed, or an op is wrong without one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("ttnn", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--board", default="n150")
    args = parser.parse_args(argv)
    header, rows = read_manifest(args.run)
    folders = {name: args.cache / folder for name, folder in zip(header.models, header.export_dirs, strict=True)}
    device, noticed, sound = Device(args.board), 0, 0
    table = wrong_lowerings()
    for wrong in table:
        row = found_again(wrong, rows)
        if row is None:
            print(f"{wrong.op_id} {wrong.op}: {wrong.kind}: expected the op in the run, got none; run {wrong.location}")
            continue
        plain, broken = judged(wrong, row, args.ttnn, folders[row.uses[0].model], device)
        sound += plain.outcome == "success"
        noticed += broken.outcome == "wrong_result"
        words = (
            f"{broken.outcome}, {broken.reason}" if plain.outcome == "success" else f"wrong without it: {plain.reason}"
        )
        print(f"{wrong.op_id} {wrong.op}: {wrong.kind}: {words}")
    print(f"{noticed} of {len(table)} wrong lowerings are noticed; {sound} of the ops are right without their fault")
    return int(noticed < LEAST or sound < len(table))


if __name__ == "__main__":
    sys.exit(main())
