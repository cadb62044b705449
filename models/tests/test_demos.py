"""The demo programs run small in a process of their own, agree with PyTorch, and leave the back end's files."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

DEMOS = Path(__file__).parents[1] / "demos"
SMALL = {
    "mobilenet_v1": ("--size", "32", "--width", "32", "--blocks", "3", "--classes", "10"),
    "resnet": ("--size", "32", "--width", "8", "--stages", "2", "--depth", "1", "--classes", "10"),
    "bert": ("--layers", "1", "--hidden", "64", "--heads", "2", "--sequence", "32"),
}
FILES = (
    "hlks/*.yaml",
    "graph_fwd_0_0*/op_*/tensix_thread0.yaml",
    "graph_fwd_0_0*/op_*/tensix_thread1.yaml",
    "graph_fwd_0_0*/op_*/tensix_thread2.yaml",
    "temporal_epoch_0/overlay/pipegen.yaml",
    "temporal_epoch_0/overlay/blobs/*.yaml",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("torch") is None or find_spec("torchax") is None, reason="try pip install -e '.[torch]'"
    ),
]


def run(folder: Path, model: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-m", "opscope.pybuda", str(DEMOS / f"{model}.py"), *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def files_are_there(folder: Path, model: str) -> None:
    netlist = yaml.load((folder / f"{model}_netlist.yaml").read_text(), yaml.CSafeLoader)
    ops = {
        name for graph in netlist["graphs"].values() for name in graph if name not in ("target_device", "input_count")
    }
    assert ops == {path.stem for path in (folder / "hlks").iterdir()}
    for pattern in FILES:
        assert any(folder.glob(pattern)), pattern


@pytest.mark.parametrize("model", SMALL)
def test_a_demo_leaves_the_back_ends_files(model: str, tmp_path: Path) -> None:
    done = run(tmp_path, model, *SMALL[model], "--output", "out")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "correlation with PyTorch 0.99" in done.stdout or "correlation with PyTorch 1.00" in done.stdout
    files_are_there(tmp_path / "out", model)


def test_a_demo_only_compiles(tmp_path: Path) -> None:
    done = run(tmp_path, "bert", *SMALL["bert"], "--arch", "Grayskull", "--compile-only", "--output", "out")
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "out" / "bert.tti").is_file()
    files_are_there(tmp_path / "out", "bert")


@pytest.mark.parametrize(
    ("model", "option", "number", "error"),
    [
        ("resnet", "--stages", "5", "--stages: expected a number from 1 to 4, got 5"),
        ("mobilenet_v1", "--width", "40", "--width: expected a number from 32 to 1024 in steps of 32, got 40"),
        ("bert", "--heads", "7", "--hidden: expected a multiple of --heads 7, got 768"),
    ],
)
def test_a_wrong_size_is_one_line(model: str, option: str, number: str, error: str, tmp_path: Path) -> None:
    done = run(tmp_path, model, option, number)
    assert (done.returncode, done.stderr.strip().endswith(error)) == (2, True), done.stderr
