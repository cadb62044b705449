"""What a worker answers to a walk that it cannot begin, and what it makes of one whose files were sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscope.base import stored
from opscope.base.digest import file_digest
from opscope.harness.cache import export_folder
from opscope.harness.prepare.allowance import Allowance
from opscope.harness.prepare.export import export_file, hand_over
from opscope.harness.prepare.preparation import Preparation
from opscope.harness.scale.blobs import Blobs, mark
from opscope.harness.scale.walk_worker import Walks, prefix

MODEL = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  %1 = stablehlo.tanh %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}"""
KEY = f"{prefix('r1')}1"

Json = dict[str, Any]


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Walks]:
    (tmp_path / "worker").mkdir()
    made = Walks(tmp_path / "worker", Blobs(tmp_path / "worker" / "blobs"))
    yield made
    made.leave("r1")


def task(folder: Path, **changes: Any) -> Json:
    """A walk of a model whose file lies in a folder."""
    path = folder / "small.mlir"
    path.write_text(MODEL)
    return {
        "walk": KEY,
        "name": "small",
        "path": str(path),
        "entry": "",
        "exported": "",
        "kept": "",
        "devices": 1,
        "processes": 1,
        "folder": str(folder / "exports" / "00"),
        "temporary": str(folder / "exports" / ".making-1"),
        "request": asdict(Preparation(("small.mlir",), cache_dir=str(folder))),
        "packages": export_folder.sources_digest(),
        "allowance": Allowance(60.0).as_json(),
        **changes,
    }


def test_a_worker_says_why_it_does_not_begin(worker: Walks, tmp_path: Path) -> None:
    asked = task(tmp_path)
    assert worker.walk({**asked, "packages": "others"}, print) == {"unlike": True}
    seen = [asked["path"], mark(Path(asked["path"]))]
    assert worker.walk({**asked, "seen": [seen]}, print) == {"blind": True}, "it has no such folder to write into"
    Path(asked["temporary"]).mkdir(parents=True)
    assert worker.walk({**asked, "seen": [[seen[0], "1 2 3"]]}, print) == {"blind": True}, "it sees another file"
    sent = {"files": {"exported/module.mlirbc": "0" * 64}, "exported": "exported", "brought": {}}
    assert worker.walk({**asked, **sent}, print) == {"missing": ["0" * 64]}


@pytest.mark.slow
def test_a_walk_of_sent_files_is_reported_and_its_files_can_be_fetched(worker: Walks, tmp_path: Path) -> None:
    asked = task(tmp_path)
    hand_over(export_file(Path(asked["path"])), tmp_path / "exported")
    files, messages = {}, list[Json]()
    for path in (tmp_path / "exported").iterdir():
        files[f"exported/{path.name}"] = digest = file_digest(path)
        worker.blobs.keep(digest, 0, path.stat().st_size, path.read_bytes())
    np.savez(tmp_path / "x.npz", arg0=np.arange(4, dtype=np.float32))
    files["brought/inputs.npz"] = digest = file_digest(tmp_path / "x.npz")
    worker.blobs.keep(digest, 0, (tmp_path / "x.npz").stat().st_size, (tmp_path / "x.npz").read_bytes())
    sent = {"files": files, "exported": "exported", "brought": {"inputs": "brought/inputs.npz"}}
    wanted = [True]
    assert worker.walk({**asked, **sent}, messages.append, lambda: wanted[0]) == {"made": True}
    ops = [json.loads(event["text"]) for event in messages if event["event"] == "announce"]
    assert [json.loads(op["row"])["op_name"] for op in ops] == ["stablehlo.add", "stablehlo.tanh"]
    for name, values in ops[1]["files"].items():
        (tmp_path / "taken").write_bytes(worker.part(KEY, name, 0, 1 << 20))
        assert stored.mark_of(tmp_path / "taken") == stored.FileMark(*values)
    (tmp_path / "sum.npy").write_bytes(worker.part(KEY, json.loads(ops[0]["row"])["golden"][0], 0, 1 << 20))
    assert np.load(tmp_path / "sum.npy").tolist() == [0.0, 2.0, 4.0, 6.0], "of the values that were sent"
    header = json.loads(worker.part(KEY, export_folder.MANIFEST, 0, 1 << 20).splitlines()[0])
    assert header["export_dirs"] == [asked["folder"]], "where it will be"
    assert not Path(asked["folder"]).exists()
    for wanted[0] in (True, False):
        worker.part(KEY, export_folder.MANIFEST, 0, 1)
        worker.walk({**asked, "packages": "others"}, print)
    with pytest.raises(KeyError):
        worker.part(KEY, export_folder.MANIFEST, 0, 1)


@pytest.mark.slow
def test_a_walk_ends_once_nobody_wants_it(worker: Walks, tmp_path: Path) -> None:
    asked = task(tmp_path)
    path, temporary = Path(asked["path"]), Path(asked["temporary"])
    temporary.mkdir(parents=True)
    asked["seen"] = [[str(path), mark(path)]]
    assert worker.walk(asked, print, wanted=lambda: False) == {"stopped": True}
    assert not Path(asked["folder"]).exists()
