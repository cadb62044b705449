"""Runs what tt-mlir made of single ops on the simulator, and holds the results to the goldens of a run.

    python -m ci.tt_mlir_on_simulator RUN TTNN [--cache DIR] [--board n150] [--only ID ...] [-o FILE.json]

RUN is the folder of a run whose ops were compiled, TTNN a folder with `<op id>.ttnn`, the text of each executable, and
the cache is that of the run. Each op is converted to the types that its executable declares, run, converted back, and
judged as a lane judges it. Printed are how many ran and were right, and each op that was not, with its reason.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from opscope.compiler import api
from opscope.compiler.target.numerics import MATRIX
from opscope.harness.backends.base import Job
from opscope.harness.lanes.explained import operands_of
from opscope.harness.prepare.inputs import row_golden, row_inputs
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.record.records import OpRow
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.store import read_manifest
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.target import Target
from opscope.simulator.api import Device, DeviceError, cuts_result, error_bound


@dataclass(frozen=True)
class Outcome:
    """What became of one op."""

    op_id: str
    op_name: str
    outcome: str
    """`success`, `wrong_result`, `no_golden`, or why it did not run."""
    reason: str = ""
    narrowed: tuple[str, ...] = ()
    cycles: int = 0
    seconds: float = 0.0


def outcome(row: OpRow, text: str, folder: Path, device: Device) -> Outcome:
    """Runs one op and judges its results."""
    began = time.perf_counter()
    try:
        made = api.tt_mlir_program(text, device.system)
        values = row_inputs(row, folder)
        result = device.load_decoded(made.binary).run(made.inputs_of(values))
    except (api.StageFailure, api.CompilerInputError) as error:
        words = f"{error.op}: {error.message}" if isinstance(error, api.StageFailure) else str(error)
        return Outcome(row.op_id, row.op_name, "refused", words)
    except DeviceError as error:
        return Outcome(row.op_id, row.op_name, "device", f"{type(error).__name__}: {error}")
    outputs = made.outputs_as(result.outputs, [(numpy_dtype(desc.data_type), desc.shape) for desc in row.outputs])
    cycles, golden = result.profile.total_cycles, row_golden(row, folder)
    if not golden:
        return Outcome(row.op_id, row.op_name, "no_golden", row.no_golden, made.narrowed, cycles)
    only = made.computes[0] if len(made.computes) == 1 and made.computes[0] not in MATRIX else None
    target = Target(
        device.card_type,
        made.float_format,
        made.math_fidelity,
        made.matrix_format,
        made.narrow_dst,
        error_bound=lambda name: error_bound(only) if only else None,
        cuts_result=lambda name: any(map(cuts_result, made.computes)),
    )
    job = Job(row.op_id, (folder / str(row.module)).read_bytes(), values, ResultOptions(), outputs=outputs)
    checks = compare(
        golden,
        outputs,
        row.held_to or row.op_name,
        target,
        inputs=row.inputs,
        outputs=row.outputs,
        params=row.op_params,
        operands=operands_of(row, job, folder),
    )
    wrong = [check.reason for check in checks if not check.passed]
    seconds = time.perf_counter() - began
    word = "wrong_result" if wrong else "success"
    return Outcome(row.op_id, row.op_name, word, "; ".join(wrong)[:400], made.narrowed, cycles, seconds)


def main(argv: list[str] | None = None) -> int:
    """Prints outcomes; returns 1 if an op is not right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("ttnn", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--board", default="n150")
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args(argv)
    header, rows = read_manifest(args.run)
    folders = {name: args.cache / folder for name, folder in zip(header.models, header.export_dirs, strict=True)}
    device, outcomes = Device(args.board), list[Outcome]()
    for row in rows:
        text = args.ttnn / f"{row.op_id}.ttnn"
        if (args.only and row.op_id not in args.only) or not text.is_file():
            continue
        outcomes.append(outcome(row, text.read_text(encoding="utf-8"), folders[row.uses[0].model], device))
    if args.output is not None:
        args.output.write_text(json.dumps([vars(one) for one in outcomes], indent=1), encoding="utf-8")
    for one in outcomes:
        if one.outcome != "success":
            print(f"{one.op_id} {one.op_name} {one.outcome}: {one.reason}")
    counts = Counter(one.outcome for one in outcomes)
    compared = counts["success"] + counts["wrong_result"]
    print(f"{len(outcomes)} ops: {dict(counts.most_common())}; {compared / max(len(outcomes), 1):.1%} compared")
    return int(counts["success"] != len(outcomes))


if __name__ == "__main__":
    sys.exit(main())
