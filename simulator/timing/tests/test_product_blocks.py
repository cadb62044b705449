"""How products are cut: as tt-metal's automatic choice says, and what the cut costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opscope.compiler.target.product_blocks import Product, ProductBlocks, cut
from opscope.compiler.target.program import Numerics, TensorDesc
from opscope.compiler.target.system_desc import load_board
from opscope.simulator.timing.product_time import ProductTime, product_time

N150 = load_board("n150")
BF16 = Numerics("HiFi2", dst_format="Float16_b")


def descs(shape: tuple[int, int, int], fmt: str = "Float16_b", *, in_l1: bool = False) -> list[TensorDesc]:
    m, k, n = shape
    made = [TensorDesc(each, "bf16", fmt, "tile", "dram") for each in ((m, k), (k, n), (m, n))]
    if in_l1:
        for place in (0, 2):
            made[place] = replace(made[place], buffer_type="l1", memory_layout="block_sharded", grid=(8, 8))
    return made


def blocks(shape: tuple[int, int, int], fmt: str = "Float16_b", **options: bool) -> ProductBlocks:
    m, k, n = (size // 32 for size in shape)
    return cut(Product(m, n, k, *descs(shape, fmt, **options), BF16), N150.ttnn)


def took(shape: tuple[int, int, int], numerics: Numerics = BF16, **options: bool) -> ProductTime:
    m, k, n = (size // 32 for size in shape)
    return product_time(Product(m, n, k, *descs(shape, **options), numerics), N150, N150.ttnn)


def test_a_product_of_few_rows_is_laid_out_along_one_line() -> None:
    flat = blocks((512, 1024, 1024))
    assert (flat.line, flat.grid, flat.rows, flat.columns, flat.step) == ("left", (1, 32), 16, 1, 2)
    tall = blocks((1024, 1024, 512))
    assert (tall.line, tall.grid, tall.rows, tall.columns) == ("right", (32, 1), 1, 16)
    assert blocks((32, 1024, 4096)).line == "left"


def test_others_take_rows_and_columns_of_cores() -> None:
    one = blocks((1024, 1024, 1024))
    assert (one.line, one.grid, one.rows, one.columns, one.step, one.blocks) == ("", (8, 8), 4, 4, 4, 1)
    assert one.subblock == (2, 4)
    assert blocks((1024, 32 * 9, 1024)).step == 1  # a depth that the columns of cores do not divide


def test_a_part_that_l1_has_no_room_for_is_made_in_blocks() -> None:
    # The choice that tt-metal's own benchmark makes by hand for this size: two by two blocks, steps of 16.
    large = blocks((4096, 4096, 4096))
    assert (large.rows, large.columns, large.block_rows, large.block_columns, large.step) == (16, 16, 8, 8, 16)
    assert large.blocks == 4
    assert blocks((4096, 4096, 4096), "Bfp4_b").blocks == 1


@pytest.mark.parametrize(("shape", "step"), [((2048, 2048, 3072), 8), ((2048, 3072, 3072), 6)])
def test_steps_of_a_product_in_l1_leave_room_for_its_shards(shape: tuple[int, int, int], step: int) -> None:
    # The steps that tt-metal's benchmark gives these sizes by hand (tests/ttnn/unit_tests/benchmarks).
    own = blocks(shape, in_l1=True)
    assert (own.step, own.blocks, own.subblock[0]) == (step, 1, 1)


def test_dst_of_32_bits_holds_half_as_many_tiles() -> None:
    wide = cut(Product(32, 32, 32, *descs((1024, 1024, 1024)), Numerics("HiFi2")), N150.ttnn)
    assert wide.subblock[0] * wide.subblock[1] == 4


def test_blocks_read_operands_again_and_layouts_save_reads_and_writes() -> None:
    tensor = 4096 * 4096 * 2
    assert took((4096, 4096, 4096)).dram_read_bytes == 2 * 2 * tensor
    once = took((2048, 2048, 2048))
    assert once.dram_read_bytes == 2 * 2048 * 2048 * 2
    near = took((2048, 2048, 2048), in_l1=True)
    assert near.dram_read_bytes == 2048 * 2048 * 2
    assert near.total < once.total
    assert took((512, 1024, 1024)).total > took((1024, 1024, 512)).compute
    flat, square = took((512, 1024, 1024)), took((1024, 512, 1024))
    assert flat.total > 1.5 * square.total  # as many products, on half of the cores


def test_more_phases_take_longer_only_where_math_limits() -> None:
    lofi, hifi2, hifi4 = (
        took((2048, 2048, 2048), Numerics(f, dst_format="Float16_b")).total for f in ("LoFi", "HiFi2", "HiFi4")
    )
    assert hifi2 < 1.05 * lofi  # unpacking 16 bits takes as long as two phases
    assert hifi4 > 1.2 * hifi2
