"""TT-Buda's options under their own names: each does what it says, or says that it does nothing."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from opscope.compiler.buda.balancer.options import LegalizerOptions, OpOverride
from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.buda.balancer.tests.graphs import fork, matmul, one_tap_convolution
from opscope.compiler.buda.configuration import OPTIONS, Configuration, NoEffect, with_formats
from opscope.compiler.buda.graph import NodeKind
from opscope.compiler.buda.graph_file import matmul_graph
from opscope.compiler.buda.nops import Nop
from opscope.compiler.buda.placer.epochs import PlacerOptions
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.plan_to_binary import QueueOptions, to_binary
from opscope.compiler.buda.planner import budget_of
from opscope.compiler.commands.plan import plan_command
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tests.planned import model, pcc, run

SEED = Path(__file__).parents[3] / "shared" / "seeds"


def planned(name: str = "layer", arch: str = "wormhole_b0", **options: object) -> BudaPlan:
    config = Configuration()
    config.set_configuration_options(**options)
    return config.plan(model(name).graph, arch)


def test_there_are_33() -> None:
    assert len(OPTIONS) == 33
    assert all(bool(option.does) != bool(option.no_effect) for option in OPTIONS.values())


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.no_effect])
def test_one_without_effect_says_so(name: str) -> None:
    value = 1 if name == "backend_opt_level" else "true"
    with pytest.warns(NoEffect, match=f"{name}: has no effect here") as warned:
        Configuration().set_configuration_options(**{name: value})
    assert [warning.filename for warning in warned] == [__file__]  # where it was set


def test_formats_fidelity_and_dst() -> None:
    buda_plan = planned(default_df_override="Bfp8_b", accumulate_df="Float32", math_fidelity="LoFi")
    (op,) = (node for node in buda_plan.graph.ops if node.spec.type == "matmul")
    assert (op.data_format, op.spec.acc_format, op.spec.math_fidelity) == ("Bfp8_b", "Float32", "LoFi")
    # A Dst of 32 bits holds half as many tiles.
    assert all(c.model.block.ublock.tiles <= 4 for c in buda_plan.choices.values())


def test_one_row_and_no_streaming() -> None:
    buda_plan = planned("attention", place_on_one_row=True, enable_t_streaming=False, balancer_policy="Random")
    assert {choice.model.grid.r for choice in buda_plan.choices.values()} == {1}
    assert all(choice.model.stream.none for choice in buda_plan.choices.values())
    assert buda_plan.policy == "Random"
    assert all(c.model.stream.none for c in planned(manual_t_streaming=True, balancer_policy="Random").choices.values())


def test_smaller_inner_blocks_are_left_out() -> None:
    few, all_ = planned(enable_enumerate_u_kt=False), planned()
    name = next(node.name for node in few.graph.ops if node.spec.type == "matmul")
    assert len(few.legal[name].models) < len(all_.legal[name].models)


def test_mixed_precision_narrows_products_alone_and_still_computes() -> None:
    buda_plan = planned("attention", amp_level=1)
    formats = {node.spec.type: node.data_format for node in buda_plan.graph.ops}
    assert formats["matmul"] == "Bfp8_b"
    assert formats["fused_op"] == "Float16_b"
    program = to_binary(buda_plan, load_board("n150"))
    (out,) = run(program, model("attention").queues)
    (exact,) = run(to_binary(planned("attention"), load_board("n150")), model("attention").queues)
    golden = model("attention").golden[0]
    assert pcc(out, golden) > 0.99
    assert pcc(out, golden) < pcc(exact, golden)


def test_saved_intermediates_are_outputs() -> None:
    buda_plan = planned(op_intermediates_to_save=["matmul_0"])
    outs = run(to_binary(buda_plan, load_board("n150")), model("layer").queues)
    assert len(outs) == 2
    x, w = (next(q for n, q in model("layer").queues.items() if n == name)[0] for name in ("arg0", "arg1"))
    assert pcc(outs[1], x @ w) > 0.999


def test_queues_lie_where_they_were_asked_to() -> None:
    buda_plan = planned()
    for host in (True, False):
        plan = to_binary(buda_plan, load_board("n150"), QueueOptions(host_inputs=host, host_outputs=host)).binary.plan
        places = {q.location for q in plan.queues if q.kind == "queue"}
        assert places == ({"host"} if host else {"dram"})


def test_harvested_rows_and_known_cards() -> None:
    assert planned(harvested_rows=[[1, 11]], arch="grayskull").budget.grid == budget_of("grayskull", 2050).grid
    assert planned(device_config="gs_e300").budget.grid.r == 8
    assert planned(device_config="gs_e300").budget.arch == "grayskull"


def test_chips_are_filled_in_the_order_asked_for() -> None:
    config = Configuration()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.set_configuration_options(chip_placement_policy="MMIO_LAST")
    config.set_chip_break("add_0")
    buda_plan = config.plan(model("layer").graph, "wormhole_b0", chips=2)
    assert [epoch.chip for epoch in buda_plan.epochs] == [1, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"harvested_rows": [[6]]}, "harvested_rows: expected rows 1-5 and 7-11"),
        ({"harvested_rows": "x1y"}, "harvested_rows: expected rows such as 1,11 or a list per chip"),
        ({"harvested_rows": [1, 1]}, "harvested_rows: expected rows 1-5 and 7-11, each once"),
        ({"harvested_rows": [[1], 11]}, "harvested_rows: expected rows 1-5 and 7-11, each once"),
        ({"harvested_rows": True}, "harvested_rows: expected a list of rows, or a list per chip"),
        ({"amp_level": 7}, "amp_level: expected a whole number from 0 to 2"),
        ({"amp_level": True}, "amp_level: expected a whole number from 0 to 2, got True"),
        ({"amp_level": "1.5"}, "amp_level: expected a whole number from 0 to 2, got '1.5'"),
        ({"amp_level": -1}, "amp_level: expected a whole number from 0 to 2, got -1"),
        ({"math_fidelity": "HiFi9"}, "math_fidelity: expected LoFi, HiFi2, HiFi2_B, HiFi3, HiFi4"),
        ({"balancer_polizy": "NLP"}, "try balancer_policy"),
        ({"default_df_override": "Float12"}, "default_df_override: expected"),
        ({"enable_t_streaming": "maybe"}, "expected true or false, got 'maybe'"),
        ({"amp_level": 3}, "amp_level: expected a whole number from 0 to 2, got 3"),
        ({"backend_opt_level": 5}, "backend_opt_level: expected a whole number from 0 to 4, got 5"),
        ({"backend_opt_level": -1}, "backend_opt_level: expected a whole number from 0 to 4, got -1"),
        ({"chip_placement_policy": "LAST"}, "^chip_placement_policy: expected MMIO_LAST, SNAKE, got 'LAST'$"),
        ({"zzz": 1}, "^option: expected one of TT-Buda's, got 'zzz'; try --list-options$"),
        ({"enable_": 1}, r"^option: expected one of TT-Buda's, got 'enable_'; try \w+, \w+, \w+$"),
    ],
)
def test_a_wrong_value_is_one_line(options: dict, message: str) -> None:
    with pytest.raises(CompilerInputError, match=message):
        Configuration().set_configuration_options(**options)


@pytest.mark.parametrize(
    ("name", "words", "value"),
    [
        ("place_on_one_row", (True, "true", "True", "1", 1, "yes"), True),
        ("place_on_one_row", (False, "false", "0", 0, "No"), False),
        ("balancer_policy", ("PolicyType.NLP", "nlp"), "NLP"),
        ("math_fidelity", ("MathFidelity.HiFi2", "hifi2"), "HiFi2"),
        ("default_df_override", ("DataFormat.Bfp8_b", "Bfp8_b"), "Bfp8_b"),
        ("amp_level", (2, "2"), 2),
        ("amp_level", (0, "0"), 0),
        ("harvested_rows", ([1, 11], "1,11", "[1, 11]"), (1, 11)),
        ("harvested_rows", ([[1, 11], []], "[[1, 11], []]"), ((1, 11), ())),
        ("harvested_rows", ([5, 7],), (5, 7)),
        ("op_intermediates_to_save", ("a, b,", ["a", "b"]), ("a", "b")),
    ],
)
def test_a_value_is_read_as_python_and_the_command_line_write_it(name: str, words: tuple, value: object) -> None:
    for word in words:
        config = Configuration()
        config.set_configuration_options(**{name: word})
        assert (config.get(name), type(config.get(name))) == (value, type(value))


@pytest.mark.parametrize("level", [0, 4])
def test_levels_without_effect_are_read_all_the_same(level: int) -> None:
    config = Configuration()
    with pytest.warns(NoEffect):
        config.set_configuration_options(backend_opt_level=level)
    assert config.values == {"backend_opt_level": level}


def test_none_leaves_an_option_as_it_is() -> None:
    config = Configuration()
    config.set_configuration_options(amp_level=1)
    config.set_configuration_options(amp_level=None)
    assert config.values == {"amp_level": 1}


@pytest.mark.parametrize(
    ("options", "device"),
    [
        ({}, ("", 0)),
        ({"harvested_rows": "1,11"}, ("", 2 + 2**11)),
        ({"harvested_rows": "[[1], [2, 11], [3]]"}, ("", 4 + 2**11)),
        ({"device_config": "gs_e300"}, ("e150", 2 + 2**11)),
        ({"device_config": "gs_e150"}, ("e150", 0)),
        ({"device_config": "wh_n150"}, ("n150", 2**11)),
        ({"device_config": "wh_n300"}, ("n300", 2**2 + 2**11)),
        ({"device_config": "galaxy"}, ("galaxy", 0)),
        ({"device_config": "bh_test"}, ("p150", 2**11)),
        ({"device_config": "gs_e300", "harvested_rows": []}, ("e150", 0)),
    ],
)
def test_a_mask_has_a_bit_per_harvested_row(options: dict, device: tuple[str, int]) -> None:
    config = Configuration()
    config.set_configuration_options(**options)
    assert config.device == device


def test_breaks_sizes_and_placement_are_those_that_were_set() -> None:
    graph, config = fork(), Configuration()
    assert config.placer(graph) == PlacerOptions((), (), 1, True, (0,))
    config.set_epoch_break(["e", "sum"])
    config.set_chip_break("prod")
    config.override_op_size("mm", (2, 3))
    config.set_configuration_options(enable_auto_transposing_placement=False, chip_placement_policy="MMIO_LAST")
    assert config.placer(graph, 3) == PlacerOptions(("e", "sum"), ("prod",), 3, False, (2, 1, 0))
    legalizer = config.legalizer(graph)
    assert {name: override.grid for name, override in legalizer.overrides.items()} == {"mm": Grid(2, 3)}
    config.set_epoch_break("nowhere")
    with pytest.raises(CompilerInputError, match="expected a node of fork, got 'nowhere'"):
        config.placer(graph)


def test_choices_of_the_balancer_are_fixed_for_an_op_and_shown() -> None:
    graph, config = fork(), Configuration()
    for attribute, value in (
        ("t_stream_dir", None),
        ("t_stream_shape", (1, 2)),
        ("u_kt", 2),
        ("force_dram_parameters", False),
        ("grid_shape", (2, 3)),
    ):
        config.override_op("mm", attribute, value)
    assert config.legalizer(graph).overrides == {"mm": OpOverride(Grid(2, 3), "n", (1, 2), 2, False)}
    shown = config.described()
    assert shown["op_sizes"] == {"mm": [2, 3]}
    assert shown["op_overrides"]["mm"] == {
        "stream_dir": "n",
        "stream_shape": (1, 2),
        "u_kt": 2,
        "dram_parameters": False,
    }
    config.set_configuration_options(default_dram_parameters=False, enable_single_buffer_fallback=True)
    made = config.legalizer(graph)
    assert (made.dram_parameters, made.single_buffer_fallback) == (False, True)
    assert Configuration().legalizer(graph).dram_parameters
    assert config.copy() == config


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("grid_shape", (0, 1), r"expected \(rows, columns\), got \(0, 1\)"),
        ("t_stream_dir", "z", "expected n, r, c, rz, cz, got 'z'"),
        ("u_kt", 0, "expected a number from 1 on, got 0"),
        ("force_dram_parameters", "perhaps", "expected true or false, got 'perhaps'"),
        ("colour", 1, "expected grid_shape, t_stream_dir"),
    ],
)
def test_an_override_of_no_use_is_one_line(attribute: str, value: object, expected: str) -> None:
    with pytest.raises(CompilerInputError, match=expected):
        Configuration().override_op("mm", attribute, value)


def test_ops_of_other_names_are_skipped_where_the_program_cannot_know_them() -> None:
    graph, config = fork(), Configuration(skip_missing_ops=True)
    config.set_epoch_break(["conv2d_14.dc.matmul.8", "e", lambda name, kind, layer: False])
    config.override_op_size("conv2d_3", (1, 1))
    with pytest.warns(NoEffect, match=r"conv2d_14.dc.matmul.8: has no effect here: a model of a framework"):
        assert config.placer(graph).epoch_breaks == ("e",)
    with pytest.warns(NoEffect, match="conv2d_3"):
        assert config.legalizer(graph).overrides == {}


@pytest.mark.parametrize(("attribute", "value"), [("t_stream_shape", (7, 1)), ("grid_shape", (7, 1))])
def test_an_override_that_no_model_meets_was_meant_for_another_op(attribute: str, value: tuple[int, int]) -> None:
    graph, config = matmul_graph("matmul:64x64x64"), Configuration()
    name = graph.ops[0].name
    config.override_op(name, attribute, value)
    with pytest.raises(CompilerInputError, match=name):
        config.plan(graph, "wormhole_b0")
    config.skip_missing_ops = True
    with pytest.warns(NoEffect, match=f"{name}: its override has no effect here"):
        plan = config.plan(graph, "wormhole_b0")
    assert plan.choices[name].model == Configuration().plan(graph, "wormhole_b0").choices[name].model


def test_only_these_ops_are_fused_or_all_but_these() -> None:
    def fused(**options: object) -> int:
        return sum(node.spec.type == "fused_op" for node in planned("layer", **options).graph.ops)

    names = [node.name for node in model("layer").graph.ops]
    assert fused() > 0
    assert fused(op_names_dont_fuse=names) == fused(op_names_manual_fuse=["none"]) == 0


@pytest.mark.parametrize("hoisted", [True, False])
def test_a_nop_copies_between_an_op_and_its_readers(hoisted: bool) -> None:
    graph, config = fork(), Configuration()
    source = next(node.name for node in graph.nodes if node.kind is NodeKind.INPUT)
    config.set_configuration_options(enable_auto_fusing=False)
    config.insert_nop(Nop("mm", ("e",), hoist_tms=hoisted, count=2))
    config.insert_nop(Nop(source, ("mm",)))
    applied = config.applied(graph, "wormhole_b0")
    assert [edge.producer for edge in applied.operands("e")] == ["buffer_1_buffer_0_mm_e_e"]
    assert [edge.producer for edge in applied.operands("buffer_1_buffer_0_mm_e_e")] == ["buffer_0_mm_e"]
    assert [edge.producer for edge in applied.operands(f"buffer_0_{source}_mm")] == [source]
    config.insert_nop(Nop("e", ("mm",)))
    with pytest.raises(CompilerInputError, match="expected an op that reads e, got 'mm'"):
        config.applied(graph, "wormhole_b0")


def test_a_daisy_chain_has_a_nop_for_each_reader() -> None:
    graph = fork()
    readers = tuple(edge.consumer for edge in graph.users("e"))
    assert len(readers) == 2
    chained = Nop("e", readers, daisy_chain=True).inserted(graph)
    (first,) = chained.users("e")
    assert {edge.consumer for edge in chained.users(first.consumer)} == {
        readers[0],
        f"buffer_0_{first.consumer}_{readers[1]}",
    }


def test_the_card_makes_the_tiles_of_inputs_with_an_op_for_each_reader() -> None:
    plain, tilized = planned("layer"), planned("layer", enable_device_tilize=True)
    inputs = [node.name for node in tilized.graph.nodes if node.kind is NodeKind.INPUT]
    made = {node.name for node in tilized.graph.ops if node.spec.type == "tilizer"}
    assert made == {f"{edge.producer}_{edge.consumer}_tilizer" for name in inputs for edge in plain.graph.users(name)}
    assert all(edge.consumer in made for name in inputs for edge in tilized.graph.users(name))
    assert all(tilized.choices[name].model.block.ublock.rt == 1 for name in made)
    board = load_board("wormhole_b0")
    results = [run(to_binary(plan, board), model("layer").queues)[0] for plan in (plain, tilized)]
    assert pcc(*results) > 0.999


def test_ribbon_needs_its_interactive_placer() -> None:
    with pytest.raises(CompilerInputError, match="expected true with policy Ribbon, got false; try MaximizeT"):
        planned(balancer_policy="Ribbon", use_interactive_placer=False)
    assert planned(balancer_policy="NLP", use_interactive_placer=False).policy == "NLP"


def test_options_change_what_they_name_and_leave_the_rest_of_the_legalizers() -> None:
    graph, config = fork(), Configuration()
    base = LegalizerOptions(
        streaming=False,
        manual_streaming=True,
        one_row=True,
        enumerate_u_kt=False,
        max_matmul_t=7,
        overrides={"mm": OpOverride(Grid(1, 1), "n"), "e": OpOverride(u_kt=3)},
    )
    kept = config.legalizer(graph, base)
    shown = ("streaming", "manual_streaming", "one_row", "enumerate_u_kt", "max_matmul_t", "overrides")
    assert [getattr(kept, name) for name in shown] == [getattr(base, name) for name in shown]
    config.override_op_size("mm", (2, 3))
    config.set_configuration_options(
        enable_t_streaming=True, manual_t_streaming=False, place_on_one_row=False, enable_enumerate_u_kt=True
    )
    made = config.legalizer(graph, base)
    assert [getattr(made, name) for name in shown[:5]] == [True, False, False, True, 7]
    assert made.overrides == {"mm": OpOverride(Grid(2, 3), "n"), "e": OpOverride(u_kt=3)}
    assert base.overrides["mm"].grid == Grid(1, 1)
    plain = Configuration().legalizer(graph)
    assert [getattr(plain, name) for name in shown[:5]] == [True, False, False, True, 0]


def test_a_card_of_the_options_goes_before_the_one_asked_for_and_there_is_one_chip() -> None:
    config = Configuration()
    config.set_chip_break("sum")
    made = config.plan(fork(), "e150")
    assert (made.budget.arch, [epoch.chip for epoch in made.epochs]) == ("grayskull", [0, 0])
    config.set_configuration_options(device_config="wh_n300")
    assert config.plan(fork(), "e150").budget.arch == "wormhole_b0"
    assert [op.name for op in config.plan(fork(), "e150").graph.ops] == ["mm", "e", "sum", "prod"]


def test_formats_are_of_everything_but_a_picker_and_the_fidelity_of_its_gather() -> None:
    graph = with_formats(one_tap_convolution(), "Bfp8_b", "Float32", "LoFi")
    assert {node.name: node.data_format for node in graph.nodes} == {
        "picker": "Bfp2_b",
        "x": "Bfp8_b",
        "w": "Bfp8_b",
        "gather": "Bfp8_b",
        "mm": "Bfp8_b",
        "y": "Bfp8_b",
    }
    assert {op.name: (op.spec.acc_format, op.spec.math_fidelity) for op in graph.ops} == {
        "gather": ("Float32", "HiFi2"),
        "mm": ("Float32", "LoFi"),
    }
    assert with_formats(one_tap_convolution(), None, None, None).nodes == one_tap_convolution().nodes
    whole = with_formats(matmul(2, 2, 2, fmt="Int8"), "Bfp8_b", None, None)
    assert {node.data_format for node in whole.nodes} == {"Int8"}


def test_an_override_that_does_not_divide_is_one_line() -> None:
    config = Configuration()
    config.override_op_size("matmul", (7, 1))
    with pytest.raises(CompilerInputError, match="expected a grid that divides 16x4 tiles"):
        config.plan(matmul_graph("matmul:512x128x128"), "grayskull")


def test_two_kinds_of_card_in_one_device_is_one_line() -> None:
    with pytest.raises(CompilerInputError, match="expected one kind of card in a device, got grayskull, wormhole_b0"):
        budget_of("e150,n150")
    assert budget_of("n150,n150").arch == "wormhole_b0"


def test_the_command_takes_options_and_lists_them(tmp_path: Path) -> None:
    listed = CliRunner().invoke(plan_command, ["--list-options"])
    assert len(listed.output.splitlines()) == 33
    page, netlist, folder = tmp_path / "p.html", tmp_path / "n.yaml", tmp_path / "out"
    args = ["matmul:512x128x128", "--set", "math_fidelity=LoFi", "--set", "backend_opt_level=2"]
    args += ["--picture", str(page), "--netlist", str(netlist), "--backend-output", str(folder)]
    done = CliRunner().invoke(plan_command, args)
    assert done.exit_code == 0, done.output
    assert "backend_opt_level: has no effect here" in done.output
    assert "math_fidelity: LoFi" in netlist.read_text()
    assert 'data-op="matmul"' in page.read_text()
    assert (folder / "hlks" / "matmul.yaml").exists()


def test_signature_is_the_published_one() -> None:
    files = list(SEED.glob("003_*.txt")) if SEED.exists() else []
    if not files:
        pytest.skip("the documentation of TT-Buda's options is not here")
    text = files[0].read_text(encoding="utf-8")
    signature = text[text.index("set_configuration_options(") :].split(")", 1)[0]
    published = [part.split(":")[0].strip() for part in signature.split("(", 1)[1].split(", ")]
    assert [name for name in published if "|" not in name] == list(OPTIONS)
    assert inspect.signature(Configuration.set_configuration_options)


def test_numbers_do_not_depend_on_where_queues_lie() -> None:
    buda_plan = planned()
    a = run(to_binary(buda_plan, load_board("n150"), QueueOptions("CLOSEST")), model("layer").queues)
    b = run(
        to_binary(buda_plan, load_board("n150"), QueueOptions(host_inputs=False, host_outputs=False)),
        model("layer").queues,
    )
    np.testing.assert_array_equal(a[0], b[0])


def test_each_chip_has_harvested_rows_of_its_own() -> None:
    config = Configuration()
    assert config.harvested(2) == (0, 0)
    config.set_configuration_options(harvested_rows=[1, 11])
    assert config.harvested(2) == (2050, 2050), "rows without a chip are those of every chip"
    config.set_configuration_options(harvested_rows=[[1], [11]])
    assert config.harvested(2) == (2, 2048)
    with pytest.raises(CompilerInputError, match="a list of rows for each of 1 chips, got 2 lists"):
        config.harvested(1)
