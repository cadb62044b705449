"""The stages an op climbs, and the statuses a climb can end in."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from itertools import pairwise

WORD = r"[a-z0-9][a-z0-9_.-]{0,39}"
"""Pattern of a stage of somebody's own backend."""
_WORD = re.compile(WORD)


class Stage(StrEnum):
    """One step of a backend, which names the ones it has, in order; `split` is where every op starts.

    The members are the words of the backends in this tree. Any other word of small letters, digits, `-`, `_` and `.`
    is a stage of somebody's own backend: `Stage("link")` makes it, and always gives the same object.
    """

    SPLIT = "split"
    LEGALIZE = "legalize"
    STABLEHLO_TO_TTIR = "stablehlo-to-ttir"
    TTIR_TO_TTNN = "ttir-to-ttnn"
    TTNN_TO_FLATBUFFER = "ttnn-to-flatbuffer"
    INPUT = "input"
    FLOW = "flow"
    STREAM = "stream"
    EXECUTABLE = "executable"
    VM = "vm"
    COMPILE = "compile"
    RUN = "run"
    COMPARE = "compare"

    @classmethod
    def _missing_(cls, value: object) -> Stage | None:
        """A stage that no backend of this tree has; None, and so a ValueError, if it is not a valid word."""
        if not isinstance(value, str) or not _WORD.fullmatch(value):
            return None
        stage = _OWN.get(value)
        if stage is None:
            stage = str.__new__(cls, value)
            stage._name_ = value.upper().replace("-", "_").replace(".", "_")
            stage._value_ = value
            _OWN[value] = stage
        return stage

    @classmethod
    def __get_pydantic_json_schema__(cls, *_: object) -> dict[str, str]:
        """Any word is a stage of some backend."""
        return {"type": "string", "pattern": f"^{WORD}$"}


_OWN: dict[str, Stage] = {}
"""Stages that are not members, by word. Each exists once, so that `is` compares them."""


def in_order(stages: Iterable[str], climbs: Iterable[Sequence[str]]) -> list[str]:
    """Stages from the first to the last.

    `climbs` are the stages that ops climbed, each in its order: they give the positions of a backend's own words. The
    members come in the order in which they are defined.
    """
    wanted, ordered = set(stages), [str(stage) for stage in Stage]
    for climb in sorted(map(tuple, climbs), key=len, reverse=True):
        words = [str(Stage.SPLIT), *map(str, climb)]
        for before, word in pairwise(words):
            if word not in ordered:
                ordered.insert(ordered.index(before) + 1, word)
    lost = sorted(wanted - set(ordered))
    ordered = [word for word in ordered if word in wanted]
    last = ordered.index(Stage.COMPARE) if Stage.COMPARE in ordered else len(ordered)
    return [*ordered[:last], *lost, *ordered[last:]]


def depths(stages: Iterable[str], climbs: Collection[Sequence[str]]) -> dict[str, int]:
    """Stage -> its number on the ladder, from 1 (split), of `stages` and of all that ops climbed."""
    climbed = (str(stage) for climb in climbs for stage in climb)
    ladder = in_order({str(Stage.SPLIT), *filter(None, stages), *climbed}, climbs)
    return {stage: number for number, stage in enumerate(ladder, 1)}


class Status(StrEnum):
    """How an op ended. Every unique op of a run has exactly one; together they add up."""

    SUCCESS = "success"
    COMPILE_FAILED = "compile_failed"
    RUN_FAILED = "run_failed"
    WRONG_RESULT = "wrong_result"
    NO_GOLDEN = "no_golden"
    GOLDEN_IN_DOUBT = "golden_in_doubt"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    PASSED = "passed"
    """It came through the last stage that its backend has or that `--until` asked for."""
    STOPPED = "stopped"
    """It ran, and gave no numbers to compare."""
    SKIPPED = "skipped"
    NOT_RUN = "not_run"


class ModelStatus(StrEnum):
    """Why no op of a model could be run."""

    BUILD_FAILED = "build_failed"
    """The model's own code raised."""
    EXPORT_FAILED = "export_failed"
    """The framework did not export it as StableHLO."""
    PREPARE_FAILED = "prepare_failed"
    """Its StableHLO could not be split or evaluated."""
    FRAMEWORK_MISSING = "framework_missing"
    NOT_RUN = "not_run"
    """The time of --budget was over before it was prepared, or the system killed its processes."""


class ImportStatus(StrEnum):
    """Whether a model's import computes what its own framework does."""

    AGREES = "agrees"
    DIFFERS = "import_differs"
    CRASHED = "import_crashed"
    """The process of its own framework did not survive the model, so nothing is known of its results."""
    NOT_CHECKED = "import_not_checked"


DETERMINISTIC = "deterministic"
"""The label of a failure that the op has every time."""
VARYING = "varying"
"""The label of an op, right or wrong, that another run gives other bits."""
BATCH_DEPENDENT = "batch_dependent"
"""The label of a right op whose rows have other bits alone than in their batch."""
CARD, NODE, CODE = "card", "node", "code"
"""What a known-good op on the same host blames where runs differ; the record's `canary` begins with it."""

FAILED = frozenset(
    {
        Status.COMPILE_FAILED,
        Status.RUN_FAILED,
        Status.WRONG_RESULT,
        Status.NO_GOLDEN,
        Status.TIMEOUT,
        Status.CRASHED,
    }
)
"""Statuses that fail a test unless a limitation names them."""

WHOLLY_COMPILED = (None, Stage.RUN, Stage.COMPARE)
"""Where an op failed, if it did, that the whole compiler took."""

WENT_THROUGH = frozenset({Status.SUCCESS, Status.PASSED, Status.STOPPED, Status.NO_GOLDEN, Status.GOLDEN_IN_DOUBT})
"""Statuses of ops that their backend took through its stages as far as it was asked to, and nothing is known to be
wrong."""


def failed_status(stage: Stage) -> Status:
    """The status of an op whose `stage` raised an error."""
    if stage is Stage.RUN:
        return Status.RUN_FAILED
    if stage is Stage.COMPARE:
        return Status.WRONG_RESULT
    return Status.COMPILE_FAILED
