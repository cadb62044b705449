"""Goldens of a stated release: made in its environment, named by the record, and apart from those of another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.base.xla.xla_releases import FIRST
from opscope.harness.cache import export_folder
from opscope.harness.engine.model_jobs import prepare
from opscope.harness.prepare.inputs import row_golden
from opscope.harness.prepare.mlir.door import MAGIC
from opscope.harness.prepare.preparation import Preparation, tasks
from opscope.harness.record.errors import InputError
from opscope.harness.record.stages import Status
from opscope.harness.run.api import run_op_by_op
from opscope.harness.tests.triage.runs import unary
from opscope.harness.tests.wheels import INSTALLED, only_index, wheel

pytestmark = pytest.mark.slow

TANH = unary("stablehlo.tanh %a : tensor<4x6xf32>", "4x6xf32")


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that whoever imports jaxlib 9.1 leaves, in an index that has it and 9.2, which cannot be imported."""
    mark, index = tmp_path / "imported", tmp_path / "index"
    index.mkdir()
    own = f"{INSTALLED}from pathlib import Path\nPath({str(mark)!r}).touch()\n"
    wheel(index, "jaxlib", "9.1", {"jaxlib/__init__.py": own})
    wheel(index, "jaxlib", "9.2", {"jaxlib/__init__.py": "raise ImportError('libodd.so.7: no such file')\n"})
    for version in ("9.1", "9.2"):
        wheel(index, "jax", version, {"jax/__init__.py": ""})
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path / "cache"))
    only_index(monkeypatch, index)
    return mark


def test_goldens_are_made_by_the_release_and_the_record_names_it(tmp_path: Path, mark: Path) -> None:
    def run(name: str, **options: str) -> tuple[str, list[np.ndarray]]:
        [test] = run_op_by_op(TANH, name="net", run_dir=tmp_path / name, cache_dir=tmp_path / "cache", **options)
        assert test.status is Status.SUCCESS
        folder = next(path for path in (tmp_path / "cache" / "exports").iterdir() if path not in seen)
        seen.add(folder)
        _, [row] = export_folder.read_manifest(folder)
        return test.provenance, row_golden(row, folder)

    seen: set[Path] = set()
    provenance, golden = run("installed", backend="reference")
    assert not mark.exists()
    other, same = run("stated", backend="reference", goldens_by="jaxlib@9.1")
    assert mark.exists()
    assert other == f"{provenance} by jaxlib@9.1"
    np.testing.assert_array_equal(golden, same)
    assert len(seen) == 2, "neither is taken for the other"


def test_a_release_that_cannot_make_them_is_one_line(tmp_path: Path, mark: Path) -> None:
    file = tmp_path / "net.mlir"
    file.write_text(TANH, encoding="utf-8")
    for author, words in {
        "iree@3.0": "--goldens-by: expected a release of jaxlib, got iree@3.0; try jaxlib@",
        "jaxlib@0.9.2": f"jaxlib {FIRST} or newer, since it splits models and makes goldens, got 0.9.2; try jaxlib@",
        "jaxlib": "--goldens-by: expected a release of jaxlib, got jaxlib",
        "jaxlib@9.9": "a release of jaxlib for this Python and machine, got 9.9; try jaxlib@9.2, jaxlib@9.1",
    }.items():
        with pytest.raises(InputError) as refused:
            tasks(Preparation((str(file),), goldens_by=author))
        assert words in str(refused.value)
    with pytest.raises(InputError, match=r"libodd\.so\.7"):
        run_op_by_op(TANH, name="net", run_dir=tmp_path / "run", goldens_by="jaxlib@9.2")


def test_a_model_that_the_release_cannot_read_is_a_row(tmp_path: Path, mark: Path) -> None:
    (tmp_path / "net.mlir").write_bytes(MAGIC + b"no bytecode")
    header, rows = prepare(Preparation((str(tmp_path / "net.mlir"),), goldens_by="jaxlib@9.1"))
    assert mark.exists()
    assert not rows
    [failure] = header.failed
    assert failure.error.startswith("jaxlib@9.1, which makes goldens, cannot read it: bytecode of a newer MLIR")
