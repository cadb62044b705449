"""`pybuda.transformers.pipeline`: a pipeline of transformers whose model runs on a card. Imports both and torch.

What a pipeline asks of the model stays as it is; only `forward` is another. Generation gives the model all tokens so
far in each step, padded to one length, so that it is compiled once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from opscope.simulator.host.devices.tt_device import TTDevice
from opscope.simulator.host.errors import PyBudaError, in_one_line
from opscope.simulator.host.modules.py_torch_module import PyTorchModule
from opscope.simulator.host.run import run_inference
from opscope.simulator.host.settings.enumerations import DataFormat

MAX_LENGTH = 256
"""Tokens that a decoder's input is padded to, unless `pybuda_max_length` says otherwise."""
GENERATING = ("decoder_input_ids", "input_ids")
"""Arguments that generation makes longer in each step: the first of these that the model is given."""


class ForwardOfTensors(torch.nn.Module):
    """A model as a function of tensors in order: first results, no past keys and values."""

    def __init__(self, model: torch.nn.Module, forward: Callable[..., Any], names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self._forward, self._names = model, forward, names
        taken = inspect.signature(forward).parameters
        self._fixed = {name: False for name in ("return_dict", "use_cache") if name in taken}

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Returns the model's first result."""
        given: dict[str, Any] = dict(zip(self._names, tensors, strict=True))
        if "encoder_outputs" in given:
            given["encoder_outputs"] = (given["encoder_outputs"],)
        return self._forward(**given, **self._fixed)[0]


class NLPPipelineWrapper:
    """Puts a model on a card: its `forward` then runs there."""

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: Any,
        name: str = "pb_model",
        use_cache: bool | None = None,
        fp32_fallback: DataFormat = DataFormat.Float16_b,
        forward_fn: Callable[..., Any] | None = None,
        max_length: int | None = None,
    ) -> None:
        """`forward_fn` runs in place of a card; `use_cache` must not be true. Raises PyBudaError."""
        if use_cache:
            raise PyBudaError(f"{name}: expected use_cache=False, as each step has all tokens, got {use_cache!r}")
        self.model, self.name, self.forward_fn = model, name.replace("/", "_").replace("-", "_"), forward_fn
        self.pad_token = getattr(tokenizer, "pad_token_id", None) or 0
        self.max_length = max_length or MAX_LENGTH
        self.original: Callable[..., Any] = model.forward
        self.parameters = tuple(inspect.signature(self.original).parameters)
        self._device: TTDevice | None = None
        self._fp32_fallback = fp32_fallback
        self._compiled_for: dict[str, torch.Size] = {}
        model.forward = self.forward
        if (config := getattr(model, "generation_config", None)) is not None:
            config.use_cache = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model on the card, and returns what a pipeline reads of it: `logits`. Raises PyBudaError."""
        from transformers.modeling_outputs import Seq2SeqLMOutput

        given = {**dict(zip(self.parameters, args, strict=False)), **kwargs}
        tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
        encoded = given.get("encoder_outputs")
        if encoded is not None:
            tensors["encoder_outputs"] = encoded[0]
            tensors.pop("input_ids", None)
        tensors.pop("cache_position", None)
        length = self._pad(tensors) if hasattr(self.model, "generate") and self._generates(tensors) else None
        ordered = {name: tensors[name] for name in self.parameters if name in tensors}
        logits = self._run(ordered)
        return Seq2SeqLMOutput(logits=logits if length is None else logits[:, :length])

    def _generates(self, tensors: Mapping[str, torch.Tensor]) -> bool:
        can = getattr(self.model, "can_generate", None)
        return bool(can is not None and can() and any(name in tensors for name in GENERATING))

    def _pad(self, tensors: dict[str, torch.Tensor]) -> int:
        """Pads the tokens, and masks that go with them; returns how many there were. Raises PyBudaError."""
        grown = next(name for name in GENERATING if name in tensors)
        length = tensors[grown].shape[-1]
        if length > self.max_length:
            raise PyBudaError(
                f"{self.name}: expected at most {self.max_length} tokens, got {length}; try pybuda_max_length"
            )
        behind = (0, self.max_length - length)
        tensors[grown] = torch.nn.functional.pad(tensors[grown], behind, value=self.pad_token)
        mask = "decoder_attention_mask" if grown.startswith("decoder") else "attention_mask"
        if mask in self.parameters:
            ones = tensors.get(mask, torch.ones(tensors[grown].shape[0], length))
            tensors[mask] = torch.nn.functional.pad(ones, behind).float()
        for name in ("position_ids", "token_type_ids"):
            if name in tensors and tensors[name].shape[-1] == length:
                tensors[name] = torch.nn.functional.pad(tensors[name], behind)
        return length

    def _run(self, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        inputs = tuple(t if t.is_floating_point() else t.int() for t in tensors.values())
        if self.forward_fn is not None:
            with in_one_line(self.name):
                return self.forward_fn(inputs)
        names, shapes = tuple(tensors), {name: tensor.shape for name, tensor in tensors.items()}
        if self._device is None or shapes != self._compiled_for:
            if self._device is not None:
                self._device.remove_modules()
            else:
                self._device = TTDevice("tt0", fp32_fallback=self._fp32_fallback)
            self._compiled_for = shapes
            self._device.place_module(PyTorchModule(self.name, ForwardOfTensors(self.model, self.original, names)))
        self._device.push_to_inputs(inputs)
        return run_inference(_sequential=True).get()[0].value()


class TextToText:
    """What `transformers.pipeline` has for text2text-generation before its release 5: texts in, generated texts out."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer

    def __call__(self, texts: str | list[str], **generate: Any) -> list[dict[str, str]]:
        """Returns `generated_text` of each text; `generate` are arguments of the model's `generate`."""
        made = []
        for text in [texts] if isinstance(texts, str) else texts:
            encoded = self.tokenizer(text, return_tensors="pt")
            tokens = self.model.generate(encoded["input_ids"], attention_mask=encoded["attention_mask"], **generate)
            made.append({"generated_text": self.tokenizer.decode(tokens[0], skip_special_tokens=True)})
        return made


def pipeline(pipeline_type: str, *args: Any, **kwargs: Any) -> Any:
    """Returns `transformers.pipeline` with a model that runs on a card.

    `model` is a name for `from_pretrained` or a module; `forward_fn` and `pybuda_max_length` are ours, all others
    transformers'. Raises PyBudaError.
    """
    import transformers
    from transformers.pipelines import SUPPORTED_TASKS

    model, forward_fn = kwargs.get("model"), kwargs.pop("forward_fn", None)
    longest, use_cache = kwargs.pop("pybuda_max_length", None), kwargs.get("use_cache")
    if isinstance(model, str):
        task = "translation" if pipeline_type.startswith("translation") else pipeline_type
        if task not in SUPPORTED_TASKS:
            raise PyBudaError(f"pipeline: expected {', '.join(SUPPORTED_TASKS)}, got {pipeline_type!r}")
        name, kwargs["model"] = model, SUPPORTED_TASKS[task]["pt"][0].from_pretrained(model)
        kwargs.setdefault("tokenizer", transformers.AutoTokenizer.from_pretrained(model))
    elif isinstance(model, torch.nn.Module):
        name = type(model).__name__
    else:
        raise PyBudaError(f"pipeline: expected model, a name or a torch.nn.Module, got {type(model).__name__}")
    NLPPipelineWrapper(
        kwargs["model"], kwargs.get("tokenizer"), name, use_cache, forward_fn=forward_fn, max_length=longest
    )
    if pipeline_type == "text2text-generation" and pipeline_type not in SUPPORTED_TASKS:
        return TextToText(kwargs["model"], kwargs["tokenizer"])
    return transformers.pipeline(pipeline_type, *args, **kwargs)
