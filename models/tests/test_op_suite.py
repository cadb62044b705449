"""The suite of ops: it covers what the compiler lowers, its cases are exported as named, and a sweep of it adds up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from opscope.models import registry
from opscope.models.op_cases import FLOAT, cases
from opscope.models.seeding import draw

NOT_SINGLE = {
    "stablehlo.constant",
    "stablehlo.return",
    "stablehlo.after_all",
    "stablehlo.create_token",
    "stablehlo.async_start",
    "stablehlo.async_done",
    "stablehlo.tuple",
    "stablehlo.get_tuple_element",
    "stablehlo.all_gather",
    "stablehlo.all_reduce",
    "stablehlo.all_to_all",
    "stablehlo.reduce_scatter",
    "stablehlo.collective_broadcast",
    "stablehlo.collective_permute",
    "stablehlo.partition_id",
    "stablehlo.replica_id",
    "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.dynamic_conv",
    "stablehlo.dynamic_gather",
    "stablehlo.dynamic_iota",
    "stablehlo.dynamic_pad",
    "stablehlo.dynamic_reshape",
    "stablehlo.real_dynamic_slice",
    "stablehlo.uniform_quantize",
    "stablehlo.uniform_dequantize",
    "stablehlo.custom_call",
}
"""What no run of one op with random inputs can hold: a constant is part of its user, a return ends a region; tokens and
tuples pass through; collectives need a mesh of chips; dynamic sizes must be constants; quantised types are no inputs;
custom calls are as many ops as there are targets. compiler/tests has each of them."""


@pytest.fixture(scope="module")
def split():
    """The unique ops of the suite."""
    pytest.importorskip("jax")
    from opscope.harness.prepare.export import export_model
    from opscope.harness.run.api import split

    return split(export_model(registry.get("suite:ops")).bytecode)


def test_every_op_that_the_compiler_lowers_is_tried(split) -> None:
    from opscope.compiler.api import op_table

    assert len(op_table()) > 100
    lowered = {row.stablehlo for row in op_table() if row.stablehlo and row.lowered}
    tried = {op.op_name for op in split}
    assert lowered - tried == NOT_SINGLE
    assert {"stablehlo.fft", "stablehlo.complex"} <= tried


def test_ops_are_tried_in_their_types_and_ranks(split) -> None:
    tried = {(op.op_name.split(".")[1], op.outputs[0].data_type, len(op.outputs[0].shape)) for op in split}
    for name in ("add", "maximum", "subtract"):
        assert {(name, kind, rank) for kind in ("f32", "i32") for rank in (0, 1, 2, 4)} <= tried
        assert {(name, kind, 2) for kind in ("f16", "ui32", "i16", "i8", "ui8")} <= tried
    assert len(split) > 900
    assert Counter(op.op_name for op in split)["stablehlo.convolution"] >= 11


def test_cases_are_seeded_distinct_and_inside_their_domains() -> None:
    jax = pytest.importorskip("jax")
    table = list(cases(jax.lax, jax.numpy))
    assert len({entry.name for entry in table}) == len(table)
    built = registry.get("suite:ops").build("bfloat16")
    assert [s.name for s in built.arguments] == [s.name for s in registry.get("suite:ops").build("float32").arguments]
    assert "bfloat16" in {s.dtype for s in built.arguments}
    assert FLOAT not in {s.dtype for s in built.arguments}
    for index, spec in enumerate(built.arguments):
        value = draw(spec.law, spec.shape, spec.dtype, 0, index)
        assert np.isfinite(value.astype(np.float32)).all(), spec.name


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_results_are_finite(dtype: str) -> None:
    jax = pytest.importorskip("jax")
    built = registry.get("suite:ops").build(dtype)
    values = {s.name: draw(s.law, s.shape, s.dtype, 0, i) for i, s in enumerate(built.arguments)}
    for entry, result in zip(cases(jax.lax, jax.numpy), jax.jit(built.forward)(values), strict=True):
        for leaf in jax.tree.leaves(result):
            if leaf.dtype.kind == "f" and not entry.name.startswith("bitcast"):
                assert np.isfinite(np.asarray(leaf).astype(np.float32)).all(), entry.name


NEW = (
    "smollm_135m",
    "t5_small",
    "moe_decoder",
    "mamba_reduced",
    "lstm_ptb",
    "diffusion_unet",
    "mobilenet_v2",
    "dlrm_reduced",
    "gcn_cora",
    "whisper_tiny_encoder",
    "tcn",
    "mnist_mlp_train",
    "suite:ops",
)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", NEW)
def test_a_sweep_on_the_reference_is_green_and_adds_up(name: str, dtype: str, tmp_path: Path) -> None:
    root = Path(registry.ROOT).parent
    run = tmp_path / "run"
    words = ["--model", name, "--op-by-op", "--dtype", dtype, "--run-dir", str(run), "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    records = [json.loads(line) for file in (run / "journal").glob("*.jsonl") for line in file.read_text().splitlines()]
    failed = {r["op_name"] for r in records if r["status"] != "success"}
    if name == "suite:ops":
        # What the hardware has no format for, and nothing else.
        assert failed == {"stablehlo.complex", "stablehlo.real", "stablehlo.imag", "stablehlo.fft"}
        assert all(r["expected"].startswith("never") for r in records if r["status"] != "success")
    else:
        assert failed == set()
