"""Exporters as processes: what is kept, what keys it, and how each way of failing is told."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from importlib import metadata
from pathlib import Path

import pytest

from opscope.base.stored import DIGESTS
from opscope.base.tests.each import each
from opscope.harness.cache.claims import Claims
from opscope.harness.engine import model_jobs
from opscope.harness.prepare import exporting
from opscope.harness.prepare.allowance import Allowance
from opscope.harness.prepare.export import handed_over
from opscope.harness.prepare.exporting import Export, ExportFailed, Own, exported, exported_first
from opscope.harness.prepare.preparation import Preparation
from opscope.harness.prepare.turn import Stopped
from opscope.harness.record.errors import InputError
from opscope.models import frontends, registry
from opscope.models.frontends import own_results
from opscope.models.frontends.base import Frontend, Source

HEAD = "from opscope.models.arguments import ArgSpec, Built\nfrom opscope.models.registry import model\n"
MODEL = (
    HEAD
    + """
@model(name="made", family="toy")
def build(dtype):
    {before}
    return Built(lambda w: {result}, (ArgSpec("x", (2, 3), dtype, "normal:1", "input"),))
"""
)


def export_of(path: Path, **options: object) -> Export:
    files = tuple(map(str, registry.sources_of(path)))
    return Export("jax", Source("made", str(path), "float32", entry="made", **options), files)


def made(
    tmp_path: Path, result: str = 'w["x"] + w["x"]', before: str = "pass", seconds: float = 900.0, **options: object
) -> Path:
    path = tmp_path / "made.py"
    path.write_text(MODEL.format(result=result, before=before))
    with Claims() as claims:
        return exported(export_of(path, **options), tmp_path / "cache", 1 << 30, claims, Allowance(seconds))


def test_a_model_that_draws_random_numbers_does_not_run_in_its_framework(tmp_path: Path) -> None:
    path = tmp_path / "made.py"
    path.write_text(MODEL.format(result='w["x"] + jax.lax.rng_uniform(0.0, 1.0, (2, 3))', before="import jax"))
    with Claims() as claims:
        folder = exported(export_of(path), tmp_path / "cache", 1 << 30, claims, Allowance(), Own(0, 1 << 30))
    assert handed_over(folder).frontend.startswith("jax 0.")
    assert not (folder / own_results.FILE).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only there are exporters forks")
def test_an_exporter_is_a_fork_that_has_its_framework_and_no_model(tmp_path: Path) -> None:
    """Two models in turn: what the first one did to JAX and to its own process is not there for the second."""
    seen = tmp_path / "seen.txt"
    facts = "os.getppid(), jax.config.jax_enable_x64, hasattr(jax, 'spoiled'), len(os.listdir('/proc/self/task'))"
    before = "; ".join(
        [
            "import jax, os",
            f"print({facts}, file=open({str(seen)!r}, 'a'))",
            "jax.config.update('jax_enable_x64', True)",
            "jax.spoiled = True",
        ]
    )
    for number in range(2):
        made(tmp_path, f'w["x"] + {number}', before)
    first, second = seen.read_text().splitlines()
    assert first == second
    parent, *rest = first.split()
    assert rest == ["False", "False", "1"]
    assert b"fork_server" in Path(f"/proc/{parent}/cmdline").read_bytes()


@pytest.mark.slow
def test_handed_over_exports_are_kept_until_a_source_changes(tmp_path: Path) -> None:
    folder = made(tmp_path)
    handed = handed_over(folder)
    assert [(s.name, s.shape, s.role) for s in handed.arguments] == [("x", (2, 3), "input")]
    assert handed.frontend.startswith("jax 0.")
    assert {p.name for p in folder.iterdir()} == {"module.mlirbc", "arguments.json", DIGESTS}
    stamp = (folder / "module.mlirbc").stat().st_ino
    assert made(tmp_path) == folder
    assert (folder / "module.mlirbc").stat().st_ino == stamp
    assert made(tmp_path, 'w["x"] * w["x"]') != folder
    assert not list((tmp_path / "cache" / "modules").glob(".making-*"))


def test_the_framework_is_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made.py").write_text(MODEL.format(result='w["x"]', before="pass"))
    before = export_of(tmp_path / "made.py").request_key()
    assert export_of(tmp_path / "made.py", training=True).request_key() != before
    monkeypatch.setattr(frontends, "versions", lambda framework, model=None: {"jax": "another"})
    assert export_of(tmp_path / "made.py").request_key() != before


@pytest.mark.parametrize("package", ["torch", "keras", "flax", "jaxlib"])
def test_a_users_python_file_is_exported_anew_by_another_version_of_what_it_may_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    (tmp_path / "mine.py").write_text("model = None")
    source = Source("mine", str(tmp_path / "mine.py"), "float32")
    export = Export("python", source, (source.path,))
    before, there = export.request_key(), frontends.version
    monkeypatch.setattr(frontends, "version", lambda name: "0.0.1" if name == package else there(name))
    assert export.request_key() != before
    assert not frontends.missing("python"), "a file that imports no such framework needs none"


@pytest.mark.parametrize(
    ("imports", "needed"),
    [
        ("", set()),
        ("import torch", set()),
        ("def build(dtype):\n    from transformers.models import bert", {"transformers"}),
        ("import torch, diffusers.models as d\nimport torch_geometric.nn", {"diffusers", "torch_geometric"}),
        ("from . import transformers", set()),
        ("def", {"transformers", "diffusers", "torch_geometric"}),
    ],
)
def test_a_model_needs_the_libraries_that_its_own_file_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports: str, needed: set[str]
) -> None:
    def version(package: str) -> str:
        if package in ("torch", "torchax"):
            return "1"
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(frontends, "version", version)
    (tmp_path / "mine.py").write_text(imports)
    assert set(frontends.absent("torch", tmp_path / "mine.py")) == needed
    assert set(frontends.versions("torch", tmp_path / "mine.py")) == {"torch", "torchax", "torch-mlir"} | needed
    assert bool(frontends.missing("torch", tmp_path / "mine.py")) == bool(needed)
    assert len(frontends.absent("torch")) == 3


@pytest.mark.parametrize(
    ("before", "result", "stage", "error"),
    [
        ("raise KeyError('weights')", "0", "build", "KeyError: 'weights'"),
        ("pass", 'w["x"] @ w["x"]', "export", "TypeError: dot_general requires"),
        ("import os; os._exit(0)", "0", "build", r"exit 0 at build: no output"),
        ("import os; os.abort()", "0", "build", r"signal SIGABRT at build: Fatal .*: Aborted"),
        ("print('a word'); import os; os._exit(3)", "0", "build", r"exit 3 at build: a word"),
    ],
)
def test_every_way_to_fail_has_its_stage(tmp_path: Path, before: str, result: str, stage: str, error: str) -> None:
    with pytest.raises(ExportFailed, match=error) as caught:
        made(tmp_path, result, before)
    assert caught.value.stage == stage
    assert not list((tmp_path / "cache" / "modules").iterdir())


def test_an_exporter_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(ExportFailed, match=r"timeout at build: more than 0.4 s .*; try --prepare-timeout"):
        made(tmp_path, before="import time; time.sleep(60)", seconds=0.4)


@each("name", frontends.names())
def test_every_frontend_says_what_it_needs(name: str) -> None:
    frontend: Frontend = frontends.get(name)
    assert frontend.name == name
    assert frontend.packages or frontend.either
    extras = (Path(registry.ROOT).parent / "pyproject.toml").read_text()
    assert not frontend.extra or f"\n{frontend.extra} = [" in extras


WAITING = (
    HEAD
    + """
import time
from pathlib import Path

class Forward:
    traces = 0

    def __call__(self, w):
        Forward.traces += 1
        until = time.monotonic() + {seconds}
        while Forward.traces > 1 and not Path({mark!r}).exists() and time.monotonic() < until:
            time.sleep(0.005)
        return w["x"] + w["x"]

@model(name="made", family="toy")
def build(dtype):
    return Built(Forward(), (ArgSpec("x", (2, 3), dtype, "normal:1", "input"),))
"""
)
"""A model that its framework has not run before there is a certain file."""


class TestBesideTheWalk:
    """A framework runs its model while the export is used."""

    def waiting(self, tmp_path: Path, allowance: Allowance, seconds: float = 30.0) -> AbstractContextManager[Path]:
        path = tmp_path / "made.py"
        path.write_text(WAITING.format(mark=str(tmp_path / "mark"), seconds=seconds))
        return exported_first(export_of(path), tmp_path / "cache", 1 << 30, self.claims, allowance, Own(0, 1 << 30))

    @pytest.fixture(autouse=True)
    def locks(self) -> Iterator[None]:
        with Claims() as self.claims:
            yield

    def test_the_export_is_there_first_and_both_are_kept(self, tmp_path: Path) -> None:
        with self.waiting(tmp_path, Allowance()) as folder:
            assert handed_over(folder).frontend.startswith("jax 0.")
            assert not (folder / own_results.FILE).exists()
            (tmp_path / "mark").touch()
        [kept] = (tmp_path / "cache" / "modules").iterdir()
        assert not kept.name.startswith(".")
        document, [result] = own_results.read(kept)
        assert (document["not_run"], result.shape) == ("", (2, 3))
        with self.waiting(tmp_path, Allowance()) as folder:
            assert folder == kept

    @pytest.mark.slow
    def test_large_values_are_not_held_twice(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(exporting, "BESIDE", 1 << 60)
        with self.waiting(tmp_path, Allowance(), seconds=0.0) as folder:
            assert own_results.read(folder)[0]["not_run"] == ""

    @pytest.mark.slow
    def test_what_fails_meanwhile_leaves_the_export(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="the walk"), self.waiting(tmp_path, Allowance(), seconds=0.0):
            raise ValueError("the walk")
        [kept] = (tmp_path / "cache" / "modules").iterdir()
        assert own_results.read(kept)[0]["not_run"] == ""

    @pytest.mark.parametrize("order", [Stopped, KeyboardInterrupt])
    def test_a_run_that_ends_waits_for_no_framework(self, tmp_path: Path, order: type[BaseException]) -> None:
        begun = time.monotonic()
        with pytest.raises(order), self.waiting(tmp_path, Allowance(), seconds=60.0):
            raise order
        assert time.monotonic() - begun < 20
        assert not list((tmp_path / "cache" / "modules").iterdir())

    @pytest.mark.slow
    def test_a_framework_that_takes_its_share_is_ended(self, tmp_path: Path) -> None:
        with self.waiting(tmp_path, Allowance(6.0), seconds=60.0):
            pass
        [kept] = (tmp_path / "cache" / "modules").iterdir()
        assert "timeout at its own framework" in own_results.read(kept)[0]["not_run"]


class TestAbsent:
    """A framework that is not installed; a package of that name would have to be."""

    @pytest.fixture(autouse=True)
    def absent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        versions = {"no-such-package": ""}
        monkeypatch.setattr(frontends, "versions", lambda framework, *_: versions if framework == "jax" else {})

    def test_is_one_line_where_nothing_else_is_asked_for(self, tmp_path: Path) -> None:
        line = (
            r"^--model mnist_mlp: expected its framework to be installed, got no-such-package not .*; try pip install"
        )
        with pytest.raises(InputError, match=line):
            model_jobs.prepare(Preparation(("mnist_mlp",), cache_dir=str(tmp_path)))

    def test_is_a_row_beside_models_that_run(self, tmp_path: Path) -> None:
        (tmp_path / "file.mlir").write_text(
            "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"
        )
        header, _ = model_jobs.prepare(
            Preparation(("mnist_mlp", str(tmp_path / "file.mlir")), cache_dir=str(tmp_path / "cache"))
        )
        assert header.by_outcome() == {"ran": 1, "framework_missing": 1}
        assert header.failed[0].error == "no-such-package not installed; try pip install -e ."
