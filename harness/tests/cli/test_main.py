from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import click
import pytest

from opscope.harness.cli import main
from opscope.harness.cli.verbs import DAILY, GROUPS, SENTENCES
from opscope.harness.settings.settings import SETTINGS


def opscope(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command line, in this process."""
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    code = ended.value.code
    out, err = capsys.readouterr()
    return int(code or 0), out, err


def test_help_is_one_screen_which_names_every_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = opscope(capsys, "--help")
    lines = out.splitlines()
    assert (code, len(lines) <= 40, max(map(len, lines)) <= 80) == (0, True, True)
    assert [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in DAILY] == list(DAILY)
    for group, names in GROUPS.items():
        assert f"  {group.ljust(10)}  {' '.join(names)}" in lines


def test_help_loads_no_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def load(entry: object) -> object:
        raise AssertionError(entry)

    monkeypatch.setattr("importlib.metadata.EntryPoint.load", load)
    assert opscope(capsys, "--help")[0] == 0
    offered = main.root.shell_complete(click.Context(main.root, resilient_parsing=True), "di")
    assert [(item.value, item.help) for item in offered] == [(n, SENTENCES[n]) for n in ("diff", "diff-tensors")]


def test_the_sentence_of_every_command_is_that_of_its_help() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text())["project"]
    assert sorted(SENTENCES) == sorted(project["entry-points"]["opscope.commands"])
    context = click.Context(main.root)
    commands = {name: main.root.get_command(context, name) for name in SENTENCES}
    assert {name: each and each.get_short_help_str(200) for name, each in commands.items()} == SENTENCES


@pytest.mark.parametrize("group", GROUPS)
def test_help_of_a_group_has_its_sentences(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = opscope(capsys, "help", group)
    whole = " ".join(out.split())
    assert (code, [sentence for sentence in GROUPS[group].values() if sentence not in whole]) == (0, [])


def test_help_of_a_command_is_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert opscope(capsys, "help", "dashboard", "up") == opscope(capsys, "dashboard", "up", "--help")
    code, _, err = opscope(capsys, "help", "dashboard", "upp")
    assert (code, err) == (
        2,
        "opscope help: expected a group or a command, got 'upp'; try opscope help dashboard up\n",
    )


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


def test_config_init_writes_every_setting_out_of_force(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "pyproject.toml"
    file.write_text("[project]\nname = 'net'\n")
    assert opscope(capsys, "config", "init")[0] == 0
    assert tomllib.loads(file.read_text()) == {"project": {"name": "net"}, "tool": {"opscope": {}}}
    # In force, each line is one that its setting takes: but for placeholders, its default.
    lines = [line[2:] for line in file.read_text().splitlines() if re.match(r"# \w+ = ", line)]
    table = tomllib.loads("\n".join(lines[: len(SETTINGS)]))
    assert list(table) == [setting.name for setting in SETTINGS]
    for setting in SETTINGS:
        if setting.default is not None and not callable(setting.default):
            assert setting.read("", table[setting.name]) == setting.default
    code, _, err = opscope(capsys, "config", "init")
    assert code == 2
    assert "expected no table [tool.opscope] yet, got one; try" in err


def test_config_explains_a_setting(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.opscope.presets.ci]\nreruns = 0\n")
    code, out, _ = opscope(capsys, "config", "--explain", "--reruns", "--preset", "ci")
    assert code == 0
    assert "tells deterministic, flaky and infrastructure failures apart" in out
    assert "--reruns N, OPSCOPE_RERUNS, [tool.opscope] reruns" in out
    assert f"now: 0 (from: {tmp_path / 'pyproject.toml'} [tool.opscope.presets.ci])" in out
    code, _, err = opscope(capsys, "config", "--explain", "rerun")
    assert (code, err.count("\n")) == (2, 1)
    assert "got 'rerun'; try reruns" in err


def test_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = opscope(capsys, "models", "--json")
    assert code == 0
    assert {"name", "family", "framework", "size", "file"} <= set(json.loads(out)[0])
    assert "mnist_mlp" in {entry["name"] for entry in json.loads(out)}
