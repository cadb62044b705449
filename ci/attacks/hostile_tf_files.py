"""TFLite files, SavedModel folders and frozen graphs that are damaged, cut short or garbage, as models of a run.

The good ones that are spoiled are made by TensorFlow itself. Where it is not installed, every attempt is skipped, which
is said: the row of such a model is `framework_missing`, whatever is in its file.
"""

from __future__ import annotations

import importlib.util
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ci.attacks._many_models import run_models
from ci.attacks.attempt import Attempt
from ci.attacks.damage import put_in_place, spoiled

SAMPLE, FULL = 3, 90
SECONDS = 120
"""Limit of each model; TensorFlow alone takes ten seconds to load."""
NEEDED = ("tensorflow", "tf2onnx", "torch_mlir")
WAYS = ("cut", "repeat", "bytes", "words")
"""How bytes are spoiled."""

SEEDS = """
import sys
from pathlib import Path
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

class Model(tf.Module):
    def __init__(self):
        self.weight = tf.Variable(tf.reshape(tf.range(64, dtype=tf.float32), (8, 8)))

    @tf.function(input_signature=[tf.TensorSpec([2, 8], tf.float32)])
    def run(self, x):
        return tf.nn.softmax(tf.tanh(x @ self.weight) + 1.0)

folder = Path(sys.argv[1])
model = Model()
tf.saved_model.save(model, str(folder / "good"), signatures=model.run)
converter = tf.lite.TFLiteConverter.from_saved_model(str(folder / "good"))
(folder / "good.tflite").write_bytes(converter.convert())
frozen = convert_variables_to_constants_v2(model.run.get_concrete_function())
(folder / "good.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString())
"""


def _file(good: Path, path: Path, head: bytes, draw: random.Random) -> None:
    """A file of garbage behind the right first bytes, or the good one spoiled."""
    if draw.random() < 0.15:
        path.write_bytes(draw.choice((b"", head, head + draw.randbytes(200), draw.randbytes(64))))
    else:
        path.write_bytes(spoiled(good.read_bytes(), draw, WAYS)[1])


def _saved_model(good: Path, path: Path, draw: random.Random) -> None:
    """The good folder with one file spoiled, gone, or a pipe, a device or a folder in its place."""
    shutil.copytree(good, path)
    chosen = draw.choice(sorted(file for file in path.rglob("*") if file.is_file()))
    # The graph is where most can go wrong. A folder without one is no SavedModel, and refused before a run.
    graph = path / "saved_model.pb"
    chosen = graph if draw.random() < 0.5 else chosen
    data, how = chosen.read_bytes(), draw.random()
    if how < 0.7 or chosen == graph:
        chosen.write_bytes(spoiled(data, draw, WAYS)[1])
        return
    chosen.unlink()
    put_in_place(chosen, draw.choice(("a pipe", "/dev/zero", "a folder", "nothing")))


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """A third each, in one run per kind."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        yield from (Attempt("model", f"skipped: no {', '.join(missing)}", "no effect") for _ in range(count))
        return
    draw = random.Random(seed)
    subprocess.run([sys.executable, "-c", SEEDS, str(folder)], check=True, capture_output=True, timeout=600)
    for number, kind in enumerate(("tflite", "savedmodel", "graphdef")):
        each = count // 3 + (number < count % 3)
        if not each:
            continue
        place, made = folder / kind, []
        place.mkdir()
        for index in range(each):
            path = place / f"{kind}{index}"
            if kind == "savedmodel":
                _saved_model(folder / "good", path, draw)
            elif kind == "tflite":
                path = path.with_suffix(".tflite")
                _file(folder / "good.tflite", path, b"\x1c\0\0\0TFL3", draw)
            else:
                path = path.with_suffix(".pb")
                _file(folder / "good.pb", path, b"\x0a", draw)
            made.append((kind, path))
        yield from run_models(made, folder / f"{kind}-run", models=[str(path) for _, path in made], seconds=SECONDS)
