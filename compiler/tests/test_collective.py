"""Collectives on a mesh of simulated chips, against the specification's formulas and against XLA on several devices."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest

from opscope.base.tests.captured import captured
from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.tests import programs
from opscope.simulator.api import Device, MeshError

BOARD = api.load_board("n300")
SUM = """({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %s = stablehlo.add %a, %b : tensor<f32>
  stablehlo.return %s : tensor<f32>
})"""
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
PAIRS = "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"


def source(op: str, result: str, replicas: int = 1, partitions: int = 4) -> str:
    """A module of one collective over a 4x6 tensor on each chip."""
    return f"""module attributes {{mhlo.num_replicas = {replicas} : i32, mhlo.num_partitions = {partitions} : i32}} {{
      func.func @main(%x: tensor<4x6xf32>) -> {result} {{
        %0 = {op} : (tensor<4x6xf32>) -> {result}
        return %0 : {result}
      }}
    }}"""


def on_mesh(text: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
    loaded = Device("n300").load(api.compile(text, BOARD))
    return [result.outputs[0] for result in loaded.run_mesh([[x] for x in inputs])]


def chips(count: int = 4) -> list[np.ndarray]:
    return [programs.random((4, 6), seed) for seed in range(count)]


REDUCE = f'"stablehlo.all_reduce"(%x) <{{replica_groups = {PAIRS}, {CHANNEL}, use_global_device_ids}}> {SUM}'
GATHER = (
    f'"stablehlo.all_gather"(%x) <{{all_gather_dim = 1 : i64, replica_groups = {PAIRS}, {CHANNEL}, '
    "use_global_device_ids}>"
)
SCATTER = (
    f'"stablehlo.reduce_scatter"(%x) <{{scatter_dimension = 0 : i64, replica_groups = {PAIRS}, {CHANNEL}, '
    f"use_global_device_ids}}> {SUM}"
)
EXCHANGE = (
    '"stablehlo.all_to_all"(%x) <{split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64, '
    f"replica_groups = {PAIRS}, {CHANNEL}}}>"
)
PERMUTE = (
    '"stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1], [1, 2], [3, 0]]> : tensor<3x2xi64>, '
    f"{CHANNEL}}}>"
)
BROADCAST = f'"stablehlo.collective_broadcast"(%x) <{{replica_groups = dense<[[2, 1]]> : tensor<1x2xi64>, {CHANNEL}}}>'
CASES = {
    "all_reduce": (REDUCE, "tensor<4x6xf32>", lambda x: [x[0] + x[1], x[0] + x[1], x[2] + x[3], x[2] + x[3]]),
    "all_gather": (GATHER, "tensor<4x12xf32>", lambda x: [np.hstack(x[:2])] * 2 + [np.hstack(x[2:])] * 2),
    "reduce_scatter": (
        SCATTER,
        "tensor<2x6xf32>",
        lambda x: [(x[0] + x[1])[:2], (x[0] + x[1])[2:], (x[2] + x[3])[:2], (x[2] + x[3])[2:]],
    ),
    "all_to_all": (
        EXCHANGE,
        "tensor<2x12xf32>",
        lambda x: [np.hstack([x[g][s], x[g + 1][s]]) for g in (0, 2) for s in (slice(0, 2), slice(2, 4))],
    ),
    "collective_permute": (PERMUTE, "tensor<4x6xf32>", lambda x: [x[3], x[0], x[1], np.zeros_like(x[0])]),
    "collective_broadcast": (
        BROADCAST,
        "tensor<4x6xf32>",
        lambda x: [np.zeros_like(x[0]), x[2], x[2], np.zeros_like(x[0])],
    ),
}
PLACES = """module attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 3 : i32} {
  func.func @main(%x: tensor<4x6xf32>) -> (tensor<ui32>, tensor<ui32>) {
    %0 = stablehlo.replica_id : tensor<ui32>
    %1 = stablehlo.partition_id : tensor<ui32>
    return %0, %1 : tensor<ui32>, tensor<ui32>
  }
}"""
MODULES = (*(source(op, result) for op, result, _ in CASES.values()), PLACES)


@pytest.mark.parametrize("name", CASES)
def test_each_collective_over_four_chips(name):
    op, result, formula = CASES[name]
    x = chips()
    for got, want in zip(on_mesh(source(op, result), x), formula(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("channel", "groups"),
    [
        ("", [[0, 2], [1, 3]]),  # cross_replica: each partition by itself
        (f", {CHANNEL}", [[0, 1, 2, 3]]),  # cross_replica_and_partition
    ],
    ids=["cross_replica", "cross_replica_and_partition"],
)
def test_groups_are_read_as_the_channel_says(channel, groups):
    op = f'"stablehlo.all_reduce"(%x) <{{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>{channel}}}> {SUM}'
    x = chips()
    got = on_mesh(source(op, "tensor<4x6xf32>", replicas=2, partitions=2), x)
    for group in groups:
        for chip in group:
            np.testing.assert_allclose(got[chip], sum(x[other] for other in group), rtol=1e-6)


def test_each_chip_knows_its_place():
    loaded = Device("n300").load(api.compile(PLACES, BOARD))
    places = [tuple(int(o) for o in r.outputs) for r in loaded.run_mesh([[x] for x in chips(6)])]
    assert places == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_too_few_chips_and_chips_that_part_are_refused():
    text = source(REDUCE, "tensor<4x6xf32>")
    with pytest.raises(MeshError, match=r"mesh: expected 4 chips for group .*, got \d; try --arch t3000"):
        on_mesh(text, chips(3))
    parting = """func.func @main(%x: tensor<4x6xf32>, %p: tensor<i1>) -> tensor<4x6xf32> {
      %0 = "stablehlo.if"(%p) ({
        %1 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0]]> : tensor<1x1xi64>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %s = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %s : tensor<f32>
        }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
        stablehlo.return %1 : tensor<4x6xf32>
      }, { stablehlo.return %x : tensor<4x6xf32> }) : (tensor<i1>) -> tensor<4x6xf32>
      return %0 : tensor<4x6xf32>
    }"""
    loaded = Device("n300").load(api.compile(parting, BOARD))
    x = chips(2)
    with pytest.raises(MeshError, match="expected all chips at the same collective"):
        loaded.run_mesh([[x[0], np.bool_(True)], [x[1], np.bool_(False)]])


def test_a_collective_of_doubles_is_refused_and_never_left_to_one_host():
    text = source(REDUCE, "tensor<4x6xf32>").replace("f32", "f64")
    with pytest.raises(StageFailure) as caught:
        api.compile(text, BOARD, api.CompileOptions(unsupported_types="fallback"))
    assert caught.value.kind == "never"


_XLA = """
import json, sys, jax, numpy as np
from jaxlib import xla_client
device_list = xla_client.DeviceList(tuple(jax.devices("cpu")))
options = xla_client.CompileOptions()
options.num_replicas, options.num_partitions = 4, 1
options.executable_build_options.num_replicas, options.executable_build_options.num_partitions = 4, 1
options.executable_build_options.device_assignment = xla_client.DeviceAssignment.create(np.arange(4).reshape(4, 1))
client = jax.devices("cpu")[0].client
inputs = [np.array(x, np.float32) for x in json.loads(sys.argv[2])]
shards = [jax.device_put(x, d) for x, d in zip(inputs, jax.devices("cpu"))]
mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")), ("p",))
whole = jax.make_array_from_single_device_arrays(
    (16, 6), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("p")), shards)
out = client.compile_and_load(sys.argv[1], device_list, options).execute_sharded([whole])
print(json.dumps([np.asarray(a).tolist() for a in out.disassemble_into_single_device_arrays()[0]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name != "collective_broadcast"])  # XLA's CPU has none
def test_xla_on_four_devices_agrees(name):
    op, result, _ = CASES[name]
    op = op.replace(", use_global_device_ids", "").replace(f", {CHANNEL}", "")
    x, text = chips(), source(op, result, replicas=4, partitions=1)
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = captured([sys.executable, "-c", _XLA, text, json.dumps([a.tolist() for a in x])], env=env)
    assert done.returncode == 0, done.stderr
    for got, want in zip(on_mesh(text, x), json.loads(done.stdout), strict=True):
        np.testing.assert_allclose(got, np.array(want, np.float32), rtol=1e-6)
