"""A run folder written through the records and the store, with an op of every status: what the tests here read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from opscope.harness.record.records import (
    ManifestHeader,
    OpRow,
    OpTest,
    Origin,
    ResultCheck,
    RunRecord,
    StageTime,
    TensorDesc,
    Use,
)
from opscope.harness.record.stages import Stage, Status
from opscope.harness.record.store import Journal, write_manifest, write_run

START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
LADDER = (Stage.STABLEHLO_TO_TTIR, Stage.TTIR_TO_TTNN, Stage.TTNN_TO_FLATBUFFER, Stage.RUN, Stage.COMPARE)

# op name, kind, status, stage reached, uses, more fields
OPS: tuple[tuple[str, str, Status, Stage, int, dict[str, Any]], ...] = (
    (
        "stablehlo.add",
        "eltwise",
        Status.SUCCESS,
        Stage.COMPARE,
        16,
        {
            "pcc": 0.99999,
            "cycles": 4_096,
            "limiter": "launch",
            "utilisation": 0.25,
            "dram_bytes": 6_144,
            "noc_bytes": 0,
        },
    ),
    (
        "stablehlo.dot_general",
        "matmul",
        Status.SUCCESS,
        Stage.COMPARE,
        3,
        {
            "pcc": 0.9991,
            "cycles": 120_000,
            "cycles_error": 9.0,
            "limiter": "math",
            "utilisation": 0.75,
            "dram_bytes": 9_216,
            "noc_bytes": 512,
        },
    ),
    ("stablehlo.tanh", "eltwise", Status.WRONG_RESULT, Stage.RUN, 2, {"pcc": 0.42, "cycles": 9_000}),
    ("stablehlo.fft", "fft", Status.COMPILE_FAILED, Stage.SPLIT, 1, {"failed_stage": Stage.STABLEHLO_TO_TTIR}),
    (
        "stablehlo.sort",
        "sort",
        Status.COMPILE_FAILED,
        Stage.STABLEHLO_TO_TTIR,
        1,
        {"failed_stage": Stage.TTIR_TO_TTNN, "expected": "notyet: sorting on the device"},
    ),
    ("stablehlo.gather", "data_movement", Status.RUN_FAILED, Stage.TTNN_TO_FLATBUFFER, 1, {"failed_stage": Stage.RUN}),
    ("stablehlo.rng", "rng", Status.NO_GOLDEN, Stage.RUN, 1, {}),
    ("stablehlo.convolution", "conv", Status.TIMEOUT, Stage.TTNN_TO_FLATBUFFER, 1, {"failed_stage": Stage.RUN}),
    ("stablehlo.while", "control", Status.CRASHED, Stage.SPLIT, 1, {"crash_kind": "signal SIGSEGV"}),
    ("stablehlo.exponential", "eltwise", Status.STOPPED, Stage.TTIR_TO_TTNN, 1, {}),
    ("stablehlo.log", "eltwise", Status.SKIPPED, Stage.SPLIT, 1, {}),
    ("stablehlo.sine", "eltwise", Status.NOT_RUN, Stage.SPLIT, 1, {}),
    ("stablehlo.floor", "eltwise", Status.SUCCESS, Stage.COMPARE, 1, {"pcc": 1.0, "ran_on": "host", "cycles": None}),
    (
        "stablehlo.scatter",
        "scatter",
        Status.GOLDEN_IN_DOUBT,
        Stage.COMPARE,
        1,
        {"second_authority": "golden in doubt: XLA has 1, StableHLO's interpreter 2"},
    ),
)

NASTY = "</script><script>alert('x')</script> & \"quoted\" \x00 <b>%s</b>"
"""What a location or an error may hold and no report may execute."""


def op_id(number: int) -> str:
    """The id of the op in row `number` of OPS."""
    return f"{(number + 1) * 0x9E3779B97F4A7C15 % 2**64:016x}"


def make_run(run_dir: Path, *, run_id: str = "20261120-120000-demo", repeat: int = 1) -> Path:
    """Writes the run to `run_dir`; `repeat` copies of OPS make it longer."""
    rows, tests = [], []
    tensor = TensorDesc(shape=(1, 64), data_type="f32", buffer_type="DRAM", layout="tile", grid_shape=(8, 8))
    scalar = TensorDesc(shape=(), data_type="f32")
    for number, (name, _, _, _, uses, _) in enumerate(OPS * repeat):
        places = tuple(
            Use(model="demo", path=f"main/{number}.{use}", location=f"layer{use} ({NASTY}:{number})")
            for use in range(uses)
        )
        rows.append(
            OpRow(
                op_id=op_id(number),
                op_name=name,
                module=f"ops/{number}.mlirbc",
                inputs=(tensor, scalar),
                outputs=(tensor,),
                op_params={"axis": NASTY},
                uses=places,
            )
        )
        tests.append(_test(run_id, number, places, tensor))
    total = sum(len(row.uses) for row in rows)
    header = ManifestHeader(
        models=("demo",), export_dirs=("/nowhere",), module_ops={"demo": total + 7}, structural={"demo": 7}
    )
    record = RunRecord(
        run_id=run_id,
        models=("demo",),
        backend="reference",
        arch="n150",
        started=START,
        ended=START + timedelta(seconds=9),
        outcome="complete",
        origin=Origin(
            revision="0123abc",
            branch="main",
            host="laptop",
            cpu="a CPU",
            python="3.11.7",
            versions={"jax": "0.10.2"},
            command_line=("pytest", "--model", "demo", NASTY),
            options={"seed": 0},
        ),
    )
    write_run(run_dir, record)
    write_manifest(run_dir, header, rows)
    with Journal(run_dir, "main") as journal:
        for test in tests:
            journal.append(test)
    return run_dir


def _test(run_id: str, number: int, places: tuple[Use, ...], tensor: TensorDesc) -> OpTest:
    name, kind, status, reached, _, more = OPS[number % len(OPS)]
    passed = LADDER[: LADDER.index(reached) + 1] if reached in LADDER else ()
    ran = Stage.RUN in passed
    bad = status not in (Status.SUCCESS, Status.STOPPED, Status.SKIPPED, Status.NOT_RUN)
    pcc = more.get("pcc")
    fields: dict[str, Any] = {
        "ran_on": "simulator" if ran else "none",
        "error_message": f"{name}: expected a kernel, got {NASTY}" if bad else None,
        "error_signature": f"{kind}-0001" if bad else None,
        "results": (ResultCheck(passed=not bad, pcc=pcc, relative_l2=0.01, max_abs=float("inf"), tolerance="f32"),)
        if ran
        else (),
        "device_ns": more["cycles"] / 1.0 if more.get("cycles") else None,
        **more,
    }
    return OpTest(
        run_id=run_id,
        op_id=op_id(number),
        test_case_name=name,
        full_test_name=f"demo::{name}[{op_id(number)}]",
        test_start_ts=START + timedelta(seconds=number),
        test_end_ts=START + timedelta(seconds=number + 1),
        success=status is Status.SUCCESS,
        skipped=status is Status.SKIPPED,
        model_name="demo",
        op_kind=kind,
        op_name=name,
        inputs=(tensor,),
        outputs=(tensor,),
        op_params={"axis": NASTY},
        status=status,
        card_type="sim-n150",
        backend="reference",
        stage_reached=reached,
        stages=tuple(StageTime(stage=stage, seconds=0.01 * (i + 1)) for i, stage in enumerate(passed)),
        uses=len(places),
        locations=tuple(use.location for use in places),
        models=("demo",),
        arch="n150",
        repro=f"pytest --op-by-op --op {op_id(number)} --run-dir 'a run'",
        artifact=f"artifacts/{op_id(number)}/e.txt" if bad else None,
        **fields,
    )
