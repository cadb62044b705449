from __future__ import annotations

from pathlib import Path

import pytest

from opscope.harness.record.errors import InputError
from opscope.harness.settings.settings import BY_NAME, SETTINGS, Setting, project_folder, resolve, words_of_preset


def project(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_order_of_sources(tmp_path: Path) -> None:
    root = project(tmp_path, '[tool.opscope]\nbackend = "xla"\nseed = 3\nop-timeout = 5\n')
    got = resolve({"seed": "7", "backend": None}, root, {"OPSCOPE_SEED": "4", "OPSCOPE_BACKEND": "null"})
    assert (got["seed"], got.sources["seed"]) == (7, "command line")
    assert (got["backend"], got.sources["backend"]) == ("null", "environment")
    assert (got["op_timeout"], got.sources["op_timeout"]) == (5.0, str(root / "pyproject.toml"))
    assert (got["arch"], got.sources["arch"]) == ("n150", "default")
    assert got.is_set("seed")
    assert not got.is_set("arch")


def test_the_nearest_pyproject_counts(tmp_path: Path) -> None:
    project(tmp_path, "[tool.opscope]\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert project_folder(inner) == tmp_path.resolve()
    assert project_folder(project(inner, "")) == inner.resolve()


def test_every_setting_has_a_value_and_a_source(tmp_path: Path) -> None:
    got = resolve({}, tmp_path, {})
    assert set(got.values) == set(got.sources) == set(BY_NAME) == {s.name for s in SETTINGS}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("op_memory", "8GiB", 8 * 2**30),
        ("optimization_level", "2", 2),
        ("op_memory", "1.5g", 3 * 2**29),
        ("op_memory", 1 << 30, 1 << 30),
        ("golden_memory", "4096B", 4096),
        ("keep_ir", "yes", True),
        ("keep_ir", "0", False),
        ("seed", "0x10", 16),
        ("dtype", "bf16", "bfloat16"),
        ("until", "run", "run"),
    ],
)
def test_values_are_read(tmp_path: Path, name: str, text: object, value: object) -> None:
    assert resolve({name: text}, tmp_path, {})[name] == value


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("op_memory", "lots", "--op-memory: expected a size"),
        ("op_memory", 8, "--op-memory: expected a size of memory with a unit, from 64MiB on, got 8; try 8GiB"),
        ("prepare_memory", "63M", "expected a size of memory with a unit, from 64MiB on, got '63M'; try 8GiB"),
        ("op_timeout", "-1", "--op-timeout: expected a number of seconds"),
        ("op_timeout", "nan", "--op-timeout: expected a number of seconds"),
        ("seed", "one", "--seed: expected an integer"),
        ("math_fidelity", "HiFi5", "--math-fidelity: expected one of LoFi, HiFi2, HiFi3, HiFi4, got 'HiFi5'; try HiFi"),
        ("dtype", "float46", "--dtype: expected one of"),
        ("until", "Run", "expected the name of a stage, got 'Run'; try run"),
        ("inputs", "captred", "; try captured"),
        ("keep_ir", "maybe", "--keep-ir: expected true or false"),
    ],
)
def test_bad_values_are_one_line(tmp_path: Path, name: str, text: object, where: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve({name: text}, tmp_path, {})
    assert where in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("setting", [each for each in SETTINGS if each.metavar == "SIZE"], ids=lambda each: each.name)
def test_every_size_has_a_unit(tmp_path: Path, setting: Setting) -> None:
    with pytest.raises(InputError, match=r"with a unit.*, got '8'; try \d+[MG]iB$"):
        resolve({setting.name: "8"}, tmp_path, {})
    assert resolve({setting.name: "8GiB"}, tmp_path, {})[setting.name] == 8 << 30


def test_errors_name_the_source(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^OPSCOPE_SEED: "):
        resolve({}, tmp_path, {"OPSCOPE_SEED": "x"})
    with pytest.raises(InputError, match=r"got 'bakend'; try backend"):
        resolve({}, project(tmp_path, "[tool.opscope]\nbakend = 'xla'\n"), {})
    with pytest.raises(InputError, match=r"pyproject\.toml: expected a TOML file"):
        resolve({}, project(tmp_path, "[tool.opscope\n"), {})


def test_masked_settings_hold_no_password(tmp_path: Path) -> None:
    got = resolve({"publish": "postgresql://ann:s3cret@db/x"}, tmp_path, {})
    assert got.masked()["publish"] == "postgresql://ann:***@db/x"
    assert got.masked()["seed"] == 0
    assert got["publish"] == "postgresql://ann:s3cret@db/x"


PRESET = """\
[tool.opscope]
backend = "xla"
seed = 3
[tool.opscope.presets.nightly]
backend = ["reference", "xla"]
op-timeout = 5
model = "mnist_mlp"
ops = ["dot*", "add"]
"""


def test_a_preset_goes_before_the_project_and_after_the_environment(tmp_path: Path) -> None:
    root = project(tmp_path, PRESET)
    got = resolve({"preset": "nightly"}, root, {"OPSCOPE_OP_TIMEOUT": "7"})
    assert (got["backend"], got["op_timeout"], got["seed"]) == ("reference,xla", 7.0, 3)
    assert got.sources["backend"] == f"{root / 'pyproject.toml'} [tool.opscope.presets.nightly]"
    assert resolve({}, root, {"OPSCOPE_PRESET": "nightly"})["backend"] == "reference,xla"
    assert resolve({}, root, {})["backend"] == "xla"
    assert words_of_preset("nightly", root) == {"model": ["mnist_mlp"], "ops": ["dot*", "add"]}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "",
            "--preset: expected a preset of .*pyproject.toml, got 'nightly'; try a table .*presets.nightly.",
        ),
        ("[tool.opscope.presets.nightyl]\n", "got 'nightly'; try nightyl"),
        ("[tool.opscope.presets.nightly]\nbackends = 'xla'\n", r"presets.nightly.: .*got 'backends'; try backend"),
        ("[tool.opscope.presets.nightly]\npreset = 'other'\n", "expected the name of a setting, got 'preset'"),
        ("[tool.opscope.presets.nightly]\nseed = 'one'\n", r"presets.nightly. seed: expected an integer"),
    ],
)
def test_a_preset_that_is_no_preset_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        resolve({"preset": "nightly"}, project(tmp_path, text), {})
