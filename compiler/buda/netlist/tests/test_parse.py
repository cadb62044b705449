"""The parser of netlists: every key lands in its field, absent ones have TT-Buda's defaults, limits are exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opscope.compiler.buda.netlist.model import FusedOp, Graph, Netlist, Op, Program, Queue, SubOp
from opscope.compiler.buda.netlist.parse import (
    LARGEST,
    TILES,
    MappingReader,
    dst_format,
    parse,
    printed_movement,
    read,
    shortened,
)
from opscope.compiler.errors import CompilerInputError

TEXT = """
devices: {arch: [wormhole, grayskull]}
queues:
  x: {input: HOST, type: queue, entries: 2, grid_size: [3, 4], t: 5, mblock: [6, 7], ublock: [8, 9], df: Float16,
      target_device: 0, loc: dram, dram: [[1, 0x100], [0, 0]], ublock_order: c, tile_dim: [16, 32],
      elements: [10, 11, 12], input_tms: [transpose, {broadcast: {r: 2}}], layout: tilized, alias: z}
  w: {input: f, type: ram, entries: 1, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: bfp8_b,
      target_device: 3, loc: host, host: [64, [2, 128]]}
graphs:
  g:
    target_device: 0
    input_count: 7
    f: {type: fused_op, grid_loc: [0, 1], grid_size: [2, 3], inputs: [x, w], grid_transpose: true,
        untilize_output: true, t: 4, mblock: [5, 6], ublock: [7, 8], buf_size_mb: 9, ublock_order: c,
        input_buf_min_size_tiles: [0, 13], in_df: [Float16, Bfp8_b], out_df: Float32, intermed_df: Bfp8,
        acc_df: Bfp8, math_fidelity: LoFi, tile_dim: [32, 16], attributes: {fused_op_id: 3},
        input_1_tms: [{hslice: 2}, {tile_broadcast: c}], input_0_tms: None, gradient_op: false, overlay_size: 4096}
    e: {type: exp, grid_loc: [4, 0], grid_size: [1, 1], inputs: [f], t: 1, mblock: [1, 1], ublock: [1, 1],
        in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Bfp4_b, math_fidelity: HiFi4,
        attributes: }
programs:
  - run: [endprogram, {loop: 3}]
fused_ops:
  3: {inputs: 2, schedules: [[{add.0: {type: add, inputs: [input0, input1], output: dest, mblock: [1, 2],
      ublock: [3, 4], input_1_tms: [{broadcast: {c: 5}}], attributes: {relu_en: true}}}],
      [{abs.0: {type: abs, inputs: [dest], output: output, pop: [intermed1], pop_last: [intermed0]}}]]}
  4: {inputs: 1, intermediates: 6, schedules: []}
"""


def test_every_key_lands_in_its_field() -> None:
    queues = {
        "x": Queue(
            "x",
            "HOST",
            "queue",
            2,
            (3, 4),
            5,
            (6, 7),
            (8, 9),
            "Float16",
            0,
            "dram",
            ((1, 256), (0, 0)),
            "c",
            (16, 32),
            ("transpose", "broadcast(r, 2)"),
            (10, 11, 12),
            "z",
        ),
        "w": Queue(
            "w",
            "f",
            "ram",
            1,
            (1, 1),
            1,
            (1, 1),
            (1, 1),
            "Bfp8_b",
            3,
            "host",
            ((0, 64), (2, 128)),
            "r",
            (32, 32),
            (),
            None,
        ),
    }
    fused = Op(
        "f",
        "fused_op",
        (0, 1),
        (2, 3),
        ("x", "w"),
        4,
        (5, 6),
        (7, 8),
        ("Float16", "Bfp8_b"),
        "Float32",
        "Bfp8",
        "Float16",
        "LoFi",
        9,
        "c",
        (0, 13),
        True,
        True,
        {0: (), 1: ("hslice(2)", "tile_broadcast(c)")},
        {"fused_op_id": 3},
        (32, 16),
    )
    exp = Op(
        "e",
        "exp",
        (4, 0),
        (1, 1),
        ("f",),
        1,
        (1, 1),
        (1, 1),
        ("Float16_b",),
        "Float16_b",
        "Float16_b",
        "Float16_b",
        "HiFi4",
        2,
        "r",
        (),
        False,
        False,
        {},
        {},
        (32, 32),
    )
    add = SubOp(
        "add.0", "add", ("input0", "input1"), "dest", {1: ("broadcast(c, 5)",)}, {"relu_en": True}, (1, 2), (3, 4), ()
    )
    abs_ = SubOp("abs.0", "abs", ("dest",), "output", {}, {}, None, None, ("intermed1", "intermed0"))
    fused_ops = {3: FusedOp(3, 2, 0, ((add,), (abs_,))), 4: FusedOp(4, 1, 6, ())}
    program = Program("run", (("endprogram", None), ("loop", 3)))
    graph = Graph("g", 0, 7, (fused, exp))
    parsed = parse(TEXT, "some")
    assert parsed == Netlist("wormhole_b0", queues, (graph,), (program,), "some", fused_ops)
    assert parsed.archs == ("wormhole_b0", "grayskull")
    chosen = parse(TEXT, "some", "grayskull")
    assert (chosen.arch, chosen.archs) == ("grayskull", ("grayskull",))
    with pytest.raises(CompilerInputError, match="expected blackhole among the netlist's chips, got wormhole_b0, gray"):
        parse(TEXT, "some", "blackhole")
    assert parse(TEXT.partition("fused_ops:")[0]).fused_ops == {}
    assert (parsed.queues["x"].tiles, parsed.ops["f"].mblock_tiles) == (5 * 6 * 7 * 8 * 9, 5 * 6 * 7 * 8)
    turned = ((0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2))  # 2x3 cores on their side
    assert parsed.ops["f"].cores == turned


def test_a_dst_of_few_bits_has_their_exponents_and_16_bits() -> None:
    formats = ("Float32", "Float16", "Float16_b", "Int32", "Int8", "Bfp8", "Bfp8_b", "Bfp2_b", "Lf8", "UInt16")
    assert [dst_format(name) for name in formats] == [
        "Float32",
        "Float16",
        "Float16_b",
        "Int32",
        "Int8",
        "Float16",
        "Float16_b",
        "Float16_b",
        "Float16",
        "UInt16",
    ]


def test_hifi2_a_is_another_name_of_hifi2() -> None:
    for name, read_as in (("HiFi2_A", "HiFi2"), ("HiFi2_B", "HiFi2_B"), ("HiFi2", "HiFi2")):
        (graph,) = parse(TEXT.replace("math_fidelity: LoFi", f"math_fidelity: {name}")).graphs
        assert graph.ops[0].math_fidelity == read_as
    with pytest.raises(CompilerInputError, match=r"math_fidelity: expected LoFi, .*, got 'HiFi2_C'$"):
        parse(TEXT.replace("math_fidelity: LoFi", "math_fidelity: HiFi2_C"))


def test_tiles_have_the_sizes_of_the_hardware() -> None:
    assert ((32, 32), (32, 16), *((rows, 32) for rows in (16, 8, 4, 2, 1))) == TILES


def test_a_long_value_is_shortened() -> None:
    assert shortened("a" * 58) == "'" + 58 * "a" + "'"  # 60 characters with its quotes
    assert shortened("a" * 59) == "'" + 56 * "a" + "..."


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("transpose", "transpose"),
        ("hslice(4)", "hslice(4)"),
        ({"vstack": 3}, "vstack(3)"),
        ({"tile_broadcast": "r"}, "tile_broadcast(r)"),
        ({"broadcast": {"z": 12}}, "broadcast(z, 12)"),
        ({"buda_pad": {"rt": 1, "ct": 2}}, "buda_pad(1, 2)"),
        ({"buda_unpad": {"rt": 3, "ct": 4}}, "buda_unpad(3, 4)"),
    ],
)
def test_a_tm_in_each_form_of_the_file(raw: Any, text: str) -> None:
    assert printed_movement("here", raw) == text


def wrong(read: Any, *words: Any, **named: Any) -> str:
    with pytest.raises(CompilerInputError) as caught:
        read(*words, **named)
    return str(caught.value)


def test_numbers_keep_to_their_limits() -> None:
    row = MappingReader("at", {"one": 1, "none": 0, "most": LARGEST, "more": LARGEST + 1, "yes": True, "text": "1"})
    assert LARGEST == 1048576
    assert [row.count("one"), row.count("none", 0), row.count("most"), row.count("gone", default=4)] == [
        1,
        0,
        LARGEST,
        4,
    ]
    for key, value in (("none", 0), ("more", LARGEST + 1), ("yes", True), ("text", "'1'")):
        assert wrong(row.count, key) == f"at.{key}: expected a whole number from 1, got {value}"
    assert wrong(row.count, "gone") == "at.gone: expected a whole number from 1, got none"
    lists = MappingReader(
        "at", {"a": [1, LARGEST], "b": [0, 2], "c": [1, LARGEST + 1], "d": [1, True], "e": 5, "f": ["1"]}
    )
    assert (lists.numbers("a"), lists.numbers("b", 2, 0), lists.pair("a")) == ((1, LARGEST), (0, 2), (1, LARGEST))
    for key in "bcdef":
        message = f"at.{key}: expected a list of whole numbers from 1, got {lists.raw[key]}"
        assert wrong(lists.numbers, key) == message
    assert wrong(lists.numbers, "a", 3) == f"at.a: expected 3 whole numbers from 1, got [1, {LARGEST}]"
    assert wrong(lists.pair, "b") == "at.b: expected 2 whole numbers from 1, got [0, 2]"


def test_words_flags_and_formats_are_checked() -> None:
    row = MappingReader("at", {"word": "r", "empty": "", "number": 3, "yes": True, "all": ["bf16", "Bfp8"], "no": None})
    assert (row.word("word"), row.word("word", ("r", "c")), row.word("gone", ("r", "c"), "c")) == ("r", "r", "c")
    assert wrong(row.word, "word", ("x", "y")) == "at.word: expected x, y, got 'r'"
    assert wrong(row.word, "empty") == "at.empty: expected a name, got ''"
    assert wrong(row.word, "number") == "at.number: expected a name, got 3"
    assert wrong(row.word, "gone") == "at.gone: expected a name, got none"
    assert (row.flag("yes"), row.flag("gone")) == (True, False)
    assert wrong(row.flag, "number") == "at.number: expected true or false, got 3"
    assert row.formats("all") == ("Float16_b", "Bfp8")
    assert wrong(row.formats, "word") == "at.word: expected a list of number formats, got 'r'"
    assert wrong(row.format, "no").startswith("at.no: data format: expected a known format, got 'None'")
    assert wrong(MappingReader, "at", [1]) == "at: expected a mapping, got [1]"


def test_an_unknown_key_is_refused_with_the_three_nearest() -> None:
    keys = frozenset({"mblock", "ublock", "oblock", "iblock", "other"})
    MappingReader("at", {"mblock": 1, "input_0_tms": 2}).known(keys)
    message = wrong(MappingReader("at", {"eblock": 1}).known, keys)
    assert message.startswith("at: expected a key of the netlist, got 'eblock'; try ")
    assert len(message.partition("; try ")[2].split(", ")) == 3
    for key in ("input_", "_tms", 7):
        assert wrong(MappingReader("at", {key: 1}).known, keys) == f"at: expected a key of the netlist, got {key!r}"


BAD: dict[str, tuple[str, str, str]] = {
    "a chip below none": ("target_device: 3", "target_device: -1", "queues.w.target_device: expected a whole number"),
    "four elements": ("[10, 11, 12]", "[1, 1, 1, 1]", "queues.x.elements: expected 3 whole numbers from 1"),
    "three parts of an address": ("[2, 128]", "[2, 1, 8]", r"queues.w.host: expected a list of \[channel, address\]"),
    "a word for an address": ("[2, 128]", "[2, b]", r"queues.w.host: expected a list of \[channel, address\]"),
    "a bare address in DRAM": ("[0, 0]]", "4]", r"queues.x.dram: expected a list of \[channel, address\]"),
    "addresses in one word": ("host: [64, [2, 128]]", "host: b", r"queues.w.host: expected a list of \[channel"),
    "a number for an input": ("inputs: [x, w]", "inputs: [x, 1]", "g.f.inputs: expected a list of ops and queues"),
    "a word for inputs": ("inputs: [x, w]", "inputs: xw", "g.f.inputs: expected a list of ops and queues, got 'xw'"),
    "no inputs of a step": ("inputs: [dest]", "inputs: []", "abs.0.inputs: expected a list of inputs, intermediates"),
    "a word for a step's inputs": ("inputs: [dest]", "inputs: dest", "abs.0.inputs: expected a list of inputs, inter"),
    "numbers for a step's inputs": ("inputs: [dest]", "inputs: [1]", "abs.0.inputs: expected a list of inputs, interm"),
    "a third operand's TMs": ("input_1_tms: [{hs", "input_2_tms: [{hs", "expected TMs of inputs 0 to 1, got input_2_t"),
    "a first row below none": ("grid_loc: [0, 1]", "grid_loc: [-1, 1]", "grid_loc: expected 2 whole numbers from 0"),
    "a tile of 16 rows and columns": ("tile_dim: [16, 32]", "tile_dim: [16, 16]", r"expected \[32, 32\], \[32, 16\]"),
    "one word for TMs": ("input_tms: [transpose, {broadcast: {r: 2}}]", "input_tms: transpose", "expected a list, got"),
    "two TMs in one": ("{hslice: 2}", "{hslice: 2, vslice: 2}", "g.f.input_1_tms: TM: expected"),
    "a truth for a number": ("  4: {inputs", "  true: {inputs", "fused_ops: expected whole numbers as keys, got True"),
    "a step for a schedule": ("schedules: []", "schedules: [7]", "fused_ops.4.schedules: expected a list of lists"),
    "buffers below none": ("intermediates: 6", "intermediates: -1", "intermediates: expected a whole number from 0"),
    "two names of a program": ("- run: [", "- run2: []\n    run: [", "programs: expected one name per entry, got"),
    "an empty instruction": ("{loop: 3}", "null", r"programs.run\[1\]: expected allocate_queue, .*, got None"),
    "no programs": ("- run: [endprogram, {loop: 3}]", "run: []", "netlist.programs: expected a list, got {'run': "),
    "no graphs": ("graphs:\n", "graphs: 3\nother:\n", "netlist.graphs: expected a mapping, got 3"),
    "no queues": (
        "queues:\n",
        "other:\n",
        "expected a section queues, got devices, other, graphs, programs, fused_ops",
    ),
    "no chip": ("[wormhole, grayskull]", "[]", "devices.arch: expected a board or an arch"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_error_names_its_place(name: str) -> None:
    old, new, message = BAD[name]
    assert TEXT.count(old) == 1, "a change that changes one place"
    with pytest.raises(CompilerInputError, match=message):
        parse(TEXT.replace(old, new))


def test_a_template_is_named_with_its_line_and_an_empty_file_without() -> None:
    text = TEXT.replace("input_count: 7", "input_count: $TEMPLATE_count")
    line = 1 + text.splitlines().index("    input_count: $TEMPLATE_count")
    assert f"got the template variable $TEMPLATE_count in line {line}; try" in wrong(parse, text)
    assert wrong(parse, "{}") == "netlist: expected a section devices, got none"
    assert wrong(parse, "[]") == "netlist: expected a mapping, got []"


def test_an_error_names_its_file(tmp_path: Path) -> None:
    file = tmp_path / "some.yaml"
    file.write_text(TEXT)
    assert (read(file).name, read(file, "grayskull").arch) == ("some", "grayskull")
    file.write_text("{}")
    assert wrong(read, file) == f"{file}: netlist: expected a section devices, got none"
    gone = tmp_path / "gone.yaml"
    assert wrong(read, gone) == f"{gone}: expected a readable netlist, got: no such file or directory"
    file.write_bytes(b"\xff\xfe\xfa")
    message = wrong(read, file)
    assert message.startswith(f"{file}: expected a readable netlist, got: ")
    assert "none" not in message
