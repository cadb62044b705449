"""A dense matmul of ResNet-50's first convolution, planned for Grayskull, against TT-Buda's published log.

Published: op models with grid 4x1, t 2 and 8x1, t 7, their cycles, block shapes and L1 sizes; 201 op models; cycles
from 344176 at (1, 1) to 23912 at (8, 2) in list order. The log's count of 68 legal candidates is one more than the
rules give (67 x 3 = 201).
"""

from __future__ import annotations

import pytest

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.legalizer import LegalModels, legalize
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.balancer.shapes import BlockShape, BufferModel, Grid, UBlock
from opscope.compiler.buda.balancer.tests.graphs import seed_convolution
from opscope.compiler.target.system_desc import load_board


@pytest.fixture(scope="module")
def legal() -> LegalModels:
    return legalize(seed_convolution(), "mm", Budget.of(load_board("grayskull")))


def primary(legal: LegalModels) -> list[OpModel]:
    return [candidate.models[0] for candidate in legal.candidates if candidate.models]


def test_counts(legal: LegalModels) -> None:
    assert len(legal.candidates) == 76
    assert len(primary(legal)) == 67
    assert len(legal.models) == 201
    assert {reason.value: n for reason, n in legal.failures.items()} == {"Failed to allocate input buffers": 9}


@pytest.mark.parametrize(("grid", "t", "cycles"), [(Grid(4, 1), 2, 86240), (Grid(8, 1), 7, 43120)])
def test_published_op_models(legal: LegalModels, grid: Grid, t: int, cycles: int) -> None:
    (model,) = [m for m in primary(legal) if m.grid == grid and m.stream.t == t]
    rows = 7 if t == 2 else 1
    assert (model.stream.dir, model.cycles) == ("R", cycles)
    assert [b.block_shape for b in (*model.inputs, model.output)] == [
        BlockShape(t, rows, 1, UBlock(7, 4)),
        BlockShape(t, 1, 2, UBlock(4, 1)),
        BlockShape(t, rows, 2, UBlock(7, 1)),
    ]
    assert [b.l1_size_tiles for b in (*model.inputs, model.output)] == [56, 16, 196 if t == 2 else 28]
    assert {b.factor for b in (*model.inputs, model.output)} == {2}
    assert {b.data_format for b in (*model.inputs, model.output)} == {"Float16_b"}


def test_first_and_last(legal: LegalModels) -> None:
    first, last = primary(legal)[0], primary(legal)[-1]
    assert (first.cycles, first.grid, first.stream.t) == (344176, Grid(1, 1), 7)
    assert (last.cycles, last.grid, last.stream.t) == (23912, Grid(8, 2), 49)


def test_models_fit_in_l1_and_do_all_the_work(legal: LegalModels) -> None:
    for model in legal.models:
        assert model.l1_bytes <= 577_408
        block = model.block
        assert block.t * block.tiles * model.grid.volume == 392 * 2
        assert model.m_k * model.u_kt == 4
        buffers: list[BufferModel] = [*model.inputs, model.output]
        assert sum(b.l1_size_tiles * 2080 for b in buffers) == model.l1_bytes
