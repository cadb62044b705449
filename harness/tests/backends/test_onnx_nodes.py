"""Ops as ONNX graphs: the standard's own reference computes what XLA does; what ONNX cannot say is declined."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.harness.backends import registry
from opscope.harness.backends.base import Declined, Job, StageError
from opscope.harness.prepare import golden
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage
from opscope.harness.tests.backends.single_ops import OPS, REDUCE, module, values

pytest.importorskip("onnx")
from onnx import defs, load_from_string
from onnx.reference import ReferenceEvaluator

from opscope.harness.backends.translated import onnx_nodes


@pytest.mark.parametrize("words", OPS.values(), ids=OPS)
def test_the_reference_of_onnx_computes_what_xla_does(words: tuple[str, str, str]) -> None:
    bytecode = module(*words)
    arrays = values(bytecode)
    [wanted] = golden.compile_module(bytecode)(arrays)
    graph = load_from_string(onnx_nodes.graph_of(bytecode))
    [got] = ReferenceEvaluator(graph).run(None, {f"a{number}": array for number, array in enumerate(arrays)})
    assert np.asarray(got).dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("stablehlo.cbrt %a0 :", "4xf32", "4xf32"), "no op of ONNX computes stablehlo.cbrt"),
        (("stablehlo.add %a0, %a1 :", "4xbf16 4xbf16", "4xbf16"), "no ONNX graph takes tensors of bf16 from Python"),
        (("stablehlo.add %a0, %a1 :", "4xi1 4xi1", "4xi1"), "ONNX's Add takes no i1"),
        (("stablehlo.negate %a0 :", "4xui8", "4xui8"), "ONNX's Neg takes no ui8"),
        (
            ("stablehlo.pad %a0, %a1, low = [1], high = [0], interior = [1] ::", "3xf32 f32", "6xf32"),
            "ONNX's Pad pads neither between",
        ),
        ((REDUCE.format(kind="add"), "2x3x4xf32", "3xf32", "1.0"), "from their own beginning"),
        ((REDUCE.format(kind="or"), "2x3x4xi32", "3xi32", "0"), "ONNX reduces by sum"),
    ],
)
def test_what_onnx_cannot_say_is_declined(words: tuple[str, ...], reason: str) -> None:
    with pytest.raises(Declined, match=reason):
        onnx_nodes.graph_of(module(*words))


def test_every_element_type_is_one_of_onnx() -> None:
    known = defs.get_schema("Cast", onnx_nodes.OPSET).inputs[0].types
    assert {f"tensor({word})" for word in onnx_nodes.ELEMENTS.values()} < known


@pytest.mark.parametrize("name", ["onnxruntime", "openvino", "tvm"])
def test_a_runtime_computes_an_op_and_refuses_in_its_own_words(name: str) -> None:
    pytest.importorskip(name)
    backend = registry.load(name)
    assert backend.available() is None
    assert name in backend.fingerprint(ResultOptions())
    backend.warm_up(ResultOptions())
    bytecode = module(*OPS["product"])
    job = Job("op", bytecode, [], ResultOptions())
    for stage in backend.stages:
        job.inputs = values(bytecode) if stage is Stage.RUN else []
        backend.climb(stage, job)
    np.testing.assert_allclose(job.outputs[0], values(bytecode)[0] @ values(bytecode)[1], rtol=1e-6)
    assert job.ran_on == "host"
    assert job.run_ns
    if name == "onnxruntime":
        refused = Job("op", module("stablehlo.maximum %a0, %a1 :", "4xi16 4xi16", "4xi16"), [], ResultOptions())
        with pytest.raises(StageError, match=r"^NOT_IMPLEMENTED : Could not find an implementation for Max"):
            backend.climb(backend.stages[0], refused)
    unsaid = Job("op", module("stablehlo.cbrt %a0 :", "4xf32", "4xf32"), [], ResultOptions())
    with pytest.raises(Declined):
        backend.climb(backend.stages[0], unsaid)
