"""Nights of releases: one series without the release, in the order of releases, and never the newest of anything."""

from __future__ import annotations

import json
import lzma
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from opscope.base.night_grid import grid
from opscope.harness.cli.main import root as opscope
from opscope.harness.record.artifacts import ARTIFACT_DIR
from opscope.harness.record.lowered_ir import plain
from opscope.harness.record.stages import Stage
from opscope.harness.record.store import load_run
from opscope.reports.database.reading import read_database
from opscope.reports.publish.publish import publish
from opscope.reports.publish.upkeep import prune
from opscope.reports.records import lowered
from opscope.reports.records.night_record import NightRecord
from opscope.reports.tests.night_runs import copied, fresh, publish_night, rows, shard_run
from opscope.reports.tests.nights import Op, night, op_id

SERIES = "tt@* n150 float32 0"
FAILS, DOT, SORT = (
    Op("compile_failed", failed=Stage.TTIR_TO_TTNN, error=error)
    for error in ("no kernel", "too large", "out of memory")
)
RELEASES = {
    "0.1.1": {"add": Op(), "dot": DOT, "sort": SORT},
    "0.1.2": {"add": Op(), "dot": DOT, "sort": Op()},
    "0.1.3": {"add": FAILS, "dot": DOT, "sort": Op()},
}
BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
"""Later than any other night of these tests: a release is not the newest night even then."""


def release_run(folder: Path, number: int, release: str, ops: dict[str, Op]) -> Path:
    """The run of a release's night."""
    night = NightRecord(
        name=f"history-tt@{release}",
        started=BEGAN + timedelta(days=number),
        models=("m",),
        backends=(f"tt@{release}",),
        archs=("n150",),
        release=release,
    )
    return shard_run(folder, night, 60 + number, ops, backend=f"tt@{release}")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with two nights and the nights of three releases, published in another order than theirs."""
    folder = tmp_path_factory.mktemp("releases")
    url = fresh(folder / "db.sqlite")
    root = folder / ".opscope" / "runs"
    for number in (1, 2):
        publish_night(url, root, number, {"add": Op()}, models=("m",))
    for number in (2, 0, 1):
        release = [*RELEASES][number]
        publish(release_run(root, number, release, RELEASES[release]), url)
    return folder


@pytest.fixture
def url(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return copied(built, tmp_path)


def call(*words: str) -> str:
    done = CliRunner().invoke(opscope, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_they_are_one_series_in_the_order_of_releases(url: str) -> None:
    found = rows(
        url,
        "SELECT n.night_id, n.kind, n.axis, n.release, s.series, s.previous_night FROM nights n "
        "JOIN night_series s ON s.night_id = n.night_id WHERE n.axis = 'version' ORDER BY n.started",
    )
    ids = [f"history-tt@{release}" for release in RELEASES]
    kind = ("release", "version")
    assert found == [
        (ids[0], *kind, "0.1.1", SERIES, ""),
        (ids[1], *kind, "0.1.2", SERIES, ids[0]),
        (ids[2], *kind, "0.1.3", SERIES, ids[1]),
    ]
    changes = "SELECT night_id, op_id, label FROM night_changes WHERE label IN ('NEW', 'FIXED') AND series = '" + SERIES
    assert set(rows(url, f"{changes}'")) == {(ids[1], op_id("sort"), "FIXED"), (ids[2], op_id("add"), "NEW")}


def test_nothing_that_asks_for_the_newest_sees_them(url: str) -> None:
    assert rows(url, "SELECT DISTINCT series FROM night_dates") == [("reference n150 float32 0",)]
    assert rows(url, "SELECT DISTINCT backend FROM newest_ops") == [("reference",)]
    assert rows(url, "SELECT COUNT(*) FROM night_dates WHERE tonight = 1") == [(1,)]
    newest = "nightly-20261103-020000"
    assert json.loads(call("status", "--db", url, "--json"))["newest"]["night_id"] == newest
    assert newest in call("diff", "--db", url)
    assert "(reference n150)" in call("unblock", "--db", url)
    assert prune(url, timedelta(0), now=BEGAN + timedelta(days=900))["nights"] == 2
    assert rows(url, "SELECT COUNT(*) FROM nights") == [(3,)]


def test_without_a_database_their_runs_are_not_the_newest(url: str, tmp_path: Path) -> None:
    (tmp_path / "db.sqlite").unlink()
    assert "(reference n150)" in call("unblock")


@pytest.mark.slow
def test_two_releases_are_compared_by_name_and_since_is_a_release(url: str) -> None:
    text = call("diff", "tt@0.1.2", "tt@0.1.3", "--db", url)
    assert "history-tt@0.1.3" in text
    assert "commits  0.1.2..0.1.3" in text
    shown = json.loads(call("show", op_id("add"), "--db", url, "--json"))
    assert [(each["night"][:4], each["range"]) for each in shown["since"]] == [("2030", "0.1.2..0.1.3")]
    shown = json.loads(call("show", op_id("dot"), "--db", url, "--json"))
    assert [each["range"] for each in shown["since"]] == ["up to 0.1.1"]
    assert {"kind", "series"}.isdisjoint(shown["history"][0])


def test_the_grid_has_releases_as_columns(url: str) -> None:
    import sqlalchemy as sa

    with read_database(url) as connection:

        def ask(query: str, values: Any) -> Any:
            return connection.execute(sa.text(query), values).all()

        shown = grid.read(ask, BEGAN, lambda *_: "", kind=grid.RELEASE)
        dated = grid.read(ask, datetime(2026, 11, 4, tzinfo=UTC), lambda *_: "")
    assert shown.days == (("", "0.1.1"), ("", "0.1.2"), ("", "0.1.3"))
    since = {cause.names: [each.text for each in cause.since] for cause in shown.causes}
    assert since["add"] == ["0.1.2..0.1.3"]
    assert since["dot"] == ["before 0.1.1"]
    assert {cause.names: cause.fixed for cause in shown.causes}["sort"] == "0.1.2"
    [row] = [cause for cause in shown.causes if cause.names == "add"]
    assert [cell.label for cell in row.stripes[0].cells][1:] == [
        "n150, 0.1.2: right",
        "n150, 0.1.3: 1 op fails, 1 anew",
    ]
    assert dated.days[-1] == ("Wed", "04")


# --- what they lower differently

LINE = '%{n} = "ttnn.{op}"(%arg0) <{{{attributes}}}> : (tensor<8x8xf32, #l>) -> tensor<8x8xf32, #{layout}> loc(#loc{n})'


def module(*ops: tuple[str, str, str], noise: int = 1) -> str:
    """A module of TTNN; `noise`: what differs between two releases and says nothing of the program."""
    lines = [
        LINE.format(n=n, op=op, attributes=attributes, layout=layout)
        for n, (op, attributes, layout) in enumerate(ops, noise)
    ]
    head = (
        f"#l{noise} = #ttnn.ttnn_layout<(d0) -> (d0), <1x1>, memref<8x8xf32, #dram>>\n#dram = #ttnn.buffer_type<dram>"
    )
    body = "\n".join(lines).replace("#l>", f"#l{noise}>")
    return f"""#loc{noise} = loc("a(b).py":{noise}:0)
#system_desc = #ttcore.system_desc<[{{role = host, size = {noise}}}]>
{head}
module {{
  ttcore.device_module {{
    builtin.module attributes {{ttcore.system_desc = #system_desc, size = {noise}}} {{
      ttcore.device @default_device = <grid = {noise}> loc(#loc)
      func.func @main(%arg0: tensor<8x8xf32, #l{noise}> loc("it")) {{
        {body}
        return %{noise + len(ops) - 1} : tensor<8x8xf32, #l{noise}> loc(fused["x", "y)"])
      }} loc(#loc)
    }} loc(#loc)
  }} loc(#loc)
}} loc(#loc)
"""


ADD = ("add", "dtype = f32", "l1")


def test_what_says_nothing_of_the_program_is_left_out() -> None:
    old, new = module(ADD), module(ADD, noise=7).replace("%7", "%1").replace("#l1>", "#l7>")
    assert old != new
    assert plain(old) == plain(new)
    assert "loc" not in plain(old)
    for attributes in ("<{a = []}>", "<{a = [], b = []}>", ""):
        assert plain(f'%1 = "x.y"(%0) {attributes} : () -> ()'.replace("  ", " ")) == '%1 = "x.y"(%0) : () -> ()'
    assert plain('"x.y"() <{a = [], b = 1, c = []}>') == '"x.y"() <{b = 1}>'
    device = 'util.global private @__device_0 = #hal.device.local<"local", [#hal.executable.target<"llvm-cpu", {n}>]>'
    assert plain(f"{device}\n%1 = x.y %0") == plain(f"{device.replace('{n}', '7')}\n%1 = x.y %0") == "%1 = x.y %0"
    assert plain('  a = f32[] add(b), metadata={op_name="x"}') == "a = f32[] add(b)"


def test_a_diff_counts_what_lowers_computes_and_compiles_differently(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    url, root = fresh(tmp_path / "db.sqlite"), tmp_path / ".opscope" / "runs"
    crash = Op("crashed", error="SIGABRT")
    sides = {
        "0.1.2": ({"a": Op(pcc=1.0), "b": FAILS, "c": crash, "d": Op()}, ADD),
        "0.1.3": ({"a": Op(pcc=0.9999), "b": Op(), "c": Op(), "d": Op()}, ("sub", "", "l1")),
    }
    for number, (release, (ops, op)) in enumerate(sides.items()):
        run_dir = release_run(root, number, release, ops)
        for name in ops:
            folder = run_dir / ARTIFACT_DIR / op_id(name) / f"ir-tt@{release}"
            folder.mkdir(parents=True)
            (folder / "ttir.mlir").write_text("no", encoding="utf-8")
            (folder / "ttnn.mlir").write_text(module(op if name == "a" else ADD), encoding="utf-8")
        run_dir = run_dir.rename(root / f"a-night-names-it-otherwise-{release}")
        lowered.keep(run_dir, load_run(run_dir).tests)
        left = {path.parent.name for path in run_dir.glob(f"{ARTIFACT_DIR}/*/ir-*")}
        assert left == {op_id(name) for name, one in ops.items() if one.failed or one.status == "crashed"}
        publish(run_dir, url)
    text = call("diff", "tt@0.1.2", "tt@0.1.3", "--db", url)
    words = "1 of 2 ops lowers differently, 1 computes differently, 1 compiles now, 1 aborts no more"
    assert words in " ".join(text.split())
    assert "ttnn.add -1, ttnn.sub +1" in text
    found = json.loads(call("diff", "tt@0.1.2", "tt@0.1.3", "--db", url, "--json"))
    lowers = found["series"][0]["lowered"]
    assert [(group["what"], group["ops"]) for group in lowers["compiling"]] == [("compiles now", [op_id("b")])]
    runs = ".opscope/runs/a-night-names-it-otherwise-0.1"
    assert [lowers[key][0]["command"] for key in ("lowering", "computing", "compiling", "aborting")] == [
        *[f"opscope reduce {op_id('a')} --run {runs}.3 --against tt@0.1.2"] * 2,
        *(f"opscope reduce {op_id(op)} --run {runs}.2" for op in "bc"),
    ]
    (run_dir / lowered.FILE).write_bytes(lzma.compress(b"["))
    assert lowered.read(run_dir, "tt@0.1.3") == {}
    text = " ".join(call("diff", "tt@0.1.2", "tt@0.1.3", "--db", url).split())
    assert "0 of 0 ops lower differently" in text
    assert "2 more have an IR in one of the runs alone" in text


def test_an_ir_is_gathered_once_though_a_process_is_killed_meanwhile(tmp_path: Path, monkeypatch: Any) -> None:
    run_dir = release_run(tmp_path, 0, "0.1.2", {"a": Op(), "b": Op()})
    for name in "ab":
        folder = run_dir / ARTIFACT_DIR / op_id(name) / "ir-tt@0.1.2"
        folder.mkdir(parents=True)
        (folder / "ttnn.mlir").write_text(module(ADD), encoding="utf-8")
    tests = load_run(run_dir).tests

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for call_of in ((lowered, "write_whole"), (lowered.shutil, "rmtree"), (lowered.artifacts, "seal")):
        with monkeypatch.context() as patch:
            patch.setattr(*call_of, killed)
            with pytest.raises(KeyboardInterrupt):
                lowered.keep(run_dir, tests)
    lowered.keep(run_dir, tests)
    assert lowered.read(run_dir, "tt@0.1.2").keys() == {op_id("a"), op_id("b")}
    assert not [*run_dir.glob(f"{ARTIFACT_DIR}/*/ir-*")]


def test_runs_are_compared_where_one_backend_has_no_night(url: str, tmp_path: Path) -> None:
    for number, backend in ((20, "tt@0.1.3"), (21, "xla")):
        publish(night(tmp_path / "alone", number, {"add": Op()}, ("m",), backend=backend), url)
    done = call("diff", "tt@0.1.3", "xla", "--db", url)
    assert "on tt@0.1.3" in done
    assert "on xla" in done
