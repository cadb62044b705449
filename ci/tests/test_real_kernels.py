"""Recorded runs of real kernels: a folder of any jobs is priced, one of another form is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci.benchmarks.real_kernels import kernel_jobs, main, report
from ci.calibration.silicon_rows import SILICON

RECORDED = SILICON.parent / "real_kernels"
ABS = {
    "arch": "blackhole",
    "job": "abs_bf16",
    "op": "abs",
    "args": {},
    "in_format": "bf16",
    "out_format": "BFLOAT16",
    "shapes": [[2, 32]],
    "inputs": ["x"],
    "file": "out.npz",
    "out": "abs_bf16",
    "encoding": "bits",
}


def written(folder: Path, out: np.ndarray, **changed: Any) -> Path:
    """A folder of one job, whose operand counts bfloat16's negative numbers up from -1."""
    folder.mkdir()
    np.savez(folder / "inputs.npz", x=np.arange(0xBF80, 0xBF80 + 64, dtype=np.uint16).reshape(2, 32))
    np.savez(folder / "out.npz", abs_bf16=out)
    (folder / "index.json").write_text(json.dumps({"results": [ABS | changed]}))
    return folder


@pytest.mark.parametrize(("changed", "ulp"), [(0, 0), (1, 1), (3, 3)])
def test_a_job_is_scored_by_its_bits(changed: int, ulp: int, tmp_path: Path) -> None:
    out = np.arange(0x3F80, 0x3F80 + 64, dtype=np.uint16).reshape(2, 32)
    out[1, 3] -= changed
    document = report(*kernel_jobs(written(tmp_path / "jobs", out)), exact_order=True)
    (job,) = document["jobs"]
    assert job["equal"] == (63 / 64 if changed else 1)
    assert job["max_ulp"] == ulp
    assert document["kinds"]["elementwise bf16"]["same"] == (not changed)


def test_differences_of_neighbours_are_summed_up(tmp_path: Path) -> None:
    out = np.ones(64, np.uint16)
    out[0] = 0x3F80
    (job,) = report(*kernel_jobs(written(tmp_path / "jobs", out, encoding="delta16")), exact_order=True)["jobs"]
    assert job["equal"] == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"inputs": ["y"]}, "row 0"), ({"in_format": "decimal"}, "row 0"), ({"file": "gone.npz"}, "gone.npz: expected")],
    ids=["input that is not there", "unknown format", "no archive"],
)
def test_a_folder_of_another_form_is_refused(
    changed: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = np.zeros((2, 32), np.uint16)
    assert main([str(written(tmp_path / "jobs", out, **changed))]) == 2
    assert message in capsys.readouterr().err
    assert main([str(tmp_path)]) == 2
    assert "index.json: expected" in capsys.readouterr().err


@pytest.mark.skipif(not RECORDED.exists(), reason=f"no recorded runs at {RECORDED}")
def test_real_kernels_have_their_bits() -> None:
    document = report(*kernel_jobs(RECORDED), exact_order=True)
    assert document["without_kernel"] == []
    whole = {"product", "sum", "mean", "max", "softmax", "norm", "elementwise bf16", "elementwise f32"}
    assert whole <= set(document["kinds"])
    rare = {"neg_f32": 0.999, "tanh_f32": 0.999}  # a denormal and a NaN that keep their sign
    of_whole = [job for job in document["jobs"] if job["kind"] in whole]
    assert {job["job"]: job["equal"] for job in of_whole if job["equal"] < rare.get(job["job"], 1)} == {}
