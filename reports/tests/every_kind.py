"""Nights of every kind in one database: what no chart, card or sentence may add up, on records alone.

Two boards whose nights start at different minutes and on different dates in UTC, a compiler for the host, one that
ends before `run`, a series that stopped, a night that lacks models, an op that is tried again, two nights of a series
on one date, and ops that are expected to fail, flaky, renamed, sent back to the host, not to be split off and not
reached; and a model that is compiled whole too, from which its compilers lose a fusion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from opscope.harness.record.records import ModelFailure, Structure
from opscope.harness.record.stages import ModelStatus, Stage
from opscope.reports.publish.publish import publish
from opscope.reports.publish.upkeep import add_alias
from opscope.reports.records.night_record import NightRecord, join
from opscope.reports.tests.night_runs import run_whole
from opscope.reports.tests.nights import Op, night, op_id

ZONE = "Europe/Berlin"
DATES = tuple(f"2026-11-0{day}" for day in (2, 3, 4, 5))
TONIGHT = DATES[-1]
PLATFORMS = ("reference n150", "reference p150", "xla", "own")
"""What speaks tonight."""
STOPPED, STOPPED_ON = "iree", DATES[1]
MODELS = ("conv_net", "mlp", "unbuilt", "whole_net")

LOST = 3
"""The day on which the program of `mlp`, which runs before its ops, loses a fusion; it is right."""

LOG = "artifacts/numbers.txt"
"""What the ops with wrong numbers left behind."""
UNBUILT = ModelFailure(model="unbuilt", framework="jax", status=ModelStatus.BUILD_FAILED, error="no such layer")
BOTH = {"conv_net": 2, "mlp": 1}
RIGHT = Op(uses=BOTH, cycles=1000, compile_ms=20.0)
NO_LOWERING = Op("compile_failed", BOTH, error="no lowering")
WRONG = Op("wrong_result", {"mlp": 3}, error="wrong numbers", more={"z_max": 40.0, "artifact": LOG})
KNOWN = Op("run_failed", {"conv_net": 1}, Stage.RUN, "too large", more={"expected": "notyet: too large"})
FLAKY = Op("run_failed", {"mlp": 1}, Stage.RUN, "sometimes", more={"flaky": True})
ON_HOST = replace(RIGHT, more={"ran_on": "host"})
COMPILED = Op("passed", BOTH)
SAME: dict[str, Op] = {
    "add": RIGHT,
    "dot_general": replace(RIGHT, uses={"mlp": 4}),
    "convolution": replace(RIGHT, uses={"conv_net": 9}),
    "sort": KNOWN,
    "fft": NO_LOWERING,
    "negate": replace(RIGHT, uses={"whole_net": 2}),
    "custom_call": Op("unsplittable", {"conv_net": 1}, error="a call without a body"),
    "log": Op("not_run", {"mlp": 1}),
}


def fill(folder: Path, url: str) -> None:
    """Publishes the nights, the oldest first, and then says that `old_reduce` is `reduce` now."""
    for run_dir in write(folder):
        publish(run_dir, url)
    add_alias(url, op_id("old_reduce"), op_id("reduce"), "its text changed")


def write(folder: Path) -> list[Path]:
    """Writes the runs of the nights, the oldest first."""
    nights = _Nights(folder)
    for day in range(4):
        nights.add("reference", "n150", day, _device(day), minute=-10)  # 23:50 the day before, in UTC
        nights.add("reference", "p150", day, _device(day) | _other_board(day), minute=10, lacks=day == 2)
        nights.add(
            "xla", "n150", day, _on_host(SAME | {"reduce": RIGHT, "convolution": _conv(day)}), minute=20, card="host"
        )
        nights.add("own", "n150", day, _compiled(day), minute=30, card="host")
        if day < 2:
            nights.add("iree", "n150", day, _on_host(SAME) | {"tanh": WRONG if day else RIGHT}, minute=40, card="host")
    # On the third date n150 has a second night, and tonight an op that failed was tried again and is right.
    nights.add("reference", "n150", 2, _device(2) | {"exponential": RIGHT}, minute=600)
    again = {name: _skipped(op) for name, op in _device(3).items()} | {"power": RIGHT}
    nights.add("reference", "n150", 3, again, minute=-10, later=5)
    return nights.runs


def _device(day: int) -> dict[str, Op]:
    """On a device: tonight tanh is wrong, sine is mended, rsqrt slower, a flaky and a known failure are new, and
    another flaky one is gone."""
    return SAME | {
        "old_reduce" if day < 2 else "reduce": RIGHT,
        "floor": ON_HOST,
        "exponential": NO_LOWERING if day == 2 else RIGHT,
        "tanh": WRONG if day == 3 else replace(RIGHT, uses=WRONG.uses),
        "sine": RIGHT if day == 3 else NO_LOWERING,
        "power": NO_LOWERING if day == 3 else RIGHT,
        "rsqrt": replace(RIGHT, cycles=5000 if day == 3 else 1000),
        "gather": FLAKY if day == 3 else replace(RIGHT, uses=FLAKY.uses),
        "cosine": replace(RIGHT, uses=FLAKY.uses) if day == 3 else replace(FLAKY, error="at random"),
        "scatter": KNOWN if day == 3 else replace(RIGHT, uses=KNOWN.uses),
    }


def _other_board(day: int) -> dict[str, Op]:
    """The board p150 also loses `abs` tonight, for another reason than n150 has for anything."""
    return {"power": RIGHT, "abs": Op("crashed", BOTH, more={"crash_kind": "signal SIGSEGV"}) if day == 3 else RIGHT}


def _conv(day: int) -> Op:
    return Op("wrong_result", {"conv_net": 9}, error="wrong numbers") if day else replace(RIGHT, uses={"conv_net": 9})


def _on_host(ops: Mapping[str, Op]) -> dict[str, Op]:
    return {
        name: replace(op, cycles=None, more={"ran_on": "host"}) if op.status == "success" else op
        for name, op in ops.items()
    }


def _compiled(day: int) -> dict[str, Op]:
    """Of a compiler without `run`: what passes is right, and one op is mended on the last night."""
    passed = {name: replace(op, status="passed") if op.status == "success" else op for name, op in SAME.items()}
    return passed | {"sine": COMPILED if day == 3 else NO_LOWERING}


def _skipped(op: Op) -> Op:
    return op if op.status == "unsplittable" else replace(op, status="skipped")


class _Nights:
    """Writes nights; their runs are numbered in the order in which they come."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[Path] = []

    def add(
        self,
        backend: str,
        arch: str,
        day: int,
        ops: Mapping[str, Op],
        *,
        minute: int,
        lacks: bool = False,
        later: int = 0,
        card: str = "",
    ) -> None:
        """One run of the night of that day. `lacks`: models did not arrive; `later`: minutes from the night's start;
        `card`: what the ops ran on, if it is no board."""
        started = datetime(2026, 11, 1, 23, tzinfo=UTC) + timedelta(days=day, hours=1, minutes=minute)
        if lacks:
            ops = {name: replace(op, uses={"mlp": 1}) for name, op in ops.items() if "mlp" in op.uses}
        record: dict[str, Any] = {
            "backend": backend,
            "arch": arch,
            "started": started + timedelta(minutes=later),
            "failed": (UNBUILT,),
            "card_type": card or f"sim-{arch}",
        }
        run_dir = night(self.folder, len(self.runs) + 1, ops, **record)
        log = run_dir / LOG
        log.parent.mkdir()
        log.write_text("40 times as large as they should be\n", encoding="utf-8")
        night_record = NightRecord(
            name=f"{backend}-{arch}", started=started, zone=ZONE, models=MODELS, backends=(backend,), archs=(arch,)
        )
        join(run_dir, night_record)
        norms = {"ttnn.mean": 4, "ttnn.multiply": 6} if day == LOST else {"ttnn.rms_norm": 2, "ttnn.multiply": 2}
        program = Op(cycles=1000 + 100 * day, more={"structure": Structure(ops=norms, launches=sum(norms.values()))})
        run_whole(run_dir, {"mlp": program}, backend=backend, arch=arch, card_type=record["card_type"])
        self.runs.append(run_dir)
