"""What PyTorch's own ops for language models' inference become, traced by torchax: the ops that a card has for them."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.pipelines.pipeline import graph_passes, run
from opscope.compiler.tests import programs

pytestmark = pytest.mark.slow

if not (find_spec("torch") and find_spec("torchax")):
    pytest.skip("torch and torchax not installed; try pip install -e '.[torch]'", allow_module_level=True)

SDPA, DECODE = "scaled_dot_product_attention", "scaled_dot_product_attention_decode"
NAMED = {
    SDPA,
    DECODE,
    "update_cache",
    "fill_cache",
    "rotary_embedding",
    "cumsum",
    "argmax",
    "embedding",
    "rms_norm",
    "layer_norm",
    "matmul",
    "softmax",
    "scatter",
    "gather",
    "rsqrt",
    "mean",
}
"""Names that forms become, and those of the parts that they would be."""
FORMS: dict[str, list[str]] = {
    "attention": [SDPA],
    "attention, causal": [SDPA],
    "attention, heads that share keys": [SDPA],
    "attention, keys repeated": [SDPA],
    "attention, a mask of booleans": [SDPA],
    "attention, a mask that is added": [SDPA],
    "attention, eager": [SDPA],
    "a step with a cache": ["update_cache", "update_cache", DECODE],
    "RMSNorm": ["rms_norm"],
    "RMSNorm, Llama": ["rms_norm"],
    "LayerNorm": ["layer_norm"],
    "Embedding": ["embedding"],
    "rotary": ["rotary_embedding"],
    "index_copy of one position": ["update_cache"],
    "index_copy of the first": ["fill_cache"],
    "assignment of one position": ["update_cache"],
    "assignment of a slice": ["fill_cache"],
    "argmax": ["argmax"],
    "cumsum": ["cumsum"],
    "places known at run time": ["scatter"],
    "a slice further on": ["scatter"],
    "a part of each head": ["scatter"],
}
"""Form of `torch_programs.FORMS` -> what becomes of it. The last ones differ from others in one point."""


@pytest.mark.parametrize("name", FORMS)
def test_a_form_of_pytorch_becomes_the_op_of_that_name(name: str) -> None:
    from opscope.compiler.tests import torch_programs

    source, built, arguments = torch_programs.exported(name)
    module = api.stablehlo_to_ttir(source)
    run(graph_passes(), module)
    names = [each.removeprefix("ttir.") for each in programs.op_names(module)]
    assert [each for each in names if each in NAMED] == FORMS[name]
    wanted = torch_programs.by_torch(built, arguments)
    for level in (0, 1):
        outputs = programs.simulate(source, *arguments, optimization_level=level)
        for got, expected in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-2, atol=1e-2)
