"""What commands print with --json, held to the schemas that `opscope schema` prints and `opscope mcp` states."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Hashable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import click
import jsonschema
import numpy as np
import pytest

from opscope import wire
from opscope.base import damage
from opscope.harness.cli.main import main, root
from opscope.harness.record.records import ImportCheck, ModelFailure, ResultCheck
from opscope.harness.record.stages import ImportStatus, ModelStatus, Status
from opscope.harness.record.store import load_run
from opscope.harness.tests.own_backend import own_backend
from opscope.reports.database.ask import ask
from opscope.reports.demo import replay
from opscope.reports.publish.publish import publish
from opscope.reports.publish.upkeep import add_alias
from opscope.reports.records.night_record import NightRecord, join
from opscope.reports.tests import every_kind
from opscope.reports.tests.night_runs import fresh, record, shard_run
from opscope.reports.tests.nights import Op, night, op_id
from opscope.reports.tests.sample_run import make_run
from opscope.wire.answer import text_of

URL = "--db sqlite:///d.sqlite"
CALLS = {
    "doctor": "doctor --json",
    "judge": "judge judged --json",
    "ulp": "ulp abs --dtype f8E5M2 --backend null --json",
    "models": "models --json",
    "config": "config --json",
    "ops": "ops --json",
    "ops.against-list": "ops --against list.json --json",
    "plan": "plan m.mlir --json",
    "plan.op": "plan m.mlir --op matmul_0 --json",
    "netlist": "netlist m.yaml --json",
    "netlist.op": "netlist m.yaml --op matmul_0 --json",
    "run-image": "run-image m.tti --inputs m.npz --json",
    "run-image.info": "run-image m.tti --info --json",
    "simulate": "simulate m.ttnn --json",
    "simulate.timed": "simulate m.ttnn --timed --json",
    "simulate.faults": "simulate m.ttnn --fault l1-bit@0-0,200000,3 --dump dumped --json",
    "simulate.hung": "simulate m.ttnn --fault dead-core@0-0 --json",
    "device-show": "device show n150 --json",
    "show.run": "show sample --json",
    "show.op": f"show ID {URL} --json",
    "show.model": f"show a {URL} --json",
    "diff": f"diff night01 night02 {URL} --json",
    "unblock": f"unblock {URL} --json",
    "readiness": f"readiness a {URL} --json",
    "sql.rows": f"sql 'select run_id, ended from runs' {URL} --json",
    "sql.questions": f"sql {URL} --json",
    "diff-tensors": "diff-tensors a.npy b.npy --json",
    "limitations-list": "limitations list --json",
    "status": "status --database sqlite:///d.sqlite --json",
    "publish": "publish sample --to sqlite:///other.sqlite --json",
    "db-owners": "db owners owners.yaml --db sqlite:///d.sqlite --json",
    "db-stats": f"db stats {URL} --json",
    "dashboard-status": "dashboard status --json",
}
"""Command, and the kind of its answer -> a call."""
SLOW = {
    "backend-check": "backend check null --json",
    "reduce": "reduce OP --json --budget 20s",
    "locate": "locate whole --json --budget 60s",
    "probe": "probe OP --json --budget 20s",
    "replay": "replay repro --json",
    "gate": "gate --old wrong.py --new wrong.py --model m.mlir --json",
}
"""The same for commands that take a run or half a minute."""
OF_NIGHTS = {
    "show.cause": ("show CAUSE",),
    "show.op": ("show OP",),
    "show.model": ("show bert_base", "show resnet50"),
    "diff": (
        "diff",
        "diff 2026-11-20",
        "diff --since 2026-11-20",
        "diff --cause CAUSE",
    ),
    "unblock.night": ("unblock",),
    "readiness.night": ("readiness bert_base", "readiness resnet50"),
    "db-stats": ("db stats",),
}
"""More calls, over nights of the demo: several series, a note, causes fixed and known."""
NOT_CALLED = frozenset({"dashboard-check", "dashboard-guest-token", "decode", "history", "note", "score"})
"""What needs a server, a package index, weights or a framework."""
WRONG_MODEL = """func.func @main(%a: tensor<4x6xf32>, %b: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = stablehlo.add %a, %b : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
"""
WRONG_BACKEND = own_backend(
    "wrong", 'job.outputs, job.ran_on = [job.inputs[0] - job.inputs[0]], "host"', stages="Stage.RUN", at="host"
)
OK, CRASH = Op(uses={"a": 1}), Op("crashed", uses={"a": 2, "b": 1}, error="no kernel for exp")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs, a database of two nights, a binary and arrays."""
    folder = tmp_path_factory.mktemp("answers")
    nights = ({"add": OK, "exp": OK, "sub": CRASH}, {"add": OK, "exp": CRASH, "sub": OK})
    for number, ops in enumerate(nights, 1):
        publish(night(folder, number, ops), f"sqlite:///{folder}/d.sqlite")
    make_run(folder / "sample")
    (folder / "list.json").write_text('{"ttir": ["add"]}')
    (folder / "owners.yaml").write_text("owners:\n- {team: kernels, op: 'stablehlo.*'}\n")
    (folder / "m.mlir").write_text(
        "func.func @main(%a: tensor<32x64xf32>, %b: tensor<64x32xf32>) -> tensor<32x32xf32> {\n"
        "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]"
        " : (tensor<32x64xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>\n  return %0 : tensor<32x32xf32>\n}\n"
    )
    np.savez(folder / "m.npz", arg0=np.ones((32, 64), np.float32), arg1=np.ones((64, 32), np.float32))
    (folder / "judged").mkdir()
    values = np.linspace(-2, 2, 64, dtype=np.float32)
    for number, out in enumerate((np.tanh(values), values, np.tanh(values)[:9])):
        np.savez(folder / "judged" / f"{number}.npz", in0=values, out0=out, op="tanh")
    np.save(folder / "a.npy", np.zeros(4, np.float32))
    np.save(folder / "b.npy", np.ones(4, np.float32))
    here = Path.cwd()
    os.chdir(folder)
    try:
        with pytest.raises(SystemExit, match="0"):
            main(["compile", "m.mlir", "-o", "m.ttnn"])
        with pytest.raises(SystemExit, match="0"):
            main(["plan", "m.mlir", "--netlist", "m.yaml"])
        with pytest.raises(SystemExit, match="0"):
            main(["image", "m.mlir", "-o", "m.tti"])
    finally:
        os.chdir(here)
    return folder


@cache
def _validator(command: str) -> Any:
    schema = wire.schema_of(command)
    assert schema is not None
    return jsonschema.Draft202012Validator(schema)


def held_to(name: str, answer: Any) -> None:
    """Validates an answer against the schema of its command."""
    _validator(name.split(".")[0]).validate(answer)


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_is_as_its_schema_says(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "120")
    damage.forget()
    with pytest.raises(SystemExit) as ended:
        main([op_id("exp") if word == "ID" else word for word in shlex.split(CALLS[name])])
    out, err = capfd.readouterr()
    assert ended.value.code in (0, 1, None), err
    held_to(name, json.loads(out))


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the database of the demo's last two nights, and a note on their first cause."""
    folder = tmp_path_factory.mktemp("nights")
    for each in replay.nights(datetime(2026, 11, 20, 2, tzinfo=UTC), 0):
        if each.number >= replay.NIGHTS - 2:
            for run in replay.write_night(folder / "runs", each):
                publish(run, f"sqlite:///{folder}/n.sqlite")
    note = ["note", cause_of_nights(folder), "known", "--by", "dana", "--until", "2099-01-01"]
    with pytest.raises(SystemExit, match="0"):
        main([*note, "--db", f"sqlite:///{folder}/n.sqlite"])
    return folder


def cause_of_nights(folder: Path) -> str:
    query = "SELECT cause FROM op_tests WHERE cause IS NOT NULL ORDER BY cause LIMIT 1"
    return str(ask(f"sqlite:///{folder}/n.sqlite", query).rows[0][0])[:8]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in OF_NIGHTS.items() for line in lines])
def test_an_answer_about_nights_is_as_its_schema_says(
    name: str, line: str, nights: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(nights)
    query = "SELECT op_id FROM op_tests WHERE cause IS NOT NULL ORDER BY op_id LIMIT 1"
    words = {"CAUSE": cause_of_nights(nights), "OP": str(ask("sqlite:///n.sqlite", query).rows[0][0])}
    with pytest.raises(SystemExit) as ended:
        main([*(words.get(word, word) for word in line.split()), "--db", "sqlite:///n.sqlite", "--json"])
    out, err = capfd.readouterr()
    assert ended.value.code in (0, 1, None), err
    held_to(name, json.loads(out))


OF_ANY = {
    "show.op": ("show", "SELECT op_id FROM ops WHERE unsplittable = '' ORDER BY op_id LIMIT 60"),
    "show.cause": ("show", "SELECT DISTINCT SUBSTR(cause, 1, 8) FROM op_tests WHERE cause IS NOT NULL"),
    "show.model": ("show", "SELECT DISTINCT model FROM night_models"),
    "show.run": ("show", "SELECT run_id FROM runs"),
    "readiness": ("readiness", "SELECT model || ' --run ' || run_id FROM models WHERE outcome = 'ran' LIMIT 60"),
    "unblock": ("unblock", "SELECT run_id FROM runs"),
    "unblock.night": ("unblock", "SELECT night_id FROM night_status WHERE kind <> 'run'"),
    "readiness.night": (
        "readiness",
        "SELECT model || ' --run ' || night_id FROM model_readiness WHERE kind <> 'run' AND outcome = 'ran'",
    ),
    "diff": (
        "diff",
        "SELECT DISTINCT a.night_id || ' ' || b.night_id FROM night_status a JOIN night_status b "
        "ON a.series = b.series AND a.kind = b.kind AND a.night_id <> b.night_id",
    ),
}
"""Kind of an answer -> a command, and all that it may be asked about in some nights. Nights are
compared forwards and backwards, so that ops come and go."""


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs of nights of every kind: also of releases, without models, with every ending."""
    folder = tmp_path_factory.mktemp("kinds")
    runs = every_kind.write(folder)
    numbers = itertools.count(-10)

    def also(ops: dict[str, Op], release: str = "", **more: Any) -> None:
        run = night(folder, next(numbers), ops, **more)
        if release:
            began = load_run(run).record.started
            join(run, NightRecord(name=f"mine@{release}", started=began, release=release, models=("m",)))
        runs.append(run)

    failed = tuple(ModelFailure(model=f"m_{s}", framework="jax", status=s, error="no") for s in ModelStatus)
    imports = tuple(ImportCheck(model=f"i_{s}", framework="torch", status=s, error="no") for s in ImportStatus)
    endings = {f"op_{status}": Op(status) for status in Status}
    bare = ResultCheck(
        passed=False, pcc=None, relative_l2=None, max_abs=None, tolerance="exact", reason="another shape"
    )
    endings["bare"] = Op("wrong_result", more={"results": (bare,)})
    also({**endings, "passed": Op("passed"), "unsplittable": Op("unsplittable")}, failed=failed, imports=imports)
    also({}, failed=failed)
    also({}, outcome="aborted", ended=None)
    for release in ("0.1.2", "0.1.3"):
        also(
            {"add": Op(cycles=9), "sub": Op("crashed") if release == "0.1.3" else Op()},
            release,
            backend=f"tt@{release}",
        )
    return runs


@pytest.fixture(scope="module")
def kinds(journals: list[Path]) -> Path:
    """A folder with the database of these nights."""
    folder = journals[0].parent
    for run in journals:
        publish(run, f"sqlite:///{folder}/n.sqlite")
    add_alias(f"sqlite:///{folder}/n.sqlite", op_id("old_reduce"), op_id("reduce"), "its text changed")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("of", ["nights", "kinds"])
@pytest.mark.parametrize("name", OF_ANY)
def test_answers_about_anything_of_some_nights_are_as_their_schema_says(
    name: str,
    of: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(request.getfixturevalue(of))
    command, query = OF_ANY[name]
    asked = [str(value) for (value,) in ask("sqlite:///n.sqlite", query).rows]
    assert asked
    capfd.readouterr()
    for words in asked:
        with pytest.raises(SystemExit) as ended:
            main([command, *words.split(), "--db", "sqlite:///n.sqlite", "--json"])
        out, err = capfd.readouterr()
        assert ended.value.code in (0, 1, None), err
        held_to(name, json.loads(out))


def test_a_cause_was_first_seen_on_the_date_of_a_night(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In the night's zone: that of 00:50 in Berlin is the day before in UTC."""
    url, began = fresh(tmp_path / "n.sqlite"), datetime(2026, 11, 4, 23, 50, tzinfo=UTC)
    expected = record(1, started=began, zone=every_kind.ZONE, models=("a", "b"))
    publish(shard_run(tmp_path, expected, 1, {"exp": CRASH}, started=began), url)
    (cause,) = ask(url, "SELECT cluster FROM night_failures").rows[0]
    capfd.readouterr()
    with pytest.raises(SystemExit, match="0"):
        main(["show", str(cause)[:8], "--db", url, "--json"])
    lanes = json.loads(capfd.readouterr().out)["lanes"]
    assert [(lane["first_seen"], lane["night"][:10]) for lane in lanes] == [("2026-11-05", "2026-11-05")]


def test_a_replay_of_any_op_is_as_its_schema_says(journals: list[Path]) -> None:
    """`opscope replay` prints the record of the op: right, crashed, or with results of another shape."""
    answers = [test.model_dump(mode="json") for run in map(load_run, journals) for test in run.tests]
    for answer in {form(answer): answer for answer in answers}.values():
        held_to("replay", answer)


def form(value: Any) -> Hashable:
    """What a schema can tell of a value: the names and kinds of all that is in it, texts of one word as they are."""
    if isinstance(value, dict):
        return tuple((name, form(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return frozenset(map(form, value))
    is_name = isinstance(value, str) and value.isidentifier()
    return value if is_name or isinstance(value, bool) else (type(value), bool(value))


@pytest.mark.slow
def test_slow_answers_are_as_their_schemas_say(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(WRONG_MODEL)
    (tmp_path / "wrong.py").write_text(WRONG_BACKEND)
    sweep = ["pytest", "-q", "--model", "m.mlir", "--op-by-op", "--backend", "wrong.py", "--no-report"]
    environment = os.environ | {"PYTEST_ADDOPTS": "-p no:benchmark -p no:randomly"}

    def call(*words: str) -> str:
        program = Path(sys.executable).parent / words[0]
        done = subprocess.run([program, *words[1:]], cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done.stdout

    call(*sweep)
    (test,) = load_run(next((tmp_path / ".opscope" / "runs").iterdir())).tests
    call("opscope", "repro", test.op_id, "--out", "repro")
    (tmp_path / "two.mlir").write_text(
        WRONG_MODEL.replace("  return %0", "  %1 = stablehlo.tanh %0 : tensor<4x6xf32>\n  return %1")
    )
    call(*[word.replace("m.mlir", "two.mlir") for word in sweep], "--workflow", "full", "--run-dir", "full")
    (model,) = load_run(tmp_path / "full").tests
    call("opscope", "repro", model.op_id, "--run", "full", "--out", "whole")
    for name, line in SLOW.items():
        held_to(name, json.loads(call("opscope", *line.replace("OP", test.op_id).split())))


def _built() -> dict[str, list[Any]]:
    """Answers of commands that cannot be called here, of the types and values that these build them of."""
    from opscope.compiler.against.comparison import Agreement, Comparison, Group, Stops
    from opscope.compiler.against.one_op import Difference
    from opscope.dashboards.guests import Guest
    from opscope.harness.decode.steps import Step
    from opscope.harness.suites.faults import Fault, Score
    from opscope.reports.nightly.history import Line
    from opscope.wire import dashboard_check, decode, history, netlist, note, score

    shown = {"dashboard": "d", "chart": "c", "rows": 1, "seconds": 0, "sql": "", "error": ""}
    kinds = Group(Difference("ttir", "add", "ops", "", "x", "y"), ("add",), 1, "id", "", "")
    step = Step(0, 1, 0.9, 0.5, "key", True, 5, None, ("late",))
    first = history.First(op_id="id", op_name="add", right="", failing="tt@1")
    tested = {
        "queues": ("q",),
        "inputs": 1,
        "inputs_asked": 1,
        "positive_inputs": False,
        "encodings_of_ours": (),
        "constant_tiles": 0,
        "unstable": (),
    }
    return {
        "dashboard-check": [
            [
                dashboard_check.Chart(**shown),
                dashboard_check.Alert(alert="a", on=True, value=None, sent=False, error=""),
                dashboard_check.Link(link="l", leads_to="/", error=""),
                dashboard_check.Link(link="l", leads_to="http", error="", not_followed="no server"),
            ],
            dashboard_check.PRINTS,
        ],
        "dashboard-guest-token": [Guest("frame", "token", 3)],
        "decode": [decode.Step(**vars(step), model="m")],
        "history": [history.History(releases=(Line("tt@1", "", {}, 1),), problems={"tt": "x"}, first_failing=(first,))],
        "note": [[note.Note(cause="c", text="t", author="a", written="2026-11-20 09:30")], note.PRINTS],
        "score": [[Score("case", "Add", Fault.NONE)], score.PRINTS],
        "ops": [Comparison(1, (Stops("add", "", "x", 1, "id"),), (Agreement("ttir", 1, 1, 1, 1),), (kinds,))],
        "netlist": [netlist.Tested(netlist="n", passed=True, why="", rounds=0, **tested)],
    }


def test_answers_of_commands_that_cannot_be_called_here_are_as_their_schemas_say() -> None:
    built = _built()
    assert built.keys() >= NOT_CALLED
    for name, answer in built.items():
        held_to(name, json.loads(text_of(*answer)))


FREE = {
    "diff": {"$defs.JsonValue"},
    "gate": {"properties.options"},
    "netlist": {"$defs.Op.properties.attributes"},
    "show": {"$defs.Origin.properties.options"},
    "sql": {"$defs.JsonValue"},
}
"""Command -> what of its answers may be anything: options of runs, attributes of TT-Buda's ops, a query's columns."""


def _open(schema: Any, place: tuple[str, ...] = ()) -> Iterator[str]:
    """The places of a schema at which there may be anything."""
    names = place[-1:] in (("properties",), ("$defs",))  # of fields, which may be called as a keyword is
    if isinstance(schema, list):
        for each in schema:
            yield from _open(each, place)
    if not isinstance(schema, dict) or place[-1:] == ("default",):
        return
    if not names and (not schema.keys() - {"description", "default"} or schema.get("additionalProperties") is True):
        yield ".".join(place)
    for word, each in schema.items():
        yield from _open(each, (*place, word))


@pytest.mark.slow
def test_every_command_with_json_has_a_schema() -> None:
    def of(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
        if any("--json" in parameter.opts for parameter in command.params):
            yield "-".join(path)
        for name in command.list_commands(click.Context(command)) if isinstance(command, click.Group) else ():
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            yield from of(inner, (*path, name))

    every = set(of(root, ()))
    assert every == set(wire.commands())
    for name in every:
        schema = wire.schema_of(name)
        jsonschema.Draft202012Validator.check_schema(schema)
        assert set(_open(schema)) == FREE.get(name, set())
    assert every - NOT_CALLED == {name.split(".")[0] for name in (*CALLS, *OF_NIGHTS, *OF_ANY, *SLOW)}


def test_a_field_that_nobody_states_and_one_of_another_type_are_noticed(place: Path) -> None:
    rows = dict.fromkeys(("models", "nights", "op_tests", "ops", "runs", "uses"), 1)
    good = {"database": "d", "rows": rows, "runs": {"a": rows}, "from_spool": [], "refused": []}
    held_to("publish", good)
    for bad in (good | {"new": 1}, good | {"database": 1}, {"database": "d"}):
        with pytest.raises(jsonschema.ValidationError):
            held_to("publish", bad)
