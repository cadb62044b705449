"""Inputs made again from their source: seeded, random, captured; every element type through a .npy file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.harness.prepare.inputs import drawn, materialise
from opscope.harness.record import store
from opscope.harness.record.element_types import NUMPY_NAMES, byte_size, load, numpy_dtype, save
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow, Source, TensorDesc
from opscope.models.arguments import GENERATOR
from opscope.models.seeding import draw


@pytest.mark.parametrize("name", sorted(set(NUMPY_NAMES) - {"i2", "ui2"}))
def test_every_element_type_survives_a_file(tmp_path: Path, name: str) -> None:
    dtype = numpy_dtype(name)
    bits = np.random.default_rng(0).integers(0, 2, (5, 3)) if name == "i1" else np.arange(15).reshape(5, 3) % 7
    array = bits.astype(np.float32).astype(dtype)
    save(tmp_path / "v.npy", array)
    again = load(tmp_path / "v.npy", (5, 3), name)
    assert again.dtype == dtype
    assert again.tobytes() == array.tobytes()
    assert again.flags.writeable
    assert byte_size((5, 3), name) == array.nbytes


def test_a_loaded_array_is_a_fresh_copy(tmp_path: Path) -> None:
    save(tmp_path / "v.npy", np.zeros(4, np.float32))
    load(tmp_path / "v.npy", (4,), "f32")[:] = 1
    assert load(tmp_path / "v.npy", (4,), "f32").sum() == 0


def test_scalars_keep_their_shape(tmp_path: Path) -> None:
    save(tmp_path / "v.npy", np.array(3.5, np.float32))
    assert load(tmp_path / "v.npy", (), "f32").shape == ()


@pytest.mark.parametrize(("shape", "name"), [((4, 3), "f32"), ((3, 4), "bf16")])
def test_another_shape_or_width_is_refused(tmp_path: Path, shape: tuple[int, ...], name: str) -> None:
    save(tmp_path / "v.npy", np.zeros((3, 4), np.float32))
    with pytest.raises(ValueError, match="expected"):
        load(tmp_path / "v.npy", shape, name)


@pytest.mark.parametrize("kind", ["seeded", "random"])
def test_drawn_again(kind: str, tmp_path: Path) -> None:
    desc = TensorDesc(shape=(4, 5), data_type="bf16")
    value = materialise(drawn(kind, "normal:1", 3, 9), desc, tmp_path)
    assert value.tobytes() == draw("normal:1", (4, 5), "bfloat16", 3, 9).tobytes()


def test_values_of_an_older_generator_are_refused(tmp_path: Path) -> None:
    """The golden of such an input is right for other values, so a comparison with it would be wrong."""
    older = Source.model_validate_json('{"kind": "seeded", "law": "normal:1", "seed": 0, "index": 0}')
    with pytest.raises(
        ValueError, match=f"expected values of generator {GENERATOR}, .* generator 1, .*run the model again"
    ):
        materialise(older, TensorDesc(shape=(2,), data_type="f32"), tmp_path)
    row = OpRow(op_id="0", op_name="stablehlo.abs", module=None, inputs=(), outputs=(), uses=(), sources=(older,))
    with pytest.raises(InputError, match=f"--op: expected a run on values of generator {GENERATOR}, got run, whose"):
        store.refuse_other_values([row], Path("run"), "--op")
    store.refuse_other_values([row.model_copy(update={"sources": (drawn("seeded", "ones", 0, 0),)})], Path("run"), "")


def test_incomplete_sources_are_refused(tmp_path: Path) -> None:
    desc = TensorDesc(shape=(2,), data_type="f32")
    full = {"law": "ones", "seed": 0, "index": 0, "generator": GENERATOR}
    seeded = [Source(kind="seeded", **{name: value for name, value in full.items() if name != left}) for left in full]
    for source in (Source(kind="captured"), *seeded, Source(kind="seeded", law="ones"), Source(kind="elsewhere")):
        with pytest.raises(ValueError, match="expected"):
            materialise(source, desc, tmp_path)
    desc = TensorDesc(shape=(9,), data_type="f32")
    values = [
        materialise(
            Source(kind="random", law="normal:1", seed=seed, index=1, generator=GENERATOR), desc, tmp_path, asked
        ).tobytes()
        for seed, asked in ((None, 3), (3, None), (3, 4), (0, 3), (None, 0))
    ]
    assert values[0] == values[1] == values[2] != values[3] == values[4]
