"""Which part of an array each device has, compared with JAX's own reading of the same shardings."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.base.mesh.placement import placement
from opscope.base.tests.each import each

TEXTS = {
    "{devices=[2,1,4]<=[8] last_tile_dim_replicate}": (4, 6),
    "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}": (3, 8),
    "{devices=[4,2]<=[2,4]T(1,0)}": (8, 4),
    "{devices=[2,4]0,2,4,6,1,3,5,7}": (4, 8),
    "{devices=[8,1]<=[8]}": (16, 3),
    "{replicated}": (5, 2),
}


@pytest.mark.slow  # JAX takes a second to import
@pytest.mark.parametrize("text", TEXTS)
def test_the_parts_are_those_that_jax_reads(text: str) -> None:
    from jax._src.op_shardings import op_sharding_to_indices
    from jaxlib import xla_client

    shape = TEXTS[text]
    place = placement(text, shape, 8)
    indices = op_sharding_to_indices(xla_client.HloSharding.from_string(text), shape, 8)
    for device, index in enumerate(indices):
        starts = tuple(part.start or 0 for part in index)
        assert place.starts[device] == starts


@each("text", TEXTS)
def test_parts_join_to_the_whole(text: str) -> None:
    whole = np.arange(np.prod(TEXTS[text])).reshape(TEXTS[text])
    place = placement(text, whole.shape, 8)
    assert np.array_equal(place.joined([place.part(whole, device) for device in range(8)], whole.shape), whole)


def test_an_uneven_part_is_filled_with_zeros() -> None:
    place = placement("{devices=[4]<=[4]}", (7,), 4)
    assert place.starts == ((0,), (2,), (4,), (6,))
    assert place.part(np.arange(1, 8), 3).tolist() == [7, 0]


@each("text", ["{maximal device=3}", "{manual}", "{devices=[2,2]<=[4]}", "{devices=[3,1]<=[3]}"])
def test_what_splits_no_array_over_the_mesh_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="sharding: expected"):
        placement(text, (4, 6), 8)
