"""Ops that alone are told otherwise than in their model, and truly are: by the device's memory and by its formats."""

from __future__ import annotations

import json

import pytest

from opscope.harness.record import isolation
from opscope.harness.tests.acceptance.conftest import Place

pytestmark = pytest.mark.slow

TALL = """func.func @main(%x: tensor<8192x400xf32>) -> tensor<8192x400xf32> {
  %0 = stablehlo.reshape %x : (tensor<8192x400xf32>) -> tensor<3276800x1x1xf32>
  %1 = stablehlo.tanh %0 : tensor<3276800x1x1xf32>
  %2 = stablehlo.reshape %1 : (tensor<3276800x1x1xf32>) -> tensor<8192x400xf32>
  %3 = stablehlo.negate %2 : tensor<8192x400xf32>
  return %3 : tensor<8192x400xf32>
}"""
"""Alone each element of the tanh takes a tile of 1,024, more than the DRAM has; in the model, where the reshapes
cancel, it is computed as it came."""

TURNED = f"""func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {{
  %s = stablehlo.constant dense<{[-float(n % 16) for n in range(64)]}> : tensor<64xf32>
  %0 = stablehlo.sign %x : tensor<64x64xf32>
  %1 = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
  %2 = stablehlo.add %0, %1 : tensor<64x64xf32>
  %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = stablehlo.exponential %3 : tensor<64x64xf32>
  %5 = stablehlo.transpose %4, dims = [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %6 = stablehlo.negate %5 : tensor<64x64xf32>
  return %6 : tensor<64x64xf32>
}}"""
"""In block floats 16 neighbours of a row share an exponent. Alone the exponentials of a row are of one size; in the
model, where the transposes cancel, of sizes from 1 to e^-15, and the small ones are lost."""


@pytest.mark.parametrize(
    ("module", "options", "label", "op_name", "alone", "inside"),
    [
        (TALL, (), isolation.ONLY_ALONE, "stablehlo.tanh", "run_failed: OutOfMemory", "right"),
        (TURNED, ("--data-format", "Bfp8_b"), isolation.ONLY_INSIDE, "stablehlo.exponential", "success", "jump"),
    ],
)
def test_an_op_whose_verdict_changes_alone_is_labelled(
    place: Place, module: str, options: tuple[str, ...], label: str, op_name: str, alone: str, inside: str
) -> None:
    (place.folder / "net.mlir").write_text(module)
    runs = {name: str(place.folder / name) for name in ("split", "full")}
    for workflow, run in runs.items():
        asked = ("--workflow", workflow, "--optimization-level", "2", "--no-report", "--run-dir", run, *options)
        done = place.run("pytest", "--model", "net.mlir", *asked)
        assert done.code in (0, 1), done.out + done.err
    assert label in " ".join(done.out.split()), "the run of `full` knows by the verdicts that are kept"
    for pair in (("full", "split"), ("split", "full")):
        diff = place.run("opscope", "diff", *(runs[name] for name in pair))
        assert diff.code == 0, diff.err
        assert f"{label} {op_name}" in " ".join(diff.out.split())
        assert "VANISHED" not in diff.out, "rows of another workflow are not gone"
    artefacts = json.loads(place.run("opscope", "diff", runs["full"], runs["split"], "--json").out)["isolation"]
    (one,) = artefacts
    assert (one["label"], one["op_name"], one["inside"]) == (label, op_name, inside)
    assert one["alone"].startswith(alone)
    shown = json.loads(place.run("opscope", "show", runs["full"], "--alone", runs["split"], "--json").out)
    assert shown["isolation"] == artefacts
    twice = json.loads(place.run("opscope", "diff", runs["full"], runs["full"], "--json").out)
    assert twice["isolation"] == []
