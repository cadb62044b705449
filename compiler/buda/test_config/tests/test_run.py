"""Netlists with a `test-config`: drawn, run on the simulator, compared with a golden that does not know it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from opscope.compiler.buda.netlist.parse import parse
from opscope.compiler.buda.netlist.to_binary import to_binary
from opscope.compiler.buda.test_config import config as configs
from opscope.compiler.buda.test_config.golden import Golden
from opscope.compiler.buda.test_config.queue_content import from_queue, host_array, to_queue
from opscope.compiler.buda.test_config.rows import NotModelledError
from opscope.compiler.buda.test_config.run import asked_inputs, run_test_config
from opscope.compiler.buda.test_config.stimulus import inputs_of
from opscope.compiler.commands.netlist import netlist_command
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target import binary
from opscope.simulator.api import Device, DeviceError

UNIFORM = {"type": "Uniform", "uniform_lower_bound": -1.0, "uniform_upper_bound": 1.0}
INTEGERS = {"type": "Uniform", "uniform_lower_bound": -20, "uniform_upper_bound": 20}
CLOSE = {"type": "AllCloseHw", "rtol": 0.1, "atol": 0.01, "check_pct": 0.9, "check_pcc": 0.99}
IDENTITY = {
    "m_k": 2,
    "u_kt": 2,
    "identity": True,
    "num_sparse_tiles": 4,
    "num_index_tiles": 1,
    "act_t": 1,
    "sparse_tile_ptr_bits": 8,
}


def queue(source: str, t: int, rows: int, cols: int, df: str = "Float16_b", **more: Any) -> dict[str, Any]:
    """A queue on the host, of so many tiles."""
    return {
        "input": source,
        "type": "queue",
        "entries": 4,
        "grid_size": [1, 1],
        "t": t,
        "mblock": [rows, cols],
        "ublock": [1, 1],
        "df": df,
        "target_device": 0,
        "loc": "host",
        "host": [0],
        **more,
    }


def netlist(
    op: Mapping[str, Any],
    inputs: Sequence[Mapping[str, Any]],
    out: Mapping[str, Any],
    stimulus: Any = None,
    comparison: Any = None,
    arch: str = "wormhole_b0",
) -> str:
    """A netlist of one op, as text."""
    names = [f"in{i}" for i in range(len(inputs))]
    whole = "Int" in out["df"] or any("Int8" in row["df"] for row in inputs)
    row = {
        "grid_loc": [0, 0],
        "grid_size": [1, 1],
        "inputs": names,
        "t": out["t"],
        "mblock": out["mblock"],
        "ublock": out["ublock"],
        "in_df": [each["df"] for each in inputs],
        "out_df": out["df"],
        "intermed_df": "Int32" if whole else out["df"],
        "acc_df": "Int32" if whole else "Float16_b",
        "math_fidelity": "HiFi4",
        **op,
    }
    raw = {
        "devices": {"arch": arch},
        "queues": {**dict(zip(names, map(dict, inputs), strict=True)), "out": dict(out)},
        "graphs": {"fwd_0": {"target_device": 0, "input_count": 2, "f": row}},
        "programs": [{"run": [{"execute": {"graph_name": "fwd_0", "queue_settings": {}}}]}],
        "test-config": {"comparison-config": comparison or CLOSE, "stimulus-config": stimulus or UNIFORM},
    }
    return yaml.dump(raw, Dumper=yaml.CSafeDumper, sort_keys=False)


def simulator(data: bytes, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    return Device("n150").load(data).run(inputs).outputs


def q(t: int, rows: int, cols: int, df: str = "Float16_b", **more: Any) -> dict[str, Any]:
    return queue("HOST", t, rows, cols, df, **more)


def f(t: int, rows: int, cols: int, df: str = "Float16_b", **more: Any) -> dict[str, Any]:
    return queue("f", t, rows, cols, df, **more)


SCALES = {**INTEGERS, "overrides": {"in(2|3)": {**UNIFORM, "uniform_lower_bound": 0.1}}}
CASES: dict[str, tuple[Any, ...]] = {
    "bias": (
        {"type": "matmul", "attributes": {"m_k": 2, "u_kt": 1, "bias": True}},
        [q(1, 2, 2), q(1, 2, 1), q(1, 2, 1)],
        f(1, 2, 1),
    ),
    "sum over z": (
        {"type": "matmul", "attributes": {"m_k": 1, "u_kt": 1, "accumulate": True, "z": 3}},
        [q(6, 1, 1), q(6, 1, 2)],
        f(2, 1, 2),
    ),
    "integers": (
        {
            "type": "matmul",
            "attributes": {
                "m_k": 1,
                "u_kt": 1,
                "bias": True,
                "requant": True,
                "zero_point": 2.0,
                "relu_en": True,
                "relu_mode": "max",
                "relu_threshold": 50,
            },
        },
        [q(1, 1, 1, "Int8"), q(1, 1, 1, "Int8"), q(1, 1, 1, "Int32"), q(1, 1, 1, "Float32")],
        f(1, 1, 1, "Int8"),
        SCALES,
    ),
    "saturation": ({"type": "multiply"}, [q(1, 1, 1, "Int8")] * 2, f(1, 1, 1, "Int8"), INTEGERS),
    "dequantization": (
        {"type": "dequantization", "attributes": {"zero_point": -3.5}},
        [q(1, 1, 1, "Int8"), q(1, 1, 1, "Float32")],
        f(1, 1, 1, "Float32"),
        INTEGERS,
    ),
    "depthwise of integers": (
        {"type": "depthwise", "attributes": {"m_k": 2, "u_kt": 1}},
        [q(1, 1, 4, "Int8"), q(1, 2, 2, "Int8")],
        f(1, 1, 2, "Int32"),
        INTEGERS,
    ),
    "depthwise": (
        {"type": "depthwise", "attributes": {"m_k": 3, "u_kt": 1, "bias": True}},
        [q(2, 1, 6), q(2, 3, 2), q(2, 1, 2)],
        f(2, 1, 2),
    ),
    "splice": (
        {"type": "splice", "attributes": {"input0": [0, 2, 3], "input1": [1, 1, 1]}, "ublock_order": "r"},
        [q(1, 2, 3), q(1, 2, 2)],
        f(1, 2, 3),
    ),
    "splice of matrices": (
        {"type": "splice", "attributes": {"granularity": "t", "input0": [0, 1, 2], "input1": [1, 1, 1]}},
        [q(4, 1, 2), q(4, 1, 2)],
        f(4, 1, 2),
    ),
    "topk": (
        {"type": "topk", "attributes": {"k": 5, "sort": "max", "m_k": 1, "u_kt": 2}},
        [q(1, 2, 2), q(1, 2, 2, "UInt16")],
        f(1, 2, 1),
        {**UNIFORM, "overrides": {"in1": {"type": "Step", "step_start": 0, "step_increment": 1}}},
    ),
    "embedding": (
        {"type": "embedding", "attributes": {"num_indices": 32}},
        [q(1, 2, 1), q(1, 1, 1, "RawUInt32")],
        f(1, 1, 1),
        {**UNIFORM, "overrides": {"in1": {**INTEGERS, "uniform_lower_bound": 0}}},
    ),
    "some indices of each core": (
        {"type": "embedding", "grid_size": [2, 1], "attributes": {"num_indices": 20}},
        [q(1, 2, 1), q(1, 2, 1, "RawUInt32")],
        f(1, 1, 1, grid_size=[2, 1]),
        {**UNIFORM, "overrides": {"in1": {**INTEGERS, "uniform_lower_bound": 0}}},
    ),
    "maximum of some matrices": (
        {"type": "reduce", "attributes": {"dim": "z", "type": "max", "z": 2}},
        [q(4, 1, 1)],
        f(2, 1, 1),
    ),
    "small tiles": (
        {"type": "exp", "tile_dim": [16, 32], "input_0_tms": [{"broadcast": {"r": 2}}]},
        [q(1, 1, 2, tile_dim=[16, 32])],
        f(1, 2, 2, tile_dim=[16, 32]),
    ),
    "small tiles into large": (
        {"type": "matmul", "attributes": {"m_k": 1, "u_kt": 2}},
        [q(1, 1, 2, tile_dim=[8, 32]), q(1, 2, 1)],
        f(1, 1, 1),
    ),
    "a pad": ({"type": "nop", "input_0_tms": [{"pad": [1, 1, 2.5]}]}, [q(1, 1, 1)], f(1, 2, 2)),
    "a threshold": (
        {"type": "nop", "attributes": {"relu_en": True, "relu_mode": "min", "relu_threshold": 0.5}},
        [q(1, 1, 1)],
        f(1, 1, 1),
    ),
    "the slope of gelu": ({"type": "gelu_derivative"}, [q(1, 1, 1)], f(1, 1, 1)),
    "sparse tiles": (
        {"type": "matmul", "attributes": IDENTITY},
        [q(1, 1, 4, "Bfp2_b", type="ram"), q(1, 4, 2), q(1, 1, 1, "RawUInt32", type="ram")],
        f(2, 3, 2),
        {
            **UNIFORM,
            "overrides": {
                "in0": {"type": "sparse", "matmul_ident_name": "f"},
                "in2": {
                    "type": "sparse_encoding",
                    "matmul_ident_name": "f",
                    "enc_tile_byte_size": 4096,
                    "zero_strip_freq": 0.2,
                    "zero_ublock_freq": 0.5,
                    "zero_tile_freq": 0.3,
                },
            },
        },
    ),
    "sparse tiles and a bias": (
        {"type": "matmul", "attributes": {**IDENTITY, "bias": True}},
        [q(1, 1, 4, "Bfp2_b", type="ram"), q(1, 4, 2), q(1, 1, 1, "RawUInt32", type="ram"), q(2, 3, 2)],
        f(2, 3, 2),
    ),
    "places of the largest": (
        {"type": "topk", "grid_size": [1, 2], "attributes": {"k": 5, "sort": "argmax", "m_k": 1, "u_kt": 2}},
        [q(1, 2, 2, grid_size=[1, 2]), q(1, 2, 2, "UInt16", grid_size=[1, 2])],
        f(1, 2, 1, "UInt16", grid_size=[1, 2]),
        {**UNIFORM, "overrides": {"in1": {"type": "StepRowwise", "step_start": 7, "step_increment": 1}}},
    ),
}
"""What is tried -> op, inputs, output and stimulus."""


@pytest.mark.parametrize("name", CASES)
def test_the_device_gives_the_goldens_numbers(name: str) -> None:
    verdict = run_test_config(netlist(*CASES[name]), simulator)
    assert (verdict.why, verdict.passed, verdict.queues, verdict.inputs) == ("", True, ("out",), 2)


def test_what_another_netlist_fills_the_host_fills() -> None:
    text = netlist({"type": "nop"}, [queue("net2net_op0_out", 1, 2, 2)], f(1, 2, 2))
    verdict = run_test_config(text, simulator)
    assert (verdict.why, verdict.passed, verdict.queues) == ("", True, ("out",))


@pytest.mark.parametrize("name", ["bias", "integers", "splice", "topk", "small tiles", "sparse tiles", "depthwise"])
def test_other_numbers_do_not_pass(name: str) -> None:
    def wrong(data: bytes, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        (value,) = simulator(data, inputs)
        return [np.roll(value, 1, axis=2)]

    verdict = run_test_config(netlist(*CASES[name]), wrong)
    assert not verdict.passed
    assert verdict.why.startswith("out, input 0: ")


@pytest.mark.parametrize(
    ("fidelity", "passed"), [("HiFi2_B", True), ("HiFi2", False), ("HiFi2_A", False), ("LoFi", False)]
)
def test_hifi2_b_reads_all_of_an_elementwise_products_second_operand(fidelity: str, passed: bool) -> None:
    """tt-budabackend tests it in this way: numbers of one bit times those of bfloat16 are exact."""
    op = {"type": "multiply", "math_fidelity": fidelity}
    text = netlist(op, [q(1, 1, 2, "Bfp2_b"), q(1, 1, 2)], f(1, 1, 2), comparison={"type": "Exact"})
    assert run_test_config(text, simulator).passed is passed


def test_a_top_is_the_largest_of_each_row_or_what_the_other_operand_has_there() -> None:
    numbers = np.zeros((1, 32, 64), np.float32)
    numbers[0, 0, [3, 40, 63]] = [2, 5, 1]
    numbers[0, 1] = -1
    numbers[0, 1, [9, 8]] = [0.5, 0.25]
    places = np.broadcast_to(1000 - np.arange(64, dtype=np.float32), (1, 32, 64))
    results = {}
    for sort, df in (("max", "Float16_b"), ("argmax", "UInt16")):
        op = {"type": "topk", "attributes": {"k": 2, "sort": sort, "m_k": 1, "u_kt": 2}}
        text = netlist(op, [q(1, 1, 2), q(1, 1, 2, "UInt16")], f(1, 1, 1, df))
        data = binary.write(to_binary(parse(text), parameters={}).binary)
        (results[sort],) = simulator(data, [numbers, places])
    assert results["max"][0, :2, :3].tolist() == [[5, 2, 0], [0.5, 0.25, 0]]
    assert results["argmax"][0, :2, :3].tolist() == [[960, 997, 0], [991, 992, 0]]


def test_a_sparse_product_adds_the_first_row_of_each_tile_of_its_bias() -> None:
    """One tile, placed once: the second row of cores' tiles has the bias alone."""
    words = np.zeros(2048, np.uint16)
    words[:5] = [0, 3 << 14, 1, 1 << 8 | 1, 0]  # strip 0 is the last; one block, number 1, with tile 0 in place 0
    encoding = words.view(np.uint32).reshape(1, 32, 32)
    tile, bias = np.eye(32, dtype=np.float32)[None], np.full((1, 64, 32), 9, np.float32)
    bias[0, ::32] = np.arange(32)
    activations = np.full((1, 32, 32), 2, np.float32)
    attributes = {**IDENTITY, "m_k": 1, "u_kt": 1, "num_sparse_tiles": 1, "bias": True}
    inputs = [q(1, 1, 1, "Bfp2_b"), q(1, 1, 1), q(1, 1, 1, "RawUInt32"), q(1, 2, 1)]
    text = netlist({"type": "matmul", "attributes": attributes}, inputs, f(1, 2, 1))
    (got,) = simulator(binary.write(to_binary(parse(text), parameters={}).binary), [tile, activations, encoding, bias])
    assert (got[0, :32] == np.arange(32)).all()
    assert (got[0, 32:] == np.arange(32) + 2).all()
    raw = yaml.load(text, yaml.CSafeLoader)
    golden = Golden(raw).run(dict(zip(raw["queues"], [tile, activations, encoding, bias], strict=False)))
    np.testing.assert_array_equal(golden["out"], got)


def test_an_encoding_of_numbers_is_marked_as_ours() -> None:
    """Numbers from -1 to 1 are no encoding: the golden ended in an IndexError."""
    op, inputs, out, stimulus = CASES["sparse tiles"]
    text = netlist(op, inputs, out, {**stimulus, "overrides": {"in0": stimulus["overrides"]["in0"]}})
    verdict = run_test_config(text, simulator)
    assert (verdict.why, verdict.passed, verdict.encodings) == ("", True, ("in2",))
    assert run_test_config(netlist(op, inputs, out, stimulus), simulator).encodings == ()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([0, 1 << 14, 1, 1 << 8, 4 << 8], "expected a sparse tile from 0 to 3, got 4"),
        ([2, 1 << 14, 1, 1 << 8, 0], "expected a row of tiles of the activations from 0 to 3, got 4"),
        ([0, 1 << 14, 1, 1 << 8 | 3, 0], "expected a row of tiles of a core's result from 0 to 2, got 3"),
        ([0, 1 << 15, 0], "expected strips for 2 matrices, got 0"),
        ([0, 0, 0xFFFF, *([1 << 8, 0] * 1023)], "expected a word from 0 to 2047, got 2049"),
    ],
)
def test_what_is_no_encoding_is_refused(words: list[int], why: str) -> None:
    raw = yaml.load(netlist(*CASES["sparse tiles"]), yaml.CSafeLoader)
    inputs = inputs_of(raw, configs.read(raw), 0)
    codes = np.zeros(2048, np.uint16)
    codes[: len(words)] = words[:2048]
    inputs["in2"] = codes.view(np.uint32).reshape(1, 32, 32).astype(np.float64)
    with pytest.raises(CompilerInputError, match=f"^f: encoding: {why}"):
        Golden(raw).run(inputs)
    with pytest.raises(DeviceError, match="expected operands that go together"):
        simulator(
            binary.write(to_binary(parse(netlist(*CASES["sparse tiles"])), parameters={}).binary),
            [host_array(raw["queues"][name], value) for name, value in inputs.items()],
        )


def test_steps_count_by_tiles_or_begin_anew_in_each_row_or_column() -> None:
    """tt-budabackend: verif/verif_rand_utils.cpp; the next tile of a row begins 32 on, whatever the increment is."""
    raw = yaml.load(netlist({"type": "nop"}, [q(1, 2, 2, "Float32")], f(1, 2, 2, "Float32")), yaml.CSafeLoader)
    got = {}
    for kind in ("Step", "StepRowwise", "StepColumnwise"):
        rule = {"type": kind, "step_start": 5, "step_increment": 2}
        raw["test-config"]["stimulus-config"] = rule
        got[kind] = inputs_of(raw, configs.read(raw), 0)["in0"][0]
    assert got["Step"][[0, 0, 1, 0, 32], [0, 1, 0, 32, 0]].tolist() == [5, 7, 69, 5 + 2048, 5 + 4096]
    assert got["StepRowwise"][[0, 0, 1, 0, 63], [0, 31, 0, 32, 33]].tolist() == [5, 67, 5, 37, 39]
    assert (got["StepColumnwise"] == got["StepRowwise"].T).all()


def test_sums_of_a_sparse_product_are_those_of_its_dense_matrix() -> None:
    """The encoding, read by hand: every 1 of every tile that it places, in a matrix of zeros."""
    raw = yaml.load(netlist(*CASES["sparse tiles"]), yaml.CSafeLoader)
    inputs = inputs_of(raw, configs.read(raw), 0)
    words = inputs["in2"].astype(np.uint32).reshape(-1).view(np.uint16).tolist()
    dense, at, t = np.zeros((2, 3 * 32, 4 * 32)), 0, 0
    while t < 2:
        head, blocks = words[at] + (words[at + 1] << 16), words[at + 2]
        at += 3
        for _ in range(blocks):
            count, block = words[at] >> 8, words[at] & 255
            for word in words[at + 1 : at + 1 + count]:
                tile, inner = word >> 8, (head & 0x3FFFFFFF) * 2 + (word & 1)
                assert (word & 255) >> 1 == 0  # micro blocks of one row
                dense[t, block * 32 : block * 32 + 32, inner * 32 : inner * 32 + 32] += inputs["in0"][
                    0, :, tile * 32 : tile * 32 + 32
                ]
            at += 1 + count
        t += head >> 30 & 1
    assert 0 < dense.sum() <= dense.size
    np.testing.assert_allclose(Golden(raw).run(inputs)["out"], dense @ inputs["in1"][0])


def test_a_queue_is_drawn_by_its_rule_and_the_seed() -> None:
    raw = yaml.load(netlist(*CASES["bias"]), yaml.CSafeLoader)
    rule = configs.read(raw)
    one, again, other = (inputs_of(raw, rule, seed) for seed in (0, 0, 1))
    assert all((one[name] == again[name]).all() and (one[name] != other[name]).any() for name in one)
    assert not (one["in0"] == inputs_of(raw, rule, 0, 1)["in0"]).all()
    raw["queues"]["in1"]["type"] = "ram"
    assert (inputs_of(raw, rule, 0, 1)["in1"] == inputs_of(raw, rule, 0)["in1"]).all()
    raw["test-config"]["stimulus-config"]["overrides"] = {
        "in0": {"type": "DebugTileId", "debug_tile_id_base": 1, "debug_tile_id_step": 2, "set_tile_rows": [2, 3]},
        "in[12]": {"type": "Constant", "constant_value": 0.3, "set_tile_cols": [1, 4]},
    }
    drawn = inputs_of(raw, configs.read(raw), 0)
    assert drawn["in0"][0, ::32].any() == np.False_
    assert drawn["in0"][0, [1, 2, 33], ::32].tolist() == [[1.0, 3.0], [1.0, 3.0], [5.0, 7.0]]
    assert np.count_nonzero(drawn["in1"]) == 2 * 32 * 4
    assert drawn["in1"].max() == np.float64(0.30078125)  # 0.3 in bfloat16


def test_constants_have_their_names_values_where_inputs_and_outputs_are_named() -> None:
    raw = yaml.load(netlist({"type": "nop"}, [q(1, 1, 1)], f(1, 1, 1)), yaml.CSafeLoader)
    names = ["norm_var_plus_eps", "norm_mean.0", "norm_var.0", "dc.reduce_sum.0", "weights"]
    raw["queues"] |= dict.fromkeys(names, raw["queues"]["in0"])
    drawn = inputs_of(raw, configs.read(raw), 0)
    assert all(np.ptp(drawn[name]) > 1 for name in names)
    raw["test-config"]["io-config"] = {"inputs": ["in0"], "outputs": ["out"]}
    for arguments, length in (({}, 128), ({"sequence_length": 64}, 64), ({"sequence_lenth": 32}, 32)):
        raw["test-config"]["test-args"] = arguments
        values = inputs_of(raw, configs.read(raw), 0)
        for name, value in zip(names, (2**-23, 1 / length, 1 / length, 1), strict=False):
            assert (values[name] == value).all(), name
        assert (values["weights"] == drawn["weights"]).all()
    rule = {"type": "Constant", "constant_value": 0.25}
    raw["test-config"]["stimulus-config"] = {**UNIFORM, "overrides": {"norm_mean.*": rule}}
    values = inputs_of(raw, configs.read(raw), 0)
    assert (values["norm_mean.0"] == 0.25).all()
    assert (values["norm_var.0"] == 1 / 32).all()
    del raw["test-config"]["stimulus-config"]  # its tensors were others altogether
    assert not configs.read(raw).names_queues


def test_a_meaningless_test_config_is_refused() -> None:
    text = netlist({"type": "nop"}, [q(1, 1, 1)], f(1, 1, 1))
    for change, message in (
        ({"wobble": 1}, "test-config: expected comparison-config, io-config"),
        ({"stimulus-config": {"type": "Normal"}}, "expected normal_mean for a stimulus of type Normal"),
        ({"stimulus-config": {"type": "Wave"}}, "stimulus-config.type: expected uniform, normal"),
        ({"comparison-config": {**CLOSE, "check_pct": 2}}, "check_pct: expected a number from 0 to 1, got 2"),
        ({"comparison-config": {**CLOSE, "type": "Near"}}, "comparison-config.type: expected Exact, AllClose"),
        ({"comparison-config": {**CLOSE, "check_tile_rows_range": [0, 4]}}, "expected first and last from 1 to 32"),
    ):
        raw = yaml.load(text, yaml.CSafeLoader)
        raw["test-config"].update(change)
        with pytest.raises(CompilerInputError) as caught:
            run_test_config(yaml.dump(raw, Dumper=yaml.CSafeDumper, sort_keys=False), simulator)
        assert message in str(caught.value)


def test_a_golden_without_numbers_is_no_pass() -> None:
    negative = {**UNIFORM, "uniform_upper_bound": -0.5}
    with pytest.raises(NotModelledError, match="out: expected numbers, got NaN"):
        run_test_config(netlist({"type": "sqrt"}, [q(1, 1, 1)], f(1, 1, 1), negative), simulator)
    # Where the netlist does not say how to draw them, they are drawn positive, and the verdict says so.
    raw = yaml.load(netlist({"type": "sqrt"}, [q(1, 1, 1)], f(1, 1, 1)), yaml.CSafeLoader)
    del raw["test-config"]["stimulus-config"]
    verdict = run_test_config(yaml.dump(raw, Dumper=yaml.CSafeDumper, sort_keys=False), simulator)
    assert (verdict.passed, verdict.positive) == (True, True)


def test_a_result_that_rounding_alone_changes_says_nothing() -> None:
    raw = yaml.load(netlist({"type": "nop"}, [q(1, 1, 1), q(1, 1, 1)], f(1, 1, 1)), yaml.CSafeLoader)
    row = {**raw["graphs"]["fwd_0"]["f"], "inputs": ["in0", "in1"], "in_df": ["Float16_b"] * 2}
    raw["graphs"]["fwd_0"] |= {
        "f": {**row, "type": "subtract", "inputs": ["large", "in1"]},  # in0 again: in float32 no digit of it is left
        "large": {**row, "type": "add", "grid_loc": [0, 1]},
        "same": {**row, "type": "add", "inputs": ["in0", "in0"], "grid_loc": [0, 2]},
    }
    raw["test-config"]["stimulus-config"] = {
        **UNIFORM,
        "overrides": {"in1": {"type": "Constant", "constant_value": 1e9}},
    }
    with pytest.raises(NotModelledError, match="out: expected numbers that rounding to float32 leaves as they are"):
        run_test_config(yaml.dump(raw, Dumper=yaml.CSafeDumper, sort_keys=False), simulator)
    raw["queues"]["sum"] = {**raw["queues"]["out"], "input": "same", "host": [8192]}
    verdict = run_test_config(yaml.dump(raw, Dumper=yaml.CSafeDumper, sort_keys=False), simulator)
    assert (verdict.passed, verdict.why, verdict.unstable) == (True, "", ("out",))

    def wrong(data: bytes, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return [-value for value in simulator(data, inputs)]

    verdict = run_test_config(yaml.dump(raw, Dumper=yaml.CSafeDumper, sort_keys=False), wrong)
    assert not verdict.passed
    assert verdict.why.startswith("sum")


def test_inputs_are_counted() -> None:
    raw = yaml.load(netlist({"type": "nop"}, [q(1, 1, 1)], f(1, 1, 1)), yaml.CSafeLoader)
    raw["test-config"]["test-args"] = {"microbatch_count": 3, "minibatch_count": 2, "microbatch_size": 99}
    assert asked_inputs(raw, configs.read(raw)) == 2 * 3 * 2


def test_small_tiles_are_cut_out_and_filled_up() -> None:
    value = np.arange(2 * 64 * 96, dtype=float).reshape(2, 64, 96)
    cut = to_queue(value, (16, 8))
    assert cut.shape == (2, 32, 24)
    back = from_queue(cut, (16, 8))
    inside = (np.arange(64) % 32 < 16)[:, None] & (np.arange(96) % 32 < 8)
    np.testing.assert_array_equal(back, np.where(inside, value, 0))


@pytest.mark.slow
def test_the_command_says_by_its_exit_code_whether_the_test_passed(tmp_path: Path) -> None:
    text = netlist({"type": "exp"}, [q(1, 1, 1)], f(1, 1, 1))
    good, strict, none = (tmp_path / f"{name}.yaml" for name in ("good", "strict", "none"))
    good.write_text(text)
    raw = yaml.load(text, yaml.CSafeLoader)
    raw["test-config"]["comparison-config"] = {"type": "Exact"}
    strict.write_text(yaml.dump(raw, Dumper=yaml.CSafeDumper, sort_keys=False))
    del raw["test-config"]
    none.write_text(yaml.dump(raw, Dumper=yaml.CSafeDumper, sort_keys=False))
    results = [CliRunner().invoke(netlist_command, [str(path), "--run-test-config"]) for path in (good, strict, none)]
    assert [row.exit_code for row in results] == [0, 1, 2]
    assert results[0].output == "passed: out; 2 of 2 inputs compared\n"
    assert results[1].output.startswith("failed: out; 1 of 2 inputs compared\nout, input 0: 1 of 1 tiles")
    assert "none.yaml: test-config: expected a section" in results[2].output


@pytest.mark.parametrize(("dim", "last"), [("c", True), ("c", False), ("r", True), ("r", False)])
def test_a_step_of_a_fused_op_is_reduced(dim: str, last: bool) -> None:
    """A sum of two operands, its maxima; with another step these are subtracted from a third operand."""
    rows, cols = (1, 3) if dim == "r" else (3, 1)
    block = {"mblock": [rows, cols], "ublock": [1, 1]}
    add = {"type": "add", "inputs": ["input0", "input1"], "mblock": [3, 3], "ublock": [1, 1], "output": "intermed0"}
    maximum = {
        "type": "reduce",
        "inputs": ["intermed0"],
        "pop": ["intermed0"],
        **block,
        "attributes": {"dim": dim, "type": "max"},
        "output": "output" if last else "intermed1",
    }
    less = {
        "type": "subtract",
        "inputs": ["input2", "intermed1"],
        "pop": ["intermed1"],
        **block,
        "input_1_tms": [{"tile_broadcast": dim}],
        "output": "output",
    }
    inputs = [q(2, 3, 3), q(2, 3, 3), *([] if last else [q(2, rows, cols)])]
    raw = yaml.load(
        netlist({"type": "fused_op", "attributes": {"fused_op_id": 0}}, inputs, f(2, rows, cols)), yaml.CSafeLoader
    )
    schedules = [[{"a": add}], [{"b": maximum}], *([] if last else [[{"c": less}]])]
    raw["fused_ops"] = {0: {"inputs": len(inputs), "intermediates": 2, "schedules": schedules}}
    text = yaml.dump(raw, Dumper=yaml.CSafeDumper, sort_keys=False)

    def both_ways(data: bytes, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        executable = Device("n150").load(data)
        whole, by_cores = (executable.run(inputs, per_core=per_core).outputs for per_core in (False, True))
        for one, other in zip(whole, by_cores, strict=True):
            np.testing.assert_array_equal(one, other)
        return whole

    assert run_test_config(text, both_ways).why == ""
