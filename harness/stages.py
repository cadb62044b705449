"""The stages an op climbs, and the statuses a climb can end in (design.md, "Ledger")."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """One step of the ladder. A backend names the ones it has, in order; `split` is where every op starts."""

    SPLIT = "split"
    STABLEHLO_TO_TTIR = "stablehlo-to-ttir"
    TTIR_TO_TTNN = "ttir-to-ttnn"
    TTNN_TO_FLATBUFFER = "ttnn-to-flatbuffer"
    COMPILE = "compile"
    RUN = "run"
    COMPARE = "compare"


class Status(StrEnum):
    """How an op ended. Every unique op of a run has exactly one; together they are the ledger."""

    SUCCESS = "success"
    COMPILE_FAILED = "compile_failed"
    RUN_FAILED = "run_failed"
    GOLDEN_FAILED = "golden_failed"
    NO_GOLDEN = "no_golden"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    STOPPED = "stopped"
    SKIPPED = "skipped"
    NOT_RUN = "not_run"


class ModelStatus(StrEnum):
    """Why no op of a model could be run."""

    BUILD_FAILED = "build_failed"
    """The model's own code raised."""
    EXPORT_FAILED = "export_failed"
    """The framework did not make StableHLO of it."""
    PREPARE_FAILED = "prepare_failed"
    """Its StableHLO could not be split or evaluated."""
    FRAMEWORK_MISSING = "framework_missing"


FAILED = frozenset(
    {
        Status.COMPILE_FAILED,
        Status.RUN_FAILED,
        Status.GOLDEN_FAILED,
        Status.NO_GOLDEN,
        Status.TIMEOUT,
        Status.CRASHED,
    }
)
"""Statuses that fail a test unless a limitation names them."""


def failed_status(stage: Stage) -> Status:
    """The status of an op whose `stage` raised an error."""
    if stage is Stage.RUN:
        return Status.RUN_FAILED
    if stage is Stage.COMPARE:
        return Status.GOLDEN_FAILED
    return Status.COMPILE_FAILED
