"""Which models plan on which chip, and what of their arithmetic stays on the host.

`python -m ci.benchmarks.bench_planned_models [MODEL ...] [--arch A ...]` prints a line per model and chip (default: the
17 JAX models and 23 of other frameworks; one whose framework is missing says so). The exit code
is 1 if one does not plan, or leaves a product or a convolution to the host.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass

from xdsl.ir import OpResult

from opscope.base.plugins import plugins
from opscope.compiler.api import stablehlo_to_ttir
from opscope.compiler.buda.configuration import Configuration
from opscope.compiler.buda.graph import NodeKind
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.pipelines.buda import legalise
from opscope.compiler.translations.ttir_to_graph.lowering import Lowering, lowered
from opscope.models import registry

ARCHS = ("wormhole_b0", "grayskull")
OTHERS = (
    "autoencoder_equinox",
    "bert_base_flax",
    "bert_base_onnx",
    "bert_base_torch",
    "bert_small_tf",
    "decoder_rope_onnx",
    "distilbert_torch",
    "encoder_equinox",
    "gpt2_torch",
    "mixer_s16_flax",
    "mobilenet_v2_tf",
    "mobilenet_v2_torch",
    "mobilenet_v3_small_keras",
    "nbeats_onnx",
    "resnet50_flax",
    "resnet50_keras",
    "resnet50_onnx",
    "resnet50_torch",
    "seq2seq_flax",
    "t5_small_torch",
    "text_transformer_keras",
    "unet_onnx",
    "vit_base_torch",
)
"""Models of other frameworks than JAX that plan on both chips."""
ARITHMETIC = frozenset({"ttir.matmul", "ttir.conv2d"})
"""TTIR ops that the device should compute."""


@dataclass(frozen=True)
class Row:
    """What became of a model on a chip."""

    model: str
    arch: str
    why: str = ""
    """Why it does not plan; empty if it does."""
    epochs: int = 0
    ops: int = 0
    on_host: int = 0
    """Products and convolutions that the host computes for each input."""
    seconds: float = 0.0

    def __str__(self) -> str:
        """Returns a line of a table."""
        result = self.why or f"{self.epochs} | {self.ops} | {self.on_host}"
        return f"| {self.model} | {self.arch} | {result} | {self.seconds:.1f} |"


def zoo() -> list[str]:
    """Returns the names of the models that should plan."""
    models = (registry.get(name) for name in registry.names())
    jax = [model.name for model in models if model.framework == "jax" and model.family not in ("suite", "training")]
    return [*jax, *OTHERS]


def exported(model: str) -> bytes:
    """Returns a registered model's StableHLO, exported in a child of its frontend."""
    for entry in plugins("opscope.sources"):
        return entry.load()(model)
    raise ValueError("opscope.sources: expected an entry point that exports models, got none; try `make install`")


def lowering_of(model: str) -> Lowering:
    """Lowers a registered model to a graph."""
    module = stablehlo_to_ttir(exported(model))
    legalise(module)
    return lowered(module, model, fallback=True)


def rows(model: str, archs: tuple[str, ...]) -> list[Row]:
    """Plans a model on each chip."""
    started = time.process_time()
    try:
        lowering = lowering_of(model)
    except (ValueError, CompilerInputError, StageFailure) as error:
        return [Row(model, arch, " ".join(str(error).split())[:200]) for arch in archs]
    behind = {value.owner for value in lowering.rest if isinstance(value, OpResult)}
    # What follows from weights alone is computed once, when the model is compiled, as by TT-Buda's consteval.
    each_time = [op for op, kind in lowering.on_host.items() if kind is NodeKind.INPUT]
    on_host = sum(op.name in ARITHMETIC for op in (*each_time, *behind))
    graph = lowering.builder.graph()
    rows = []
    for arch in archs:
        try:
            plan = Configuration().plan(graph, arch)
        except CompilerInputError as error:
            rows.append(Row(model, arch, " ".join(str(error).split())[:200]))
            continue
        ops = sum(len(epoch.placements) for epoch in plan.epochs)
        rows.append(Row(model, arch, "", len(plan.epochs), ops, on_host, time.process_time() - started))
        started = time.process_time()
    return rows


def main() -> int:
    """Prints the table. Returns 1 if a model does not plan or leaves arithmetic to the host."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--arch", action="append")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| model | arch | epochs | ops | products on the host | planning s |")
    print("|---|---|---|---|---|---|")
    bad = 0
    for model in options.models or zoo():
        for row in rows(model, tuple(options.arch or ARCHS)):
            print(row, flush=True)
            bad += bool(row.why or row.on_host)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
