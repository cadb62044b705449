"""Placement of queues in DRAM. Channel numbers of the first two tests are those of TT-Buda's own placer tests."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.base.tests.unhurried import UNHURRIED
from opscope.compiler.buda.placer.dram import (
    DRAM_TILES,
    FIRST,
    PICKERS,
    SIZE,
    WORKERS,
    Channel,
    Request,
    channels_of,
    place_queues,
)
from opscope.compiler.buda.planner import budget_of
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.system_desc import load_board

KB = 1024


def queue(name: str, parts: int = 8, size: int = 4 * KB, stays: bool = False, first: int = 0, last: int = 0) -> Request:
    return Request(name, size, tuple((0, c) for c in range(parts)), stays, first, last)


def test_round_robin_takes_one_channel_after_the_other() -> None:
    allocations = place_queues([queue("a"), queue("b", 4)], budget_of("grayskull"))
    assert [part.channel for part in allocations["a"]] == list(range(8))
    assert [part.channel for part in allocations["b"]] == [0, 1, 2, 3]
    assert {part.address for part in allocations["a"]} == {FIRST["grayskull"]}


def test_wormhole_fills_both_halves_of_a_channel() -> None:
    allocations = place_queues([queue("a", 4)], budget_of("wormhole_b0"))
    assert [part.channel for part in allocations["a"]] == [0, 0, 1, 1]
    low, high = allocations["a"][0].address, allocations["a"][1].address
    assert low < (1 << 30) <= high


def test_flip_flop_gives_each_epoch_the_other_half() -> None:
    requests = [queue("a", 2), queue("b", 2, first=1, last=1), queue("c", 2, first=2, last=2)]
    allocations = place_queues(requests, budget_of("grayskull"), "ROUND_ROBIN_FLIP_FLOP")
    assert [[part.channel for part in allocations[name]] for name in "abc"] == [[0, 1], [4, 5], [2, 3]]
    unsaid = Request("a", KB, ((0, 0),), stays=False)
    assert (unsaid.first_epoch, unsaid.last_epoch) == (0, 0)


def test_flip_flop_puts_what_stays_on_all_channels_in_turn() -> None:
    requests = [
        queue("in", 9, stays=True),
        queue("a", 5),
        queue("b", 5, first=1, last=1),
        queue("c", 1, first=3, last=3),
    ]
    got = place_queues(requests, budget_of("grayskull"), "ROUND_ROBIN_FLIP_FLOP")
    assert [[part.channel for part in got[name]] for name in ("in", "a", "b", "c")] == [
        [0, 1, 2, 3, 4, 5, 6, 7, 0],
        [0, 1, 2, 3, 0],
        [4, 5, 6, 7, 4],
        [5],
    ]
    alone = replace(budget_of("grayskull"), dram_channels=1)
    got = place_queues([queue("a", 2), queue("b", 2, first=1, last=1)], alone, "ROUND_ROBIN_FLIP_FLOP")
    assert [part.channel for name in "ab" for part in got[name]] == [0] * 4


def test_what_its_channel_has_no_room_for_goes_to_the_first_that_has() -> None:
    """Parts start at multiples of 32 bytes."""
    requests = [queue("big", 2, (1 << 30) - 1024, stays=True), queue("small", 8, 800, stays=True)]
    got = place_queues(requests, budget_of("grayskull"))
    assert [(part.channel, part.address) for part in got["big"]] == [(0, 0x100), (1, 0x100)]
    assert [part.channel for part in got["small"]] == [2, 3, 4, 5, 6, 7, 2, 2]
    assert [part.address for part in got["small"]][-3:] == [0x100, 0x100 + 800, 0x100 + 1600]
    odd = place_queues([queue("odd", 9, 33), queue("even", 8, 32), queue("one", 1, 1)], budget_of("grayskull"))
    assert [part.address - 0x100 for name in ("odd", "even", "one") for part in odd[name][-1:]] == [64, 128, 96]


def test_greatest_capacity_goes_where_most_is_free() -> None:
    requests = [queue("big", 1, 64 * KB, stays=True), queue("a", 7, stays=True), queue("b", 1, stays=True)]
    allocations = place_queues(requests, budget_of("grayskull"), "GREATEST_CAPACITY")
    assert allocations["big"][0].channel == 0
    assert [part.channel for part in allocations["a"]] == [1, 2, 3, 4, 5, 6, 7]
    assert allocations["b"][0].channel == 1


def test_closest_is_the_nearest_free_port() -> None:
    # Core (0, 0) of Grayskull is at NoC (1, 1), beside channel 0's port at (1, 0); (0, 11) at (12, 1), one hop from it
    # too, by the link that wraps round.
    near = Request("near", KB, ((0, 0), (0, 0)), True)
    allocations = place_queues([near], budget_of("grayskull"), "CLOSEST")
    assert [part.channel for part in allocations["near"]] == [0, 2]
    far = place_queues([Request("far", KB, ((9, 9),), True)], budget_of("grayskull"), "CLOSEST")
    assert far["far"][0].channel == 6


PLANS = {
    "grayskull": ".0..2..4..6.. " + ".TTTTTTTTTTTT " * 5 + ".1..3..5..7.. " + ".TTTTTTTTTTTT " * 5,
    "wormhole_b0": "0....2.... .TTTT.TTTT .TTTT3TTTT .TTTT4TTTT .TTTT.TTTT 1TTTT5TTTT .......... " + ".TTTT.TTTT " * 5,
    "blackhole": "0........4....... ................. 1TTTTTTT.5TTTTTTT "
    + ".TTTTTTT..TTTTTTT " * 2
    + "3TTTTTTT.7TTTTTTT "
    + ".TTTTTTT..TTTTTTT " * 3
    + "2TTTTTTT.6TTTTTTT "
    + ".TTTTTTT..TTTTTTT " * 2,
}
"""Floor plans by rows of the NoC as tt-umd publishes them: T is a core, a digit the first port of that channel."""


@pytest.mark.parametrize("arch", PLANS)
def test_cores_and_ports_lie_as_on_the_floor_plan(arch: str) -> None:
    rows = PLANS[arch].split()
    at = {(x, y): mark for y, row in enumerate(rows) for x, mark in enumerate(row)}
    columns_of_cores, rows_of_cores = WORKERS[arch]
    assert SIZE[arch] == (len(rows[0]), len(rows))
    assert set(product(columns_of_cores, rows_of_cores)) == {place for place, mark in at.items() if mark == "T"}
    rows, columns = load_board(arch).buda.grid
    switched_off = 1 if arch == "wormhole_b0" else 0  # of an n150
    assert (len(rows_of_cores), len(columns_of_cores)) == (rows + switched_off, columns)
    assert {place: str(number) for number, place in enumerate(DRAM_TILES[arch])} == {
        place: mark for place, mark in at.items() if mark.isdigit()
    }


def hops(arch: str, core: tuple[int, int]) -> dict[tuple[int, int], int]:
    """Links from a core to every place of the NoC, found by going from neighbour to neighbour."""
    (width, height), (columns, rows) = SIZE[arch], WORKERS[arch]
    distance, edge = {(columns[core[1]], rows[core[0]]): 0}, [(columns[core[1]], rows[core[0]])]
    for x, y in edge:
        for step in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            place = (x + step[0]) % width, (y + step[1]) % height
            if place not in distance:
                distance[place] = distance[x, y] + 1
                edge.append(place)
    return distance


@pytest.mark.parametrize("core", [(0, 0), (9, 0), (0, 7), (9, 7), (4, 3), (5, 5)])
@pytest.mark.parametrize("arch", PLANS)
def test_closest_goes_from_port_to_port_by_the_links_between(arch: str, core: tuple[int, int]) -> None:
    """Parts of one core take every channel once, by distance, and then the nearest again."""
    halves = 2 if arch == "wormhole_b0" else 1
    ports, far = DRAM_TILES[arch], hops(arch, core)
    nearest = sorted(range(len(ports)), key=lambda i: (far[ports[i]], i))
    wanted = [channel for channel in nearest for _ in range(halves)]
    request = Request("a", 32, (core,) * (len(wanted) + 1), stays=False)
    other = Request("b", 32, (core,), stays=False, first_epoch=1, last_epoch=1)
    got = place_queues([request, other], budget_of(arch), "CLOSEST")
    assert [part.channel for part in got["a"]] == [*wanted, wanted[0]]
    assert got["b"][0].channel == wanted[0]


def test_room_is_given_on_to_later_epochs() -> None:
    requests = [queue(f"e{i}", 8, 768 << 20, first=i, last=i + 1) for i in range(0, 8, 2)]
    allocations = place_queues(requests, budget_of("grayskull"))
    assert len({allocations[f"e{i}"][0].address for i in range(0, 8, 2)}) == 1


def test_the_first_bytes_hold_the_hosts_barrier() -> None:
    for arch, first, channels in (("grayskull", 0x100, 8), ("wormhole_b0", 0x20, 12), ("blackhole", 0x20, 8)):
        got = channels_of(budget_of(arch))
        assert (got[0].start, len(got)) == (first, channels)
        assert got[0].start + got[0].size == (got[1].start if arch == "wormhole_b0" else got[1].start + got[1].size)
        halves, size = (2, 1 << 30) if arch == "wormhole_b0" else (1, budget_of(arch).dram_channel_bytes)
        assert [(each.start, each.start + each.size) for each in got] == [
            (size if halves == 2 and number % 2 else first, size * (1 + number % halves)) for number in range(channels)
        ]
        assert [each.free_bytes for each in got] == [each.size for each in got]


def test_a_channel_gives_the_smallest_range_that_fits_and_joins_what_comes_back() -> None:
    channel = Channel(100, 1000)
    assert [channel.take(size) for size in (200, 100, 300)] == [100, 300, 400]
    channel.release(300, 100)
    assert channel.free == {300: 100, 700: 400}
    assert channel.take(100) == 300
    assert channel.free == {700: 400}
    channel.release(100, 200)
    channel.release(400, 300)
    assert channel.free == {100: 200, 400: 700}
    assert channel.take(701) is None
    channel.release(300, 100)
    assert channel.free == {100: 1000}
    assert channel.take(1000) == 100
    assert channel.free == {}


def test_the_largest_and_the_earliest_queue_is_placed_first() -> None:
    """Room that ends with an epoch is given on in the next one, not before."""
    requests = [
        queue("small", 1, KB, stays=True),
        queue("wide", 3, KB, stays=True),
        queue("late", 1, first=1, last=1),
        queue("long", 1, first=0, last=1),
        queue("short", 1, first=0, last=0),
        queue("last", 1, first=2, last=2),
    ]
    allocations = place_queues(requests, budget_of("grayskull"))
    assert list(allocations) == ["wide", "small", "short", "long", "late", "last"]
    assert [allocations[name][0].channel for name in allocations] == [0, 3, 4, 5, 6, 7]
    chain = [queue("a", 8, 700 << 20, first=0, last=1), queue("b", 8, 300 << 20, first=1, last=1)]
    later = [queue("c", 8, 300 << 20, first=2, last=2)]
    got = {name: parts[0].address for name, parts in place_queues([*chain, *later], budget_of("grayskull")).items()}
    assert (got["b"], got["c"]) == (got["a"] + (700 << 20), got["a"])


def test_a_queue_that_does_not_fit_is_refused_in_one_line() -> None:
    message = (
        "dram: expected room for 943718400 bytes of queue a, got at most 130023168 in one channel; try fewer entries"
    )
    with pytest.raises(CompilerInputError, match=f"^{message}$"):
        place_queues([queue("a", 9, 900 << 20, stays=True)], budget_of("grayskull"))
    full = [queue("a", 8, (1 << 30) - 256, stays=True), queue("b", 1, 1)]
    with pytest.raises(CompilerInputError, match="room for 32 bytes of queue b, got at most 0 in one channel"):
        place_queues(full, budget_of("grayskull"))
    with pytest.raises(CompilerInputError, match="dram placement: expected ROUND_ROBIN"):
        place_queues([], budget_of("grayskull"), "NEAREST")


@UNHURRIED
@given(
    st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 6), st.integers(0, 5), st.integers(0, 3)), max_size=12),
    st.sampled_from(sorted(PICKERS)),
    st.sampled_from(["grayskull", "wormhole_b0", "blackhole"]),
)
def test_queues_that_live_at_once_lie_apart(rows: list[tuple[int, int, int, int]], algorithm: str, arch: str) -> None:
    requests = [
        Request(str(i), size * 100, tuple((0, c) for c in range(parts)), first == 0, first, first + span)
        for i, (size, parts, first, span) in enumerate(rows)
    ]
    allocations = place_queues(requests, budget_of(arch), algorithm)
    queues = [
        (part.channel, part.address, part.address + request.part_bytes, request)
        for request in requests
        for part in allocations[request.name]
    ]
    for i, (channel, start, stop, one) in enumerate(queues):
        assert start % 32 == 0
        for other_channel, other_start, other_stop, other in queues[i + 1 :]:
            together = (
                one.stays
                or other.stays
                or (one.first_epoch <= other.last_epoch and other.first_epoch <= one.last_epoch)
            )
            if channel == other_channel and together:
                assert stop <= other_start or other_stop <= start
