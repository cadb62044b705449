"""What this compiler prints beside what a build of tt-mlir printed for the same modules.

`data/tt_mlir_prints.txt` has modules of our own, and the ops that jax-tt-plugin 0.1.3 made of each for board n150 at
level 0: names, attributes and types of results, without those that only place tensors.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from opscope.compiler import api
from opscope.compiler.against.comparison import compare
from opscope.compiler.against.kept import KEPT, reason_for
from opscope.compiler.against.one_op import Difference, Emission, OtherOp, differences, type_of
from opscope.compiler.against.ours import FRONT, emission
from opscope.compiler.against.page import to_markdown
from opscope.compiler.against.printed_ops import Layout, read
from opscope.compiler.commands.ops import ops
from opscope.compiler.ir import guard
from opscope.compiler.ir.door import portable
from opscope.compiler.ops.refused_by_builds import REFUSALS
from opscope.compiler.ops.row import TABLE
from opscope.compiler.pipelines import pipeline
from opscope.simulator.api import Device

PRINTS = Path(__file__).parent / "data" / "tt_mlir_prints.txt"
BOARD = api.load_board("n150")
DTYPES = {"i1": np.bool_, "i32": np.int32}
KEPT_IN_TTIR = {"convolution of one dim", "pad by a value of the program", "rows by index"}
"""Cases whose ops in TTIR are others than the build's, for a reason of the table."""


def _prints() -> dict[str, tuple[str, str, str]]:
    """Name of a case -> module, TTIR and TTNN of the build."""
    cases: dict[str, tuple[str, str, str]] = {}
    for block in PRINTS.read_text(encoding="utf-8").split("## ")[1:]:
        name, _, rest = block.partition("\n")
        module, _, rest = rest.partition("-- ttir\n")
        ttir, _, ttnn = rest.partition("-- ttnn\n")
        cases[name] = module, f"module\n{ttir}", f"module\n{ttnn}"
    return cases


CASES = _prints()


@cache
def ours(name: str) -> Emission:
    return emission(CASES[name][0], BOARD)


def op_of(name: str) -> str:
    """The StableHLO op of a case, which is the last that is no terminator."""
    names = re.findall(r"\b(stablehlo\.\w+)", CASES[name][0].rpartition("%0 =")[2])
    return names[0]


def names(name: str, dialect: str) -> list[Difference]:
    """How a case differs in one dialect, layouts apart: the stored text of ttnn has none."""
    _, ttir, ttnn = CASES[name]
    mine = replace(ours(name), **{"ttnn" if dialect == "ttir" else "ttir": ""})
    theirs = Emission(ttir, ttnn)
    return [each for each in differences(op_of(name), mine, theirs) if each.kind != "layout"]


@pytest.mark.parametrize("name", CASES)
def test_ttir_has_the_ops_attributes_and_types_of_the_build(name):
    different = names(name, "ttir")
    if name in KEPT_IN_TTIR:
        assert [each.kind for each in different] == ["ops"]
        assert all(map(reason_for, different))
    else:
        assert different == []


@pytest.mark.parametrize("name", CASES)
def test_ttnn_differs_from_the_build_only_for_reasons_that_are_written_down(name):
    assert not ours(name).stage
    assert [each for each in names(name, "ttnn") if not reason_for(each)] == []


@pytest.mark.parametrize("name", ["broadcast along a dim", "product of matrices", "slice", "concatenate"])
def test_ttnn_has_the_attributes_of_the_build_where_no_reason_is_written_down(name):
    own = {"compute_config", "matmul_program_config"}
    assert [each for each in names(name, "ttnn") if each.what not in own] == []


def results(binary: bytes, name: str) -> list[np.ndarray]:
    draw = np.random.default_rng(1)
    device = Device("n150")
    inputs = []
    for shape, element in api.argument_types(portable(CASES[name][0])):
        floats = draw.standard_normal(shape, np.float32)
        inputs.append(floats if element == "f32" else draw.integers(0, 2, shape).astype(DTYPES[element]))
    return list(device.load(binary).run(inputs).outputs)


@pytest.mark.parametrize("name", CASES)
def test_the_form_in_tt_mlirs_words_computes_the_same(name):
    module = guard.read(CASES[name][0])
    pipeline.run(pipeline.parse(FRONT), module)
    pipeline.run(pipeline.parse("ttir-to-ttnn-backend-pipeline"), module)
    got = results(api.ttnn_to_flatbuffer(module, BOARD), name)
    wanted = results(api.compile(CASES[name][0], BOARD), name)
    for mine, own in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine, own, rtol=4e-3, atol=4e-3)


# --- the reader, on text as a build prints it
TEXT = """#dram = #ttnn.buffer_type<dram>
#loc1 = loc("a.py":3:0)
#ttnn_layout = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x3xf32, #dram>, <interleaved>>
#ttnn_layout1 = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x8>, memref<1x1x!ttcore.tile<32x32, bf16>, #dram>, <height_sharded>>
module {
  func.func @main(%arg0: tensor<2x3xf32, #ttnn_layout> loc("x, \\"y\\" -> (z"(#loc1))) -> tensor<2x3xf32, #ttnn_layout1> {
    %0 = "ttnn.full"(%d) <{fill_value = 1.5 : f32, note = "a, {b -> c", shape = #ttnn.shape<2x3>}> : (!ttnn.device) -> tensor<2x3xf32, #ttnn_layout1> loc("in (\\"q\\""(#loc1))
    %1, %2 = "ttnn.sort"(%0) <{dim = -1 : si8, stable}> ({
      "ttnn.inner"(%0) : (tensor<2x3xf32, #ttnn_layout1>) -> () loc(#loc1)
    }) : (tensor<2x3xf32, #ttnn_layout1>) -> (tensor<2x3xf32, #ttnn_layout1>, tensor<2x3xui16, #ttnn_layout>) loc(#loc1)
    %3 = ttir.empty() : tensor<4xf32> loc(#loc1)
  }
}
"""  # noqa: E501


def test_the_reader_takes_names_attributes_and_types_and_no_locations():
    full, sort, inner, empty = read(TEXT)
    assert full.name == "ttnn.full"
    assert full.attributes == {"fill_value": "1.5 : f32", "note": '"a, {b -> c"', "shape": "#ttnn.shape<2x3>"}
    assert full.layouts == (Layout("bf16", True, "dram", "height_sharded", "1x8"),)
    assert sort.attributes == {"dim": "-1 : si8", "stable": "unit"}
    assert (inner.name, inner.results) == ("ttnn.inner", ())
    assert (empty.name, empty.results) == ("ttir.empty", ("tensor<4xf32>",))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("array<i64: 1, 2>", "array<i64>"),
        ("array<i32>", "array<i32>"),
        ("[0 : i32, 1 : i32]", "[i32]"),
        ("true", "bool"),
        ("0x7F800000 : f32", "f32"),
        ("-1 : si8", "si8"),
        ("dense<1.0> : tensor<2xf32>", "dense"),
        ("#ttnn.shape<2x3>", "#ttnn.shape"),
        ("#ttnn<mesh_shape 1x1>", "#ttnn<mesh_shape>"),
        ('"same"', "text"),
        ("@f", "@name"),
    ],
)
def test_the_type_of_an_attribute(value, kind):
    assert type_of(value) == kind


# --- kinds of differences
PLAIN = (
    'module\n%0 = "ttir.concat"(%a, %b) <{dim = 1 : si32}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>\n'
)


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        (PLAIN, []),
        (PLAIN.replace("concat", "stack"), [("ops", "")]),
        (PLAIN.replace("si32", "i32"), [("attribute type", "dim")]),
        (PLAIN.replace("dim = 1", "dim = 0"), [("attribute value", "dim")]),
        (PLAIN.replace("<{dim", "<{axis = 2 : i32, dim"), [("attribute missing", "axis")]),
        (PLAIN.replace(" <{dim = 1 : si32}>", ""), [("attribute added", "dim")]),
        (PLAIN.replace("-> tensor<2x6xf32>", "-> tensor<2x6xbf16>"), [("type", "")]),
        (PLAIN + PLAIN.partition("\n")[2], [("ops", "")]),
    ],
)
def test_each_kind_of_difference_is_named(theirs, expected):
    shown = differences("stablehlo.concatenate", Emission(PLAIN), Emission(theirs))
    assert [(each.kind, each.what) for each in shown] == expected


def test_equal_ops_in_another_order_are_no_difference():
    one, two, three = (
        f'%{n} = "ttir.constant"() <{{value = dense<{n}> : tensor<f32>}}> : () -> tensor<f32>\n' for n in "123"
    )
    assert differences("stablehlo.case", Emission(f"module\n{one}{two}"), Emission(f"module\n{two}{one}")) == []
    (only,) = differences("stablehlo.case", Emission(f"module\n{one}{two}"), Emission(f"module\n{two}{three}"))
    assert (only.op, only.kind, only.what) == ("ttir.constant", "attribute value", "value")


def test_other_memory_and_another_element_in_it_are_differences_of_layout():
    mine, theirs = TEXT, TEXT.replace("tile<32x32, bf16>", "tile<32x32, f32>")
    shown = differences("stablehlo.sort", Emission("", mine), Emission("", theirs))
    assert {(each.kind, each.ours, each.theirs) for each in shown} == {
        ("layout", "bf16 tiles dram height_sharded on 1x8", "f32 tiles dram height_sharded on 1x8")
    }


def test_a_comparison_counts_groups_and_names_who_stops():
    mine = Emission(PLAIN, PLAIN.replace("ttir", "ttnn"))
    others = [
        OtherOp("01", "stablehlo.concatenate", b"", Emission(PLAIN, PLAIN.replace("ttir", "ttnn"))),
        OtherOp("02", "stablehlo.concatenate", b"", Emission(PLAIN.replace("si32", "i32"))),
        OtherOp("03", "stablehlo.rng", b"", Emission(stage="stablehlo-to-ttir", reason="failed to | legalize")),
    ]
    compared = compare(others, lambda module: mine)
    assert compared.ops == 3
    assert [(a.both, a.names, a.all) for a in compared.agreements] == [(2, 2, 1), (1, 1, 1)]
    assert [(s.name, s.here, s.count, s.example) for s in compared.stops] == [("stablehlo.rng", "", 1, "03")]
    (group,) = compared.unexplained
    assert (group.difference.kind, group.count, group.example) == ("attribute type", 1, "02")
    page = to_markdown(compared, "tt")
    assert "| `stablehlo.rng` | 1 | | stablehlo-to-ttir: failed to \\| legalize | `03` |" in page
    assert "Without a reason" in page


def test_ops_of_a_form_that_upstreams_test_expects_are_counted_and_the_test_is_named():
    rand = 'module\n%0 = "ttir.rand"() : () -> tensor<2xf32>\n'
    mine = Emission(rand)
    there = Emission(rand.replace("rand", "rng_bit_generator"))
    others = [OtherOp("01", name, b"", there) for name in ("stablehlo.rng_bit_generator", "stablehlo.rng")]
    compared = compare(others, lambda module: mine)
    assert [(a.names, a.upstream) for a in compared.agreements if a.dialect == "ttir"] == [(0, 1)]
    page = to_markdown(compared, "tt")
    assert "| ttir.rand | ttir.rng_bit_generator | `rand/rng_bit_generator` | 1 | `01` |" in page
    assert "| `stablehlo.rng` | ops | ttir.rand | ttir.rng_bit_generator | 1 | `01` |" in page
    assert {kept.dialect for kept in KEPT if kept.upstream} == {"ttir"}


# --- what builds refuse
def test_a_refusal_is_of_an_op_that_the_table_has_and_is_printed_with_it():
    assert sum(refusal.cases for refusal in REFUSALS) == 27
    assert all(TABLE.stablehlo(refusal.op) for refusal in REFUSALS)
    entry, *_ = json.loads(CliRunner().invoke(ops, ["triangular_solve", "--json"]).output)
    assert entry["elsewhere"] == [
        "jax-tt-plugin 0.1.3 refuses: failed to legalize operation 'stablehlo.triangular_solve'"
    ]
    assert "refused by builds of tt-mlir:" in CliRunner().invoke(ops, ["triangular_solve"]).output
    assert "refused by builds" not in CliRunner().invoke(ops, ["add"]).output


@pytest.mark.parametrize(
    "arguments", [["--against-backend", "tt", "add"], ["--against-run", "here"], ["--model", "suite:ops"]]
)
def test_options_that_do_not_belong_together_are_one_line(arguments):
    result = CliRunner().invoke(ops, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert "expected" in result.output
