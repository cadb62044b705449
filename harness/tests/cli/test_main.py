from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from opscope.harness.cli import main


def opscope(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command line, in this process."""
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    code = ended.value.code
    out, err = capsys.readouterr()
    return int(code or 0), out, err


def test_help_lists_every_command_under_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = opscope(capsys, "--help")
    assert code == 0
    lines = [
        line for heading, names in main.SECTIONS.items() for line in (f"\n{heading}:\n", *(f"\n  {n} " for n in names))
    ]
    places = [out.index(line) for line in lines]
    assert places == sorted(places)


def test_every_command_of_this_project_has_a_heading() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text())["project"]
    listed = [name for names in main.SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(project["entry-points"]["opscope.commands"])


def test_a_command_of_another_package_is_listed_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = main.root._entries()
    monkeypatch.setattr(main.Verbs, "_entries", lambda _: entries | {"brew": entries["show"]})
    _, out, _ = opscope(capsys, "--help")
    assert out.partition(f"\n{main.OTHERS}:\n")[2].split()[0] == "brew"


def test_unknown_verb_names_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = opscope(capsys, "shwo")
    assert (code, out) == (2, "")
    assert err.startswith("opscope: expected a command, got 'shwo'; try opscope show")
    assert err.count("\n") == 1


def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = opscope(capsys, "show", str(tmp_path / "nowhere"))
    assert code == 2
    assert err.count("\n") == 1
    assert ": expected a run folder or the id of a published run, got " in err


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("boom")

    monkeypatch.setattr(main.root, "main", broken)
    with pytest.raises(ValueError, match="boom"):
        main.main(["show"])


def test_config_says_where_each_value_comes_from(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.opscope]\narch = 'e150'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPSCOPE_PUBLISH", "postgresql://ann:s3cret@db/x")
    code, out, _ = opscope(capsys, "config", "--json")
    got = json.loads(out)
    assert code == 0
    assert got["arch"] == {"value": "e150", "source": str(tmp_path / "pyproject.toml")}
    assert got["publish"] == {"value": "postgresql://ann:***@db/x", "source": "environment"}
    code, out, _ = opscope(capsys, "config")
    assert "s3cret" not in out


def test_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = opscope(capsys, "models", "--json")
    assert code == 0
    assert {"name", "family", "framework", "size", "file"} <= set(json.loads(out)[0])
    assert "mnist_mlp" in {entry["name"] for entry in json.loads(out)}
