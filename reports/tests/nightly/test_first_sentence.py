"""One sentence about a night, the same wherever somebody looks first; and what it says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.base.labels import Label
from opscope.harness.record.run_folders import runs_root
from opscope.reports.agents.tools import Results
from opscope.reports.commands.compare import diff
from opscope.reports.compare.first_sentence import LONGEST, Change, SeriesFacts, first_sentence
from opscope.reports.database.ask import ask
from opscope.reports.database.owners import Rule
from opscope.reports.nightly import night as delivering
from opscope.reports.nightly.night import NightResult
from opscope.reports.nightly.night_folder import REPORT, folder_of
from opscope.reports.nightly.notices import TEMPLATE
from opscope.reports.nightly.notifying import Message, filled
from opscope.reports.tests.night_runs import shard_run
from opscope.reports.tests.nightly.nights_here import config_of, night_of
from opscope.reports.tests.nights import Op

RIGHT = {name: Op(uses={"a": 1, "b": 2}) for name in ("add", "fft", "abs", "tanh")}
REFUSED = {
    name: Op("compile_failed", {"a": 1, "b": 2}, error=f"failed to legalize operation 'stablehlo.{name}'")
    for name in ("fft", "abs")
}
WRONG = Op("wrong_result", {"a": 1}, error="result 0: expected 1e-05, got 0.3", more={"hypothesis": "sign: flipped"})
KNOWN = Op("compile_failed", {"a": 1}, more={"expected": "notyet: no FFT"})
RULES = (Rule("lowering", stage="stablehlo-to-ttir"),)


def nights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *ops: tuple[dict[str, Op], ...]
) -> tuple[NightResult, list[str]]:
    """Delivers nights on two boards, each with the ops of both; the last one, and where its sentence stands."""
    config = config_of(tmp_path, architectures=["n150", "p150"])
    url, sent = str(config.database), []
    monkeypatch.setattr(delivering, "notify", lambda _, message, *__: sent.append(message) or [])
    monkeypatch.chdir(tmp_path)
    for number, of_boards in enumerate(ops, 1):
        night = night_of(config, number, tmp_path, archs=("n150", "p150"))
        revision = f"{number}" * 40
        origin = {"revision": revision, "backend_revision": revision}
        runs = [
            shard_run(runs_root(tmp_path), night, 2 * number + place, on_board, arch=arch, origin=dict(origin))
            for place, (arch, on_board) in enumerate(zip(("n150", "p150"), of_boards, strict=False))
        ]
        result = delivering.deliver(config, night, runs, url, tmp_path, RULES, environment={})
    message: Message = sent[-1]
    page = (folder_of(tmp_path, result.night) / REPORT).read_text(encoding="utf-8")
    header = re.search(r'<p class="sentence">(.*?)</p>.*?<p class="about">(.*?) <span', page, re.DOTALL)
    assert header is not None
    printed = json.loads(CliRunner().invoke(diff, ["--db", url, "--json"]).output)["sentence"]
    shown = CliRunner().invoke(diff, ["--db", url], env={"COLUMNS": "200"}).output.splitlines()
    tonight = ask(url, "SELECT sentence, about, chips FROM dashboard_verdict WHERE one_series = 0").rows[0]
    summary = result.path.read_text(encoding="utf-8").removeprefix("# ").replace("\n\n", "\n")
    chat = filled(TEMPLATE, message)["text"]
    asked = Results(url).what_changed()["answer"]["sentence"]
    chips = [re.sub(r"</?span.*?>", "", chip) for chip in re.findall(r'<span class="chip">.*?</span>', page)]
    of_page = "\n".join(filter(None, (*map(unescape, header.groups()), ", ".join(chips[: len(result.said.chips)]))))
    terminal = "\n".join((shown[0], shown[1].rpartition(" (")[0], *shown[2 : 3 if result.said.chips else 2]))
    lines = str(result.said).count("\n") + 1
    places = [printed, terminal, "\n".join(filter(None, tonight)), asked, of_page]
    places += ["\n".join(text.splitlines()[:lines]) for text in (summary, message.short)]
    assert chat.splitlines()[0] == result.said.headline
    return result, places


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "headline", "since", "chips"),
    [
        pytest.param(
            (RIGHT, RIGHT),
            (RIGHT | REFUSED, RIGHT | REFUSED | {"tanh": WRONG}),
            "3 new failures, 3 causes: start with fft (lowering, 2 models)",
            ", since 11111111..22222222",
            (),
            id="worse",
        ),
        pytest.param(
            (RIGHT | REFUSED, RIGHT),
            (RIGHT | {"fft": REFUSED["fft"]}, RIGHT | {"add": KNOWN}),
            "1 still failing, 1 cause: start with fft (lowering, 2 models)",
            ", since 11111111..22222222",
            ("1 failing as expected", "1 fixed"),
            id="better",
        ),
        pytest.param(
            (RIGHT, RIGHT),
            (RIGHT,),
            "1 of 2 series partial: reference p150",
            ", since 11111111..22222222",
            (),
            id="partial",
        ),
    ],
)
def test_the_first_sentence_is_the_same_everywhere(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: tuple[dict[str, Op], ...],
    after: tuple[dict[str, Op], ...],
    headline: str,
    since: str,
    chips: tuple[str, ...],
) -> None:
    result, places = nights(tmp_path, monkeypatch, before, after)
    about = f"nightly 2026-11-03 02:00 UTC, reference n150, reference p150{since}"
    assert result.said == (headline, about, chips)
    assert len(headline) <= LONGEST
    assert places == [str(result.said)] * 7


def test_what_fails_is_counted_as_what_it_is() -> None:
    """What fails as before, in the first night of another series, and in a new model alone, are three numbers."""
    before = Change(
        Label.PERSISTING, "1", "stablehlo.fft", "c1", "stablehlo-to-ttir", ("a",), 1, known=False, flaky=False
    )
    added = before._replace(label=Label.FIRST, op_id="2", op_name="stablehlo.add", models=("b",))
    old = SeriesFacts("mine", "mine", 5, 7, (before, added), False, "")
    new = SeriesFacts("other", "other", 5, 6, (added._replace(op_id="3"),), True, "")
    said = first_sentence("night", [old, new])
    assert said.headline == "1 still failing, 1 cause: start with fft (1 model)"
    assert said.chips == ("1 failing in a new model: b", "first night of other: 1 failing")
    assert first_sentence("night", [replace(old, changes=(added,))]).headline == (
        "1 failing in a new model, 1 cause: start with add (1 model)"
    )
    assert first_sentence("night", [new]).headline == "1 failing, 1 cause: start with add (1 model)"


def test_the_sentence_of_a_team_speaks_of_its_failures_alone() -> None:
    """Beside the rows of a team nobody else's failures are told, and that it has none is no verdict on the night."""
    fft = Change(Label.NEW, "1", "stablehlo.fft", "c1", "stablehlo-to-ttir", ("a",), 1, known=False, flaky=False)
    wrong = fft._replace(op_id="2", op_name="stablehlo.add", cause="c2", stage="compare")
    facts = [SeriesFacts("mine", "mine", 5, 7, (fft, wrong), False, "")]
    assert first_sentence("night", facts, RULES).headline.startswith("2 new failures, 2 causes")
    said = first_sentence("night", facts, RULES, "lowering")
    assert said.headline == "1 new failure, 1 cause: start with fft (lowering, 1 model)"
    assert said.about == "night, failures of lowering, mine"
    assert first_sentence("night", facts, RULES, "kernels").headline == "no failure of kernels"


LONG = "a_name_that_somebody_has_made_of_every_layer_that_it_fuses" * 2
MANY = tuple(f"{LONG}_{number}" for number in range(12_000))
BEGINS = {
    "new": "12000 new failures, 12000 causes: start with ",
    "one cause": "12000 new failures, 1 cause: start with ",
    "another reason": "12000 failing for another reason, 12000 causes: start with ",
    "less exact": "12000 less exact, 12000 causes: start with ",
    "still failing": "12000 still failing, 12000 causes: start with ",
    "acknowledged": "12000 acknowledged: ",
    "broken": "backend may not work: all 12000000 ops fail on ",
    "partial": "partial: ",
    "stopped": "3 of 4 series stopped: ",
    "team": "no failure of ",
    "nothing": "nothing fails: ",
    "no data": "no data",
}


@pytest.mark.parametrize("what", BEGINS)
def test_the_headline_fits_and_begins_with_what_broke_whatever_the_names(what: str) -> None:
    label = {"another reason": Label.REASON_CHANGED, "less exact": Label.PCC_DROP}.get(what, Label.NEW)
    label = Label.PERSISTING if what in ("still failing", "acknowledged") else label
    quiet = what in ("acknowledged", "broken", "partial", "stopped", "nothing", "no data")
    changes = tuple(
        Change(
            label,
            str(number),
            f"{LONG}.{LONG}",
            "cause" if what == "one cause" else str(number),
            "stablehlo-to-ttir",
            MANY if number == 0 else (LONG,),
            1,
            known=False,
            flaky=False,
            acknowledged=what == "acknowledged",
        )
        for number in range(12_000 if not quiet or what == "acknowledged" else 0)
    )
    attempted = 0 if what == "no data" else 12_000_000
    missing, broken = LONG * (what == "partial"), LONG * (what == "broken")
    facts = [SeriesFacts(LONG, LONG, attempted, attempted, changes, False, "", (), missing, broken)]
    if what == "stopped":
        gone = [SeriesFacts(f"{number}", f"{number}{LONG}", 0, 0, (), False, "", stopped="2026") for number in range(3)]
        reason = Change(Label.REASON_CHANGED, "1", LONG, "c", "run", (LONG,), 1, known=False, flaky=False)
        facts = [facts[0], *gone]
        facts[0] = SeriesFacts(LONG, LONG, 9, 9, (reason,), False, "")
    headline = first_sentence("night", facts, [Rule(LONG)], f"of {LONG}" if what == "team" else None).headline
    assert headline.startswith(BEGINS[what])
    assert len(headline) <= LONGEST


SAYS = {
    "no data": "no data",
    "broken": "backend may not work",
    "new": "1 new failure",
    "stopped": "1 of 2 series stopped: gone",
    "partial": "partial: model b missing",
    "another reason": "1 failing for another reason",
    "less exact": "1 less exact",
    "still failing": "1 still failing",
    "acknowledged": "1 acknowledged: fft",
    "nothing": "nothing fails: 5 of 7 ops right",
}
"""What a headline begins with, the worst first."""


def test_of_all_that_there_is_to_say_the_worst_is_said_first() -> None:
    labels = {"new": Label.NEW, "another reason": Label.REASON_CHANGED, "less exact": Label.PCC_DROP}
    labels |= dict.fromkeys(("still failing", "acknowledged"), Label.PERSISTING)
    kinds = list(SAYS)
    while kinds:
        changes = tuple(
            Change(labels[kind], kind, "x.fft", kind, "run", ("a",), 1, False, False, "", kind == "acknowledged")
            for kind in kinds
            if kind in labels
        )
        missing, broken = "model b" * ("partial" in kinds), "no device" * ("broken" in kinds)
        right, attempted = (0, 0) if "no data" in kinds else (5, 7)
        facts = [SeriesFacts("mine", "mine", right, attempted, changes, False, "", (), missing, broken)]
        facts += [SeriesFacts("gone", "gone", 0, 0, (), False, "", stopped="2026")] * ("stopped" in kinds)
        assert first_sentence("night", facts).headline.startswith(SAYS[kinds.pop(0)])
