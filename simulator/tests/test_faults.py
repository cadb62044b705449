from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.compiler.target.binary import write
from opscope.compiler.target.plan import Allocation, BlockPlan, PlacedOp, Plan, QueuePlan
from opscope.compiler.target.program import EltwiseParams, LayoutParams, MatmulParams, TensorDesc
from opscope.compiler.target.system_desc import load_board
from opscope.simulator.api import Device, DeviceHang
from opscope.simulator.faults.fault import FaultError, parse
from opscope.simulator.faults.injection import Injection
from opscope.simulator.faults.planned_bytes import tiles_of_core
from opscope.simulator.faults.slow_channel import slowed_plan
from opscope.simulator.faults.stored_bytes import NotHeldError, PageByte, byte_at, inverted
from opscope.simulator.tests.programs import one_kernel

TTNN = load_board("n150").ttnn
BUDA = load_board("e150").buda


def desc(shape, fmt="Float32", element="f32", layout="tile", buffer="dram", memory="interleaved", grid=(1, 1)):
    return TensorDesc(tuple(shape), element, fmt, layout, buffer, memory, grid)


def element_of(page_byte: PageByte, columns: int, size: int) -> tuple[int, int]:
    """Row and column of a datum: tiles row by row, four faces of 16x16 each (tt-metal, tech_reports/tensor_layouts)."""
    datum = page_byte.byte // size
    face, inside = divmod(datum, 256)
    row, column = divmod(inside, 16)
    tile_row, tile_column = divmod(page_byte.page, columns)
    return tile_row * 32 + face // 2 * 16 + row, tile_column * 32 + face % 2 * 16 + column


@pytest.mark.parametrize(("dtype", "fmt"), [(np.float32, "Float32"), (ml_dtypes.bfloat16, "Float16_b")])
def test_an_inverted_bit_is_that_of_the_host_array(dtype, fmt):
    host = np.random.default_rng(1).standard_normal((64, 96)).astype(dtype)
    size = host.dtype.itemsize
    for page, byte, bit in ((0, 0, 0), (1, 517 * size + 1, 3), (5, 1023 * size, 7), (3, 256 * size + size - 1, 1)):
        where = PageByte(page, byte)
        got = inverted(host.astype(np.float32), desc((64, 96), fmt), TTNN, where, bit)
        row, column = element_of(where, 3, size)
        wanted = host.copy()
        bits = wanted.view(f"u{size}")
        bits[row, column] ^= np.array(1 << (8 * (byte % size) + bit), bits.dtype)
        assert got.elements == ((row, column),)
        np.testing.assert_array_equal(got.image.view(np.uint32), wanted.astype(np.float32).view(np.uint32))


def test_a_shared_exponent_changes_its_sixteen_datums():
    image = np.full((32, 32), 1.5, np.float32)
    got = inverted(image, desc((32, 32), "Bfp8_b"), TTNN, PageByte(0, 2), 0)  # face 0, row 2; exponent 127 -> 126
    assert got.elements == tuple((2, column) for column in range(16))
    np.testing.assert_array_equal(got.after, np.full(16, 0.75, np.float32))


def test_rows_of_a_row_major_tensor_are_its_datums_in_twos_complement():
    image = np.array([[1, -2], [3, 4]], np.int32)
    got = inverted(image, desc((2, 2), "Int32", "i32", "row_major"), TTNN, PageByte(0, 7), 7)
    assert got.elements == ((0, 1),)
    assert got.after[0] == np.int32(0x7FFFFFFE)
    assert image[0, 1] == -2


def test_padding_and_headers_are_not_held():
    with pytest.raises(NotHeldError, match="padding"):
        inverted(np.ones((2, 2), np.float32), desc((2, 2)), TTNN, PageByte(0, 4 * 100), 0)
    with pytest.raises(NotHeldError, match="header"):
        inverted(np.ones((32, 32), np.float32), desc((32, 32), "Float16_b"), BUDA, PageByte(0, 3), 0)


def test_pages_are_dealt_to_banks():
    tensor = desc((32 * 5, 32 * 5))  # 25 tiles over 12 channels
    assert byte_at(tensor, TTNN, 0, 0) == PageByte(0, 0)
    assert byte_at(tensor, TTNN, 7, 4096 + 5) == PageByte(19, 5)
    assert byte_at(tensor, TTNN, 0, 2 * 4096) == PageByte(24, 0)
    assert byte_at(tensor, TTNN, 1, 2 * 4096) is None
    shards = desc((32 * 4, 32 * 4), buffer="l1", memory="block_sharded", grid=(2, 2))
    assert byte_at(shards, TTNN, 1 * 8 + 1, 3 * 4096 + 1) == PageByte(15, 1)
    assert byte_at(shards, TTNN, 0 * 8 + 1, 4096) == PageByte(3, 0)
    assert byte_at(shards, TTNN, 2 * 8, 0) is None
    rows = desc((40, 3), layout="row_major")  # rows of 12 bytes, 32 apart
    assert byte_at(rows, TTNN, 2, 32 + 4) == PageByte(14, 4)
    assert byte_at(rows, TTNN, 2, 13) is None


def test_every_tile_of_a_planned_result_passes_its_core_once():
    block = BlockPlan(2, 2, 1, 1, 3)
    made = [tile for r in range(2) for c in range(2) for tile in tiles_of_core((r, c), (2, 2), (2, 1), 3, block, "c")]
    assert sorted(made) == sorted((z, r, c) for z in range(3) for r in range(8) for c in range(6))


@pytest.mark.parametrize(
    "text",
    [
        "cosmic-ray@0-0",
        "l1-bit",
        "l1-bit@0-0,5",
        "l1-bit@0-0,5,8",
        "l1-bit@8-0,5,0",
        "l1-bit@0-0,2000000,0",
        "dram-bit@12,0,0",
        "dram-bit@0,0x100000000,0",
        "dead-core@0,0",
        "dead-core@0-8",
        "stuck-link@0-0,up",
        "stuck-link@7-0,south",
        "slow-channel=4",
        "slow-channel=x0.5",
        "slow-channel@12=x2",
        "slow-channel=xnan",
        "",
        "l1-bit@0-0,010,0",
        "l1-bit@-1-0,5,0",
    ],
)
def test_what_is_no_fault_of_the_card_is_refused(text):
    with pytest.raises(FaultError, match=r"^--fault: expected .*, got "):
        parse(text).check(TTNN.grid, TTNN)


@pytest.fixture(scope="module")
def product():
    binary = one_kernel("matmul", MatmulParams(), [((64, 96), "f32"), ((96, 64), "f32")], ((64, 64), "f32"))
    random = np.random.default_rng(3)
    arrays = [random.standard_normal(s).astype(np.float32) for s in ((64, 96), (96, 64))]
    return binary, arrays


def run(product, *texts):
    binary, arrays = product
    executable = Device("n150").load(write(binary))
    injection = Injection(executable, [parse(text) for text in texts])
    return executable.run(arrays, observe=injection.observe), injection


def test_a_bit_in_dram_changes_what_reads_it(product):
    right, _ = run(product)
    base = TTNN.dram_unreserved_base
    got, injection = run(product, f"dram-bit@0,{base + 3},6")  # the top exponent bit of element (0, 0) of input 0
    assert "element (0, 0)" in injection.lines()[0]
    changed = np.argwhere(right.outputs[0] != got.outputs[0])
    assert set(changed[:, 0]) <= {0}
    assert len(changed) > 0


def test_faults_that_hit_nothing_say_why(product):
    right, _ = run(product)
    texts = (
        "dram-bit@5,0x30000000,1",
        "dram-bit@0,3,1",
        "l1-bit@0-0,64,1",
        "l1-bit@0-0,200000,1",
        "dead-core@7-7",
        "stuck-link@5-5,east",
    )
    got, injection = run(product, *texts)
    assert all("hits nothing: " in line for line in injection.lines())
    assert "firmware" in injection.lines()[2]
    np.testing.assert_array_equal(right.outputs[0], got.outputs[0])


@pytest.mark.parametrize("text", ["dead-core@1-1", "stuck-link@0-0,east", "stuck-link@0-1,south"])
def test_a_dead_core_or_link_hangs_what_needs_it(product, text):
    with pytest.raises(DeviceHang, match="expected an end on 4 cores"):
        run(product, text)


def test_an_elementwise_op_needs_no_link():
    binary = one_kernel("add", EltwiseParams(), [((64, 64), "f32")] * 2, ((64, 64), "f32"))
    _, injection = run((binary, [np.ones((64, 64), np.float32)] * 2), "stuck-link@0-0,east")
    assert "hits nothing" in injection.lines()[0]


def test_a_slow_channel_costs_the_time_of_its_own_pages(product):
    right, _ = run(product)
    slow, _ = run(product, "slow-channel@0=x4")
    far, injection = run(product, "slow-channel@11=x4")
    assert slow.profile.total_cycles > right.profile.total_cycles
    np.testing.assert_array_equal(right.outputs[0], slow.outputs[0])
    # 6 + 6 + 4 tiles of 12 channels: the last one has none.
    assert far.profile.total_cycles == right.profile.total_cycles
    assert "hits nothing" in injection.lines()[0]


def test_a_bit_of_a_shard_in_l1_changes_only_its_core():
    tensors = (
        desc((64, 64), layout="row_major", buffer="system_memory"),
        desc((64, 64), buffer="l1", memory="block_sharded", grid=(2, 2)),
        desc((64, 64), layout="row_major", buffer="system_memory"),
    )
    from opscope.compiler.target.program import Binary, Operation, Program

    ops = (Operation("to_device", (0,), (1,), LayoutParams()), Operation("from_device", (1,), (2,), LayoutParams()))
    binary = Binary("n150", "wormhole_b0", (Program("main", tensors, (0,), (2,), ops),))
    array = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    got, _ = run((binary, [array]), f"l1-bit@1-0,{TTNN.l1_unreserved_base + 2},7")
    assert np.argwhere(got.outputs[0] != array).tolist() == [[32, 0]]
    same, _ = run((binary, [array]), f"l1-bit@2-0,{TTNN.l1_unreserved_base + 2},7")
    np.testing.assert_array_equal(same.outputs[0], array)


def test_a_slow_channel_of_a_plan_counts_by_its_queues():
    def queue(name, channel, size):
        block = BlockPlan()
        return QueuePlan(
            name, 0, "HOST", "ram", 1, (1, 1), block, "Float16_b", "dram", 0, (Allocation(channel, 0),), size
        )

    board = load_board("e150")
    op = PlacedOp("a", 0, 0, 0, 0, 0, (1, 1), False, "R", (1, 1), BlockPlan(), 1, 1, "r", ())
    plan = Plan(ops=(op,), queues=(queue("w", 1, 3000), queue("x", 2, 1000)))
    program = one_kernel("add", EltwiseParams(), [((4, 4), "f32")] * 2, ((4, 4), "f32")).programs[0]
    speeds = [
        slowed_plan(board, plan, 0, {channel: factor})(program.operations[0], program).dram_gb_per_s
        for channel, factor in ((1, 4.0), (2, 4.0), (2, 2.0), (3, 99.0))
    ]
    assert speeds == pytest.approx([board.dram_gb_per_s / n for n in (4, 4 / 3, 1, 1)])
