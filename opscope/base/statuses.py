"""The words for statuses and stages of ops, each with its meaning and colours; for changes: labels.py.

`report.html`, the terminal and the dashboards all use these, so a word looks the same everywhere. Green is correct, red
fails, purple computes wrong numbers, yellow is an expected failure, grey has no verdict. What a status does to a run is
in EFFECTS, the table of docs/verdicts.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Tone = Literal["good", "bad", "known", "idle"]
"""What a word means to a reader: right, wrong, wrong but expected, or without a verdict."""

TERMINAL: dict[str, str] = {"good": "green", "bad": "bold red", "known": "yellow", "idle": "dim"}
"""Tone -> rich's style."""


@dataclass(frozen=True)
class Word:
    """One word as users see it."""

    tone: Tone
    colour: str
    """Hexadecimal, for charts and badges."""
    meaning: str

    @property
    def text(self) -> str:
        """The colour of a text on it: black or white, whichever has more contrast, which is 4.5 and more."""
        linear = []
        for at in (1, 3, 5):  # as WCAG 2.2 defines relative luminance
            part = int(self.colour[at : at + 2], 16) / 255
            linear.append(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
        light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        return "#000000" if (light + 0.05) ** 2 > 1.05 * 0.05 else "#FFFFFF"


STATUSES: dict[str, Word] = {
    "success": Word("good", "#2E7D32", "The op compiled, ran and computed the right numbers."),
    "passed": Word("good", "#66BB6A", "The op passed the last stage that its backend has or `--until` asked for."),
    "compile_failed": Word("bad", "#E53935", "A stage before `run` refused the op."),
    "run_failed": Word("bad", "#FB8C00", "The op compiled and failed when it ran."),
    "wrong_result": Word("bad", "#8E24AA", "The op ran and computed wrong numbers."),
    "no_golden": Word("bad", "#5C6BC0", "The op has no golden to compare its numbers with."),
    "timeout": Word("bad", "#6D4C41", "The op took longer than its time limit and was killed."),
    "crashed": Word("bad", "#8C1C2C", "The op killed its process: a signal, an exit or no memory left."),
    "unsplittable": Word("bad", "#A1887F", "No module of its own could be made of the op."),
    "golden_in_doubt": Word("idle", "#00838F", "Another authority contradicts the golden: neither right nor wrong."),
    "stopped": Word("idle", "#78909C", "The backend ran the op and gave no numbers to compare."),
    "skipped": Word("idle", "#90A4AE", "The op was deselected, or its backend declined it."),
    "not_run": Word("idle", "#B0BEC5", "The run ended before the op was attempted, or the system killed its process."),
}
"""How an op ended -> its word. Records have all of them as statuses except `unsplittable`, which only the manifest
has."""

SUPPORT: dict[str, Word] = {
    "yes": Word("good", "#2E7D32", "The numbers are right."),
    "known gap": Word("known", "#FBC02D", "The op fails, and a limitation names the failure."),
    "no": Word("bad", "#E53935", "The op fails, and no limitation names the failure."),
    "not tried": Word("idle", "#B0BEC5", "The op was not attempted, or it has no verdict."),
}
"""Whether an op is supported."""

NOT_RUN = "not run"
"""The furthest stage of an op that was never attempted."""

STAGES: dict[str, tuple[int | None, str]] = {
    NOT_RUN: (0, "#B0BEC5"),
    "split": (0, "#E53935"),
    "legalize": (None, "#FB8C00"),
    "stablehlo-to-ttir": (1, "#F4511E"),
    "ttir-to-ttnn": (2, "#FB8C00"),
    "ttnn-to-flatbuffer": (3, "#FDD835"),
    "input": (None, "#F4511E"),
    "flow": (None, "#FB8C00"),
    "stream": (None, "#FFB300"),
    "executable": (None, "#FDD835"),
    "vm": (None, "#C0CA33"),
    "compile": (None, "#FDD835"),
    "run": (8, "#8E24AA"),
    "compare": (9, "#2E7D32"),
}
"""Furthest stage that an op passed -> the number that dashboards sort it by, and its colour. None: a word of some
backends, whose number is one of OWN_STEPS by its place on their ladder."""
OWN_STEPS = range(4, 8)
OTHER_STAGE = "#C0CA33"
"""Colour of any other stage, such as the stages of a user's own backend."""


def tone_of(tone: Tone) -> frozenset[str]:
    """The statuses of a tone."""
    return frozenset(status for status, word in STATUSES.items() if word.tone == tone)


RIGHT, FAILED, NOT_ATTEMPTED = tone_of("good"), tone_of("bad"), tone_of("idle")
"""Endings of ops that are right, that fail, and that count in no rate because they were not attempted or have no
verdict."""

PASSED = "passed"


def ending(status: str, stage_reached: str, ran_on: str) -> str:
    """How an op ended: its status, or `passed` for one that came through the last stage that its backend has, or that
    `--until` asked for. What ends in RIGHT is right, everywhere.

    What takes ops through stages says `stopped` of such an op, as older records do. So it does of an op which was to
    give numbers and gave none: it ran, and on no place. Nobody knows whether it is right.
    """
    stopped_early = status == "stopped" and (stage_reached != "run" or ran_on != "none")
    return PASSED if stopped_early else str(status)


@dataclass(frozen=True)
class Effect:
    """What ops of a status do to their run. In the ledger each status is a term of its own."""

    exit_code: int
    """Of a run in which nothing else is red, unless a limitation names the failure."""
    gate: str
    """What a gate makes of an op that was right in the baseline."""
    unblock: str
    """What the op means for its models."""
    diff: str
    """Label of an op that was right before."""
    junit: str
    csv: str
    """The column `is_failure`."""


_BY_TONE: dict[str, Effect] = {
    "good": Effect(0, "passes", "right", "SAME", "passed", "False"),
    "bad": Effect(1, "fails", "blocks its models", "NEW", "failure", "True"),
    "idle": Effect(0, "passes", "not attempted", "NEVER-RUN", "skipped", "False"),
}
EFFECTS: dict[str, Effect] = {
    **{status: _BY_TONE[word.tone] for status, word in STATUSES.items()},
    "no_golden": replace(_BY_TONE["bad"], junit="error"),
    "unsplittable": replace(_BY_TONE["bad"], exit_code=0, csv="no row"),
}
"""Status -> what it does to a run. Docs and tests hold every consumer of statuses to it."""
