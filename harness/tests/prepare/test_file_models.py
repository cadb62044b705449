"""Files of StableHLO that hold several models: public functions, top-level modules, branches between blocks."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from opscope.harness.cli import read_file
from opscope.harness.prepare import file_models, mlir
from opscope.harness.prepare.export import export_file
from opscope.harness.prepare.mlir import file_models as in_file
from opscope.harness.prepare.preparation import Preparation, listing_seconds, tasks
from opscope.harness.prepare.split import split_module
from opscope.harness.record.errors import InputError

FUNCTION = """func.func {how}@{name}(%a: tensor<{size}xf32>) -> tensor<{size}xf32> {{
  {body}return %a : tensor<{size}xf32>
}}
"""
CALL = "%0 = call @part(%a) : (tensor<2xf32>) -> tensor<2xf32>\n  "
OP = "%0 = stablehlo.{op} %a : tensor<{size}xf32>\n  "


def function(name: str, op: str = "", size: int = 2, how: str = "", body: str = "") -> str:
    return FUNCTION.format(name=name, size=size, how=how, body=body or OP.format(op=op, size=size))


SEVERAL = (
    function("encode", body=CALL)
    + function("decode", "tanh", 4)
    + function("part", "exponential")
    + function("unused", "abs", how="private ")
)
MODULES = f"module @first {{\n{function('main', 'tanh')}}}\nmodule {{\n{function('main', 'abs')}}}\n"


def resolved(path: Path, word: str = "") -> list[tuple[str, str]]:
    request = Preparation((f"{path}{word}",), cache_dir=str(path.parent / "cache"))
    return [(task.name, task.entry) for task in tasks(request)]


@pytest.mark.parametrize(
    ("text", "models"),
    [
        (SEVERAL, {"encode": ["stablehlo.exponential"], "decode": ["stablehlo.tanh"]}),
        (MODULES, {"first.main": ["stablehlo.tanh"], "1.main": ["stablehlo.abs"]}),
    ],
)
def test_each_public_function_of_each_module_is_a_model(
    tmp_path: Path, text: str, models: dict[str, list[str]]
) -> None:
    path = tmp_path / "net.mlir"
    path.write_text(text)
    assert in_file.names(mlir.load(path)) == list(models)
    for name, ops in models.items():
        assert resolved(path, f":{name}") == [(f"net.{name}", name)]
        exported = export_file(path, name)
        assert [op.op_name for op in split_module(exported.bytecode, name).ops.values()] == ops
        assert b"unused" not in exported.bytecode
    hint = f"net.mlir:{next(iter(models))}"
    with pytest.raises(InputError, match=f"expected a public function 'nope', got {', '.join(models)}; try .*{hint}"):
        export_file(path, "nope")


def test_bytecode_is_read_once_by_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.mlirbc"
    path.write_bytes(mlir.to_bytecode(mlir.parse(SEVERAL)))
    assert resolved(path) == [("net.encode", "encode"), ("net.decode", "decode")]
    file_models._read.cache_clear()  # another process
    [kept] = (tmp_path / "cache" / file_models.FOLDER).rglob("*.json")
    assert len(kept.stem) == 20
    monkeypatch.setattr(file_models, "call", None)
    assert [entry for _, entry in resolved(path)] == ["encode", "decode"]


@pytest.mark.parametrize(
    "text", [function("main", "abs"), function("main", body=CALL) + function("part", "abs", how="private "), "no mlir"]
)
def test_a_file_of_one_model_costs_no_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(file_models, "call", None)
    (path := tmp_path / "net.mlir").write_text(text)
    assert resolved(path) == [("net", "")]


def test_a_public_function_that_main_calls_is_a_part_of_it() -> None:
    assert in_file.names(mlir.parse(function("main", body=CALL) + function("part", "abs"))) == ["main"]


ENDLESS = Path(__file__).parents[4] / "shared" / "cases" / "public_bugs" / "g10_hang.mlirbc"


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """Bytecode whose reading does not end."""
    if not ENDLESS.exists():
        pytest.skip(f"{ENDLESS} is not here")
    return Path(shutil.copy(ENDLESS, tmp_path / "net.mlirbc"))


def test_a_file_whose_reading_does_not_end_is_listed_within_the_limit(endless: Path) -> None:
    begun = time.monotonic()
    request = Preparation((str(endless),), cache_dir=str(endless.parent / "cache"), seconds=0.6)
    (task,) = tasks(request)
    assert (task.name, task.unreadable) == ("net", ("a readable file", "a file whose reading does not end within 1 s"))
    assert file_models.mesh(endless, "", endless.parent / "cache", 60.0) == "", "it is not read again"
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize(
    ("seconds", "left", "limit"), [(9.0, None, 9.0), (900.0, 5.0, 5.0), (900.0, -5.0, 0.1), (900.0, 500.0, 60.0)]
)
def test_the_limit_of_a_listing_is_the_least_of_all_limits(
    endless: Path, seconds: float, left: float | None, limit: float
) -> None:
    until = None if left is None else time.time() + left
    request = Preparation((str(endless),), seconds=seconds, until=until)
    assert listing_seconds(endless, request) == pytest.approx(limit, abs=0.5)


def test_a_command_reads_such_a_file_within_the_limit(endless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_models, "SECONDS", 0.6)
    with pytest.raises(InputError, match="expected StableHLO that the parser comes back from, got no end within 1 s"):
        read_file.read(str(endless))
