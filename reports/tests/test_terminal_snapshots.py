"""What ten commands print at 80, 120 and 200 columns, line by line, as stored in data/terminal.

After a change that is meant: `make terminal` writes the files anew; read the difference before you commit it.
"""

from __future__ import annotations

import itertools
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.harness.cli import doctor
from opscope.harness.cli.main import FILES, root
from opscope.harness.prepare import zoo
from opscope.reports.demo import replay
from opscope.reports.pages import diff_page
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh

STORED = Path(__file__).parent / "data" / "terminal"
LAST = datetime(2026, 11, 20, 2, tzinfo=UTC)
WIDTHS = (80, 120, 200)
COMMANDS = {
    "unblock": "unblock --limit 4 --db DB",
    "diff": "diff --limit 8 --db DB",
    "show-run": "show RUN",
    "show-op": "show OP --db DB",
    "show-model": "show gpt2_small --db DB",
    "readiness": "readiness gpt2_small --db DB",
    "models": "models",
    "ops": "ops *convolution* cholesky",
    "sql": "sql top_errors --limit 4 --db DB",
    "status": "status --db DB",
    "doctor": "doctor",
    "limitations": "limitations list --backend reference",
}
LISTED = [
    zoo.Listed(name, framework, family, "reduced", giant, False, parameters, 1234, 99, "", (), "", "")
    for name, framework, family, giant, parameters in (
        ("mask2former_reduced_torch", "torch", "segmentation", False, 1_402_563),
        ("mnist_mlp", "jax", "mlp", False, None),
        ("llama3_8b", "torch", "mixture_of_experts", True, 8_030_261_248),
    )
]
STAGES = {"stablehlo-to-ttir", "ttir-to-ttnn", "ttnn-to-flatbuffer"}
"""Words that a wide ladder breaks on purpose, in its headings."""
FOUND = [
    doctor.Finding("machine", "Python", True, "3.11.7"),
    doctor.Finding("machine", "memory", False, "1.0 of 2.0 GiB free", "free 4 GiB, or lower --op-memory"),
    doctor.Finding(
        "backend", "reference", True, "stages stablehlo-to-ttir, ttir-to-ttnn, ttnn-to-flatbuffer, run, compare"
    ),
    doctor.Finding("framework", "keras", False, "keras not installed", "pip install 'opscope[keras]'", needed=False),
]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What stands in COMMANDS for the demo's last two nights on one board: their database, a run, a failing op."""
    folder = tmp_path_factory.mktemp("demo")
    url = fresh(folder / "db.sqlite")
    for night in replay.nights(LAST, 0, 2):
        publish(next(run for run in replay.write_night(folder, night) if run.name.endswith("reference-n150")), url)
    run = folder / f"demo-{LAST:%Y%m%d}-reference-n150"
    assert run.is_dir()
    return {"DB": url, "RUN": str(run), "OP": "edb467609e022bfa"}


@pytest.mark.crossed
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_as_stored(
    name: str, width: int, words: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(doctor, "examine", lambda *_: FOUND)
    monkeypatch.setattr(zoo, "listing", lambda: LISTED)
    monkeypatch.setattr(diff_page, "age", lambda *_: "7 days ago")
    result = CliRunner().invoke(root, [words.get(word, word) for word in COMMANDS[name].split()], obj=FILES)
    assert result.exit_code == (1 if name == "doctor" else 0), result.output
    text = _stable(result.output, words)
    stored = STORED / f"{name}.{width}.txt"
    if os.environ.get("WRITE_SNAPSHOTS"):
        stored.parent.mkdir(exist_ok=True)
        stored.write_text(text, encoding="utf-8")
    assert text == stored.read_text(encoding="utf-8"), "not as stored; if that is meant: make terminal"


def test_no_stored_word_is_broken_and_no_sentence_too_wide() -> None:
    """Commands that can be copied, paths and addresses stay whole, whatever the width."""
    for name, width in itertools.product(COMMANDS, WIDTHS):
        narrow, wide = ((STORED / f"{name}.{columns}.txt").read_text(encoding="utf-8") for columns in (width, 200))
        too_wide = [line for line in narrow.splitlines() if len(line) > width and " " in line.strip()]
        assert [line for line in too_wide if not re.search(r"pytest --op-by-op|opscope |/| ops = ", line)] == [], name
        assert set(re.findall(r"[\w.-]{12,}", narrow)) <= set(re.findall(r"[\w.-]{12,}", wide)) | STAGES, name


def _stable(text: str, words: dict[str, str]) -> str:
    """`text` without what differs between machines and days: places, ages, spaces at the ends of lines."""
    text = text.replace(words["RUN"], "RUN").replace(words["DB"], "DB")
    text = re.sub(r"\S*/harness/limitations/(\S*):\d+", r"harness/limitations/\1:LINE", text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
