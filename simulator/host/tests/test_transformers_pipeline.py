"""A model of a pipeline of transformers runs on a card: its logits are PyTorch's, for each number of tokens."""

from __future__ import annotations

from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from opscope import pybuda
from opscope.simulator.host.errors import PyBudaError

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
if find_spec("torchax") is None:
    pytest.skip("torchax is not here", allow_module_level=True)


def test_a_decoder_gets_all_tokens_padded_to_one_length() -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=512, n_embd=64, n_layer=1, n_head=2, n_positions=64)
    model = transformers.GPT2LMHeadModel(config).eval()
    tokens = torch.arange(1, 8).unsqueeze(0)
    with torch.no_grad():
        wanted = [model(tokens[:, :count]).logits.numpy() for count in (5, 7)]
    wrapper = pybuda.transformers.pipeline.NLPPipelineWrapper
    wrapper(model, SimpleNamespace(pad_token_id=0), "a-model", max_length=32)
    for count, expected in zip((5, 7), wanted, strict=True):
        got = np.asarray(model(input_ids=tokens[:, :count]).logits)
        assert got.shape == expected.shape
        assert np.corrcoef(got.ravel(), expected.ravel())[0, 1] > 0.99
    device = pybuda.get_tenstorrent_device()
    assert device is not None
    assert len(device.compiled) == 1
    with pytest.raises(PyBudaError, match="expected at most 32 tokens, got 40; try pybuda_max_length"):
        model(input_ids=torch.ones(1, 40, dtype=torch.long))
    with pytest.raises(PyBudaError, match="expected use_cache=False"):
        wrapper(model, None, use_cache=True)
    with pytest.raises(PyBudaError, match=r"expected model, a name or a torch.nn.Module, got NoneType"):
        pybuda.transformers.pipeline.pipeline("text-generation")


class Words:
    """A tokenizer of numbers."""

    pad_token_id = 0

    def __call__(self, text: str, return_tensors: str) -> dict[str, Any]:
        tokens = torch.tensor([[int(word) for word in text.split()]])
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}

    def decode(self, tokens: Any, skip_special_tokens: bool) -> str:
        return " ".join(map(str, tokens.tolist()))


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype int64")  # JAX has int32 for it
def test_text_to_text_generates_what_the_model_alone_does() -> None:
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=64, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2, decoder_start_token_id=0
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    texts = ["5 9 33", "7"]
    wanted = [Words().decode(model.generate(Words()(text, "pt")["input_ids"], max_length=5)[0], True) for text in texts]
    pipeline = pybuda.transformers.pipeline.pipeline
    generator = pipeline("text2text-generation", model=model, tokenizer=Words(), pybuda_max_length=32)
    assert [made["generated_text"] for made in generator(texts, max_length=5)] == wanted
    assert pybuda.get_tenstorrent_device() is not None
