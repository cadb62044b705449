"""Repro folders of backend tt: their program shows the failure without opscope. Needs the extra `tt`."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from opscope.base.tests.captured import captured
from opscope.harness.backends import tt_repro
from opscope.harness.backends.base import Job
from opscope.harness.backends.tt import Tt
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.acceptance.test_tt import ABORTS, swept

try:
    metadata.version("jax-tt-plugin")
    MISSING = False
except metadata.PackageNotFoundError:
    MISSING = True
pytestmark = [pytest.mark.slow, pytest.mark.skipif(MISSING, reason="needs jax-tt-plugin: pip install 'opscope[tt]'")]
REFUSED = """func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "stablehlo.cholesky"(%a) <{lower = true}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
"""
NARROWED = """func.func @main(%a: tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32> {
  %c = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%a, %c) <{window_dimensions = array<i64: 1, 2, 2, 1>,
    window_strides = array<i64: 1, 2, 2, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<1x8x8x4xf32>, tensor<f32>) -> tensor<1x4x4x4xf32>
  return %0 : tensor<1x4x4x4xf32>
}
"""


def shown(folder: Path, script: str) -> tuple[int, str]:
    """The exit code of a script of a folder, and what it says."""
    done = captured(["sh", script], cwd=folder, env={**os.environ, "PYTHON": sys.executable}, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_failures_are_reproduced_without_opscope_for_the_maintainer(place: Place) -> None:
    swept(place, [("refused", REFUSED), ("aborts", ABORTS)], "--reruns", "0")
    run_dir = place.runs()[-1]
    records = place.records()
    assert {record["status"] for record in records} == {"compile_failed", "crashed"}
    for record in records:
        folder = run_dir / "artifacts" / record["op_id"] / "repro-tt"
        code, said = shown(folder, "without_opscope.sh")
        assert code != 0
        assert record["error_message"] in said
        issue = place.run("opscope", "repro", record["op_id"], "--as-issue").out
        for words in (
            record["error_message"],
            "on n150 (no card: compiled for its description)",
            "- jax-tt-plugin: ",
            "- libtt.so: sha256 ",
            "`module.mlirbc`, `n150.ttsys` (attached)",
            "ttmlir-opt --stablehlo",
            "third party's build",
            f"1 use in 1 model of this run: `{record['model_name']}`.",
        ):
            assert words in issue, words


def test_compiled_files_are_shown_with_their_types(tmp_path: Path) -> None:
    backend, job = Tt(), Job("pool", NARROWED.encode(), [], ResultOptions())
    for name, content in {"module.mlirbc": job.module, **backend.repro_files(job)}.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "lines.sh").write_text("\n".join(backend.repro_lines(job)))
    code, said = shown(tmp_path, "lines.sh")
    assert code == 0
    assert "ttnn.max_pool2d (tensor<1x1x64x4xbf16>) -> tensor<1x1x16x4xbf16>" in said
    assert {path.name for path in tmp_path.iterdir()} == {"module.mlirbc", "lines.sh", "n150.ttsys", tt_repro.PROGRAM}


def test_bisect_takes_the_plugin_and_the_descriptor_that_each_revision_builds(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One build is all that is here, so it is the revision that builds nothing which is no good one."""
    from opscope.harness.triage import after_run, bundle, from_run
    from opscope.harness.triage.bisect import AsRecorded, Built, Op, bisect

    swept(place, [("refused", REFUSED)], "--reruns", "0")
    run_dir, _, _, test = from_run.find(place.records()[0]["op_id"], place.runs()[-1], "test")
    repo = place.folder / "repo"
    library = Tt().library()
    opscope = Path(sys.executable).with_name("opscope")
    build = f"ln -s {library.path} own.so && {opscope} device system-desc n150 -o own.ttsys"
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(repo)]
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    for content in ("rm -f own.so", build):  # what a revision builds stays until another one removes it
        (repo / "build.sh").write_text(content)
        subprocess.run([*git, "add", "build.sh"], check=True)
        subprocess.run([*git, "commit", "-qm", content[:4]], check=True)
    steps: list[str] = []
    monkeypatch.chdir(place.folder)  # where what was built is kept
    folder = after_run.place(run_dir, test)
    judge, built = AsRecorded(bundle.read(folder).failure), Built("sh build.sh", "tt:own.so", "own.ttsys")
    with pytest.raises(InputError, match=r"--good: .* skipped: has no own\.so"):
        bisect(Op(folder), judge, repo, "HEAD~1", "HEAD", built, report=steps.append)
    assert steps[0].endswith(" compile_failed")
