"""Time by events: epochs against cards, contention, the trace and its schema, limits, bad input."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from opscope.compiler.buda.netlist import parse
from opscope.compiler.buda.netlist.to_binary import to_binary
from opscope.compiler.target import binary as binary_file
from opscope.compiler.target.system_desc import load_board
from opscope.simulator.commands.simulate import simulate
from opscope.simulator.device import Device
from opscope.simulator.timing.events.geometry import geometry_of
from opscope.simulator.timing.events.network import HOP, INTERFACE, Network, route
from opscope.simulator.timing.tests.test_epochs import BIG, MEASURED, NETLISTS, compiled, needs_netlists
from opscope.simulator.timing.timed import Timed

TRACE_SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "traceEvents": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["ph", "pid", "tid", "name"],
                "properties": {"pid": {"type": "integer"}, "tid": {"type": "integer"}, "args": {"type": "object"}},
                "oneOf": [
                    {
                        "properties": {
                            "ph": {"const": "X"},
                            "ts": {"type": "number", "minimum": 0},
                            "dur": {"type": "number", "minimum": 0},
                        },
                        "required": ["ts", "dur", "cat"],
                    },
                    {
                        "properties": {"ph": {"const": "M"}, "name": {"enum": ["process_name", "thread_name"]}},
                        "required": ["args"],
                    },
                ],
            },
        },
    },
}
"""JSON object form of Google's "Trace Event Format": complete and metadata events."""


@needs_netlists
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) for n in MEASURED])
def test_an_epoch_by_events_takes_what_a_card_took(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(NETLISTS) as archive:
        (member,) = (m for m in archive.namelist() if m.endswith(f"{name}.yaml"))
        archive.extract(member, tmp_path)
    binary = to_binary(parse.read(tmp_path / member)).binary
    model = Timed()
    profile = Device(binary.board, profile="buda", timing=model).load_decoded(binary).profile
    assert not profile.partial
    assert model.recording.events > (1_000_000 if name == BIG else 10_000)
    assert max(epoch.cycles for epoch in profile.epochs) == pytest.approx(MEASURED[name], rel=0.1)


def test_transfers_share_links_and_channels() -> None:
    system = load_board("n150")
    network = Network(system, geometry_of(system, 10), 6)
    (near, far) = network.geometry.core(0, 0), network.geometry.core(0, 3)
    hops = len(route(0, near, far, network.geometry.size))
    alone = network.send(0.0, near, [far], 3200)
    assert alone == 3200 / 32 + hops * HOP + 2 * INTERFACE
    assert network.send(0.0, near, [far], 3200) == alone + 100
    assert network.send(0.0, far, [near], 3200) == alone  # the other torus, or the way around
    both = Network(system, network.geometry, 6)
    both.send(0.0, near, [network.geometry.core(0, 1), far], 3200)
    assert both.busy[(0, *near, "x")] == 100, "a multicast takes a link once"
    first = network.dram(0.0, 2, 3200)
    assert network.dram(0.0, 3, 3200) == first < network.dram(0.0, 2, 3200)


def test_chips_share_one_connection() -> None:
    system = load_board("n300")
    network = Network(system, geometry_of(system, 8), 6)
    assert system.ethernet is not None
    cycles = 11_250 * system.clock_ghz / 11.75
    first = network.ethernet(0.0, 11_250)
    assert first == pytest.approx(cycles + 790 * system.clock_ghz)
    assert network.ethernet(0.0, 11_250) == pytest.approx(first + cycles)
    assert (network.moved["ethernet"], network.waited["ethernet"]) == (22_500, round(cycles))


def test_the_other_way_around_a_torus() -> None:
    assert route(0, (1, 1), (4, 1), (10, 12)) == ((0, 1, 1, "x"), (0, 2, 1, "x"), (0, 3, 1, "x"))
    assert len(route(1, (1, 1), (4, 1), (10, 12))) == 7


def test_simulate_writes_a_trace_and_a_page(tmp_path: Path) -> None:
    file, trace = tmp_path / "p.ttnn", tmp_path / "trace.json"
    file.write_bytes(binary_file.write(compiled(tmp_path)))
    got = CliRunner().invoke(simulate, [str(file), "--timed", "--trace", str(trace), "--json"])
    assert got.exit_code == 0, got.output
    summary = json.loads(got.output)
    assert not summary["partial"]
    assert (summary["limiter"], summary["dram_bytes"]) == ("math", 16 * (2048 + 32))
    assert 0 < summary["utilisation"] < 2 / 72
    whole = json.loads(trace.read_text())
    jsonschema.validate(whole, TRACE_SCHEMA)
    pieces = [event for event in whole["traceEvents"] if event["ph"] == "X"]
    assert {event["name"] for event in pieces} == {
        f"{op}, input {number}" for op in ("product", "copied") for number in range(whole["otherData"]["inputs"])
    }
    per_core: dict[tuple[int, int], float] = {}
    for event in sorted(pieces, key=lambda event: event["ts"]):
        key = (event["pid"], event["tid"])
        assert event["ts"] >= per_core.get(key, 0.0) - 1e-6, "a thread does one thing at a time"
        per_core[key] = event["ts"] + event["dur"]
    page = trace.with_suffix(".html").read_text()
    assert "Roofline" in page
    assert "copied" in page
    assert page.count("<polyline") == 2
    # exp of 16 tiles of bfloat16; the product's operands come from the host and a prologue, and no core receives any.
    assert "copied: 0.5 FLOP per byte over the NoC" in page
    assert f"matrix units: {9 * 8 * 4096:,} FLOP per cycle" in page
    # The second op's math is busy all the time once the epoch is filled: 16 tiles at about 1770 cycles.
    assert summary["cycles"] == pytest.approx(28_400, rel=0.1)


def test_a_run_stops_at_its_events_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "p.ttnn"
    file.write_bytes(binary_file.write(compiled(tmp_path)))
    got = CliRunner().invoke(simulate, [str(file), "--timed", "--max-events", "50", "--json"])
    assert got.exit_code == 0, got.output
    summary = json.loads(got.output)
    assert summary["partial"]
    assert summary["events"] == 50


@pytest.mark.parametrize(
    "options",
    [
        ["--timed", "--trace", "FOLDER"],
        ["--timed", "--trace", "FOLDER/a/b.json"],
        ["--trace", "FOLDER/t.json"],
        ["--max-events", "5"],
    ],
)
def test_bad_options_are_one_line(options: list[str], tmp_path: Path) -> None:
    words = [word.replace("FOLDER", str(tmp_path)) for word in options]
    got = CliRunner().invoke(simulate, ["missing.ttnn", *words])
    assert got.exit_code == 2
    assert "missing.ttnn" not in got.output, "before any data is touched"
    assert len(got.output.strip().splitlines()) == 1
    assert "expected" in got.output
