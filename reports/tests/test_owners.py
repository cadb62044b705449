"""Who looks after a failure: the same team in Python, in SQL and on every page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.harness.record.errors import InputError
from opscope.reports.commands.compare import diff, readiness, unblock
from opscope.reports.commands.db import db
from opscope.reports.commands.report import report
from opscope.reports.database.ask import ask
from opscope.reports.database.database import open_database
from opscope.reports.database.owners import Rule, owner, read_owners, rules_here, store_owners
from opscope.reports.tests.night_runs import fresh, publish_night
from opscope.reports.tests.nights import Op

TEXT = """
owners:
  - {team: giants, model: "llama*"}
  - {team: conv, op: stablehlo.convolution, stage: ttir-to-ttnn}
  - {team: fifty-percent, op: "100%_*"}
  - {team: lowering, stage: "stablehlo-*"}
  - {team: rest}
"""
RULES = [
    Rule("giants", model="llama*"),
    Rule("conv", op="stablehlo.convolution", stage="ttir-to-ttnn"),
    Rule("fifty-percent", op="100%_*"),
    Rule("lowering", stage="stablehlo-*"),
    Rule("rest"),
]
OPS = {
    "sort": Op("compile_failed", uses={"a": 1}, error="no sort"),
    "exp": Op("compile_failed", uses={"llama_b": 1, "a": 2}, error="no exp"),
    "sine": Op("crashed", uses={"a": 1}),
}


@pytest.fixture
def owners_file(tmp_path: Path) -> Path:
    path = tmp_path / "owners.yaml"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(
    ("ops", "stage", "models", "team"),
    [
        (["stablehlo.convolution"], "ttir-to-ttnn", ["resnet"], "conv"),
        (["stablehlo.convolution"], "run", ["resnet"], "rest"),
        (["stablehlo.convolution"], "ttir-to-ttnn", ["bert", "llama3_8b"], "giants"),
        (["stablehlo.add"], "stablehlo-to-ttir", ["my_llama"], "lowering"),
        (["100%_x"], "run", ["m"], "fifty-percent"),
        (["100x_x"], "run", ["m"], "rest"),
        (["a", "stablehlo.convolution"], "ttir-to-ttnn", ["m"], "conv"),
    ],
)
def test_the_first_rule_that_fits_in_python_and_in_sql(
    tmp_path: Path, owners_file: Path, ops: list[str], stage: str, models: list[str], team: str
) -> None:
    assert read_owners(owners_file) == RULES
    assert owner(RULES, ops, stage, "x", models) == team
    url = fresh(tmp_path / "db.sqlite")
    with open_database(url) as connection:
        store_owners(connection, RULES)
        assert rules_here(connection, root=tmp_path) == RULES
    query = (
        "SELECT team FROM owners w WHERE ', {}, ' || ',' LIKE w.op ESCAPE '!' AND '{}' LIKE w.stage ESCAPE '!' "
        "AND ', {},' LIKE w.model ESCAPE '!' ORDER BY position LIMIT 1"
    )
    listed = ", ".join(ops)
    asked = query.replace("', {}, ' || ','", f"', {listed},'", 1).format(stage, ", ".join(models))
    assert ask(url, asked).rows == ((team,),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected a list `owners`, got list"),
        ("owners: [{op: x}]", "rule 1: expected a mapping with `team`"),
        ("owners: [{team: a, stag: x}]", "got `stag`; try stage"),
        ("owners: [{team: a, op: 3}]", "expected a text as `op`, got 3"),
        ("owners: [", "expected rules of owners (YAML)"),
    ],
)
def test_a_file_that_holds_no_rules_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "owners.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_owners(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_every_page_names_the_same_owner(tmp_path: Path, owners_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the project has owners of its own
    url = fresh(tmp_path / "db.sqlite")
    publish_night(url, tmp_path, 1, {name: Op(uses=op.uses) for name, op in OPS.items()}, models=("a", "llama_b"))
    publish_night(url, tmp_path, 2, OPS, models=("a", "llama_b"))
    done = CliRunner().invoke(db, ["owners", str(owners_file), "--db", url, "--json"])
    assert json.loads(done.output) == {"rules": 5}
    expected = {"stablehlo.sort": "lowering", "stablehlo.exp": "giants", "stablehlo.sine": "lowering"}

    def run(command: object, *words: str) -> dict:
        done = CliRunner().invoke(command, [*words, "--db", url, "--json"], catch_exceptions=False)  # type: ignore[arg-type]
        return json.loads(done.output)

    (compared,) = run(diff)["series"]
    assert {row["op_name"]: row["owner"] for row in compared["rows"]} == expected
    assert [row["op_name"] for row in run(diff, "--owner", "giants")["series"][0]["rows"]] == ["stablehlo.exp"]
    (of_giants,) = run(diff, "--owner", "giants")["series"]
    everything = {cluster["cluster"] for cluster in compared["clusters"]}
    assert {cluster["cluster"] for cluster in of_giants["clusters"]} == {row["cluster"] for row in of_giants["rows"]}
    assert {cluster["cluster"] for cluster in of_giants["clusters"]} < everything
    assert {fix["op_names"][0]: fix["owner"] for fix in run(unblock)["fixes"]} == expected
    assert len(run(unblock, "--owner", "lowering")["fixes"]) == 2
    assert len(run(unblock, "2026-11-03", "--owner", "lowering")["series"][0]["fixes"]) == 2
    # In one model an op is looked after as that model's: `a` is no giant.
    assert {row["op_name"]: row["owner"] for row in run(readiness, "a")["missing"]} == {
        **expected,
        "stablehlo.exp": "lowering",
    }
    assert run(readiness, "a", "--owner", "giants")["missing"] == []
    for command, message in ((unblock, "no failure belongs to conv"), (diff, "nothing here belongs to conv")):
        assert message in CliRunner().invoke(command, ["--owner", "conv", "--db", url]).output
    for more, hint in (([], "try conv"), (["--owners", "none.yaml"], "try ci/owners.yaml, --owners FILE")):
        Path("none.yaml").write_text("owners: []")
        for command, words in ((diff, []), (unblock, []), (readiness, ["a"]), (report, [])):
            with pytest.raises(InputError, match="^--owner: expected a team that a rule names, got `cov`; " + hint):
                CliRunner().invoke(command, [*words, *more, "--owner", "cov", "--db", url], catch_exceptions=False)
    for view in ("night_diff", "night_failures"):
        rows = ask(url, f"SELECT op_name, owner FROM {view} WHERE night_id LIKE '%1103%'").rows
        assert dict(rows) == expected, view
    assert dict(ask(url, "SELECT op_names, owner FROM night_clusters").rows) == expected

    def listed(*words: str) -> tuple[str, dict[str, str]]:
        """The page without its data, and the owners in its table of ops."""
        done = CliRunner().invoke(report, [*words, "-o", "page.html"], catch_exceptions=False)
        assert done.exit_code == 0
        text, _, data = Path("page.html").read_text().partition('<script type="application/json" id="data">')
        return text, {row["name"]: row["owner"] for row in json.loads(data.partition("</script>")[0])["ops"]}

    folder = max(path.parent for path in tmp_path.glob("**/run.json"))
    for page in (("--db", url), (str(folder), "--db", url, "--owners", str(owners_file))):
        assert listed(*page)[1] == expected
        text, rows = listed(*page, "--owner", "giants")
        assert rows == {"stablehlo.exp": "giants"}
        assert "no exp" in text
        assert "no sort" not in text
