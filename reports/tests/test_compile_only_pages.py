"""What every verb prints of a compiler that ends before `run`, in two nights, line by line, as stored in data.

The folder `made` is of records made to measure, `yaml` and `class` of whole nights of a YAML file and a Python class.
After a change that is meant: `make terminal` writes them anew; read the difference before you commit it.
"""

from __future__ import annotations

import html
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.base import damage
from opscope.base.tests.captured import captured
from opscope.harness.cli.main import FILES, root
from opscope.harness.record.records import StageTime
from opscope.harness.record.run_folders import runs_root
from opscope.harness.record.stages import Stage
from opscope.reports.database.ask import ask
from opscope.reports.nightly.night import deliver
from opscope.reports.tests.night_runs import shard_run
from opscope.reports.tests.nightly.nights_here import config_of, night_of
from opscope.reports.tests.nightly.test_compile_only import CLASS, FILE, MODEL, SIX, TOOL
from opscope.reports.tests.nights import Op

STORED = Path(__file__).parent / "data" / "compile_only"
VERBS = {
    "show-run": "show RUN",
    "show-repaired": "show NEWER",
    "show-op": "show OP --db DB",
    "show-model": "show MODEL --db DB",
    "show-cause": "show CAUSE --db DB",
    "diff": "diff --db DB",
    "diff-new": "diff NEWER RUN",
    "unblock": "unblock RUN",
    "unblock-now": "unblock --db DB",
    "readiness": "readiness MODEL --run RUN --db DB",
    "readiness-now": "readiness MODEL --db DB",
    "status": "status --db DB",
    "report": "report RUN -o page.html",
    "report-night": "report --db DB -o night.html",
    "csv": "export RUN --format csv -o csv",
    "junit": "export RUN --format junit -o junit",
    "optest-json": "export RUN --format optest-json -o json --job-id 5",
} | {
    f"sql-{name}": f"sql {name} --db DB"
    for name in ("pass_rate_by_run", "model_coverage", "ops_by_stage", "not_compiling", "flipping_ops", "ran_on_host")
}
CARD = re.compile(r"n150|\btile\b|\bface\b|\bcard_type\b|sim-|captured 0|\bcycles\b")
"""Words of a card, and of a series' key."""
RAW = re.compile(r"sql-|csv|junit|optest-json")
"""Verbs whose columns and fields are the same for every backend."""
OPS = ("exponential", "log", "tanh", "sine", "cosine", "sqrt", "rsqrt")


def test_made_nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of good ops, of ops that a later stage refuses, and of their repair."""
    config = config_of(tmp_path, models=["net"])

    def op(place: int, broken: bool) -> Op:
        times = tuple(StageTime(stage=Stage(name), seconds=0.25) for name in ("tidy", "lower", "link"))
        more = {"backend": "mine", "card_type": "host", "stages": times, "stage_reached": Stage("link")}
        if not broken:
            return Op("passed", {"net": place + 1}, more=more)
        refused = more | {"stages": times[:2], "stage_reached": Stage("tidy" if place % 2 else "split")}
        stage = Stage("lower" if place % 2 else "tidy")
        return Op("compile_failed", {"net": place + 1}, failed=stage, error=f"cannot {stage} it", more=refused)

    pages = {}
    for number, broken in enumerate((3, 0)):
        ops = {name: op(place, place < broken) for place, name in enumerate(OPS)}
        night = night_of(config, number, tmp_path, backends=("mine",))
        options = {"dtype": "float32", "seed": 0, "fingerprint": f"mine-{number:016}"}
        fields = {"backend": "mine", "models": ("net",), "origin": {"options": options}}
        run = shard_run(runs_root(tmp_path), night, number, ops, **fields)
        result = deliver(config, night, [run], str(config.database), tmp_path, (), environment={}, reports=False)
        pages[f"night-{number + 1}"] = result.summary
    compared("made", pages | outputs(tmp_path, monkeypatch), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name", "text"), [("yaml", "mine.yaml", FILE), ("class", "mine.py", CLASS)])
def test_whole_nights(kind: str, name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nights by the commands, the second repaired; then a gate and a run by itself of what is broken again."""
    (tmp_path / "net.mlir").write_text(MODEL)
    (tmp_path / "tool.py").write_text(TOOL)
    (tmp_path / name).write_text(text)
    url = f"sqlite:///{tmp_path}/results.sqlite"
    (tmp_path / "night.yaml").write_text(f"models: [net.mlir]\nbackends: [{name}]\ndatabase: {url}\nname: mine\n")
    pages = {}
    for number, broken in enumerate((SIX, ""), 1):
        (tmp_path / "broken").write_text(broken)
        pages[f"nightly-{number}"] = called(tmp_path, "opscope.harness.cli.main", "nightly", "night.yaml", "--new")
        pages[f"night-{number}"] = newest(tmp_path, "nights/*/summary.md").read_text()
    pages |= outputs(tmp_path, monkeypatch)
    (tmp_path / "broken").write_text(SIX)
    pages["gate"] = called(tmp_path, "opscope.harness.cli.main", "gate", "--config", "night.yaml", "--baseline", "mine")
    pages["gate-summary"] = newest(tmp_path, "gates/*/summary.md").read_text()
    options = ("--model", "net.mlir", "--op-by-op", "--backend", name, "--no-report", "-p", "no:randomly", "-q")
    pages["pytest"] = called(tmp_path, "pytest", *options)
    compared(kind, pages, tmp_path)


def newest(folder: Path, pattern: str) -> Path:
    return max((folder / ".opscope").glob(pattern))


def called(folder: Path, module: str, *words: str) -> str:
    """What a command prints, and its exit code."""
    environment = os.environ | {"GITHUB_STEP_SUMMARY": "", "COLUMNS": "120"}
    done = captured([sys.executable, "-P", "-m", module, *words], cwd=folder, env=environment, timeout=900)
    assert "Traceback (most recent call last)" not in done.stderr, done.stderr[-2000:]
    return f"{done.stdout}{done.stderr}exit code {done.returncode}\n"


def outputs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What each verb prints or writes of the two runs of a folder, the first of which has failures."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "120")
    url = f"sqlite:///{folder}/results.sqlite"
    run, newer = sorted(runs_root(folder).iterdir())
    ((op_id,),) = ask(url, "SELECT op_id FROM ops WHERE op_name = 'stablehlo.log'").rows
    ((cause,),) = ask(url, "SELECT MIN(cluster) FROM night_changes WHERE cluster <> ''").rows
    words = {"DB": url, "RUN": str(run), "NEWER": str(newer), "OP": str(op_id), "MODEL": "net", "CAUSE": str(cause)[:8]}
    pages = {}
    for verb, line in VERBS.items():
        damage.forget()
        result = CliRunner().invoke(root, [words.get(word, word) for word in line.split()], obj=FILES)
        pages[verb] = f"{result.output}exit code {result.exit_code}\n"
    for verb, page in (("report", "page.html"), ("report-night", "night.html")):
        pages[verb] += text_of((folder / page).read_text(encoding="utf-8"))
    assert " on n150" not in pages["report-night"], "a board that the compiler does not know"
    for written in ("csv", "junit", "json"):
        (file,) = (folder / written).iterdir()
        pages[written if written in pages else "optest-json"] += file.read_text(encoding="utf-8")
    return pages


def text_of(page: str) -> str:
    """The words of an HTML page, one line for each block."""
    body = re.sub(r"<(script|style|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    lines = (" ".join(re.sub(r"<[^>]*>", " ", block).split()) for block in re.split(r"</(?:tr|p|h\d|div|li)>", body))
    return "\n".join(filter(None, map(html.unescape, lines))) + "\n"


def compared(kind: str, pages: Mapping[str, str], folder: Path) -> None:
    """Every page is as stored, and none speaks of a card."""
    stored = STORED / kind
    texts = {f"{name}.txt": stable(text, folder) for name, text in pages.items()}
    if os.environ.get("WRITE_SNAPSHOTS"):
        stored.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (stored / name).write_text(text, encoding="utf-8")
    assert texts == {path.name: path.read_text(encoding="utf-8") for path in stored.iterdir()}, "try make terminal"
    cards = {name: CARD.findall(text) for name, text in texts.items() if not RAW.match(name)}
    assert {name: words for name, words in cards.items() if words} == {}


def stable(text: str, folder: Path) -> str:
    """`text` without what differs between machines and days: places, ids of runs, times, sizes."""
    text = text.replace(str(folder), "FOLDER")
    text = re.sub(r"\.opscope/runs/[^/\s`<\"]+", ".opscope/runs/RUN", text)
    text = re.sub(r" \(\d+ \w+ ago\)|, \d+ \w+ ago", "", text)
    text = re.sub(r"^Slowest ops\n(  .*\n)+|^Where this run came from\n(.*\n)+", "", text, flags=re.MULTILINE)
    text = re.sub(r"^opscope \w+ · sweep .*\n", "", text, flags=re.MULTILINE)  # of a sweep that takes long
    text = re.sub(r'hostname="[^"]*"', 'hostname="HOST"', text)
    text = re.sub(r"(passed|failed) in \d.*", r"\1 in N s", text)
    text = re.sub(r"\bmine-[0-9a-f]{16}\b", "FINGERPRINT", text)
    # What other tests have kept in the same cache stands there too.
    text = re.sub(r"^\w+ on mine is kept, rests on .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\b\d{8}-\d{6}(-[0-9a-f]{8})?\b", "STAMP", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?(\+00:00)?\b", "DATE", text)
    text = re.sub(r"\b\d+(\.\d+)? (s|ms|MB|h old|d old)\b", r"N \2", text)
    text = re.sub(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d\d\b", "DAY", text)
    text = re.sub(r"\((less than an hour|\d+ (hour|day)s?)\s+ago\)", "(AGE)", text)
    text = re.sub(r"^( DATE .*\S) +[\d.e-]+ *$", r"\1 N", text, flags=re.MULTILINE)  # milliseconds
    text = re.sub(r"\b\d+\.\d{3,}(e-\d+)?\b", "N", text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
