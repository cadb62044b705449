"""Stands in for the network, in the process of a public program: Python imports this file before the program begins.

Models have their architecture and seeded weights, tokenizers and processors give seeded inputs, pictures are noise.
What a program would need of a repository that no package has is an error that says so.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import io
import json
import os
import sys
import types
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

NOTES = os.environ.get("PROGRAM_NOTES", "")
"""File that gets a line for each thing to be said of the program."""
MOST_PARAMETERS = 300_000_000
LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "encoder_layers", "decoder_layers", "num_decoder_layers")


def note(text: str) -> None:
    """Says something of the program."""
    if NOTES:
        with open(NOTES, "a", encoding="utf-8") as file:  # noqa: PTH123 - before anything is imported
            file.write(text + "\n")


class NoWeights(dict):
    """The weights of a download: none. Who counts classes by the last of them counts ImageNet's."""

    def __init__(self) -> None:
        super().__init__({"classes": [0] * 1000})


# --- what each package gets once it is imported


def torch_(torch: Any) -> None:
    """Nothing is downloaded; a model loads no weights."""
    torch.manual_seed(0)
    load_state_dict = torch.nn.Module.load_state_dict

    def load(self: Any, state: Any, *args: Any, **options: Any) -> Any:
        return None if isinstance(state, NoWeights) else load_state_dict(self, state, *args, **options)

    def hub(repository: str, name: str, *args: Any, **options: Any) -> Any:
        if not repository.startswith("pytorch/vision"):
            raise LookupError(f"torch.hub {repository}: expected a package that has it, got none")
        import torchvision

        return getattr(torchvision.models, name)(weights=None, **{"init_weights": False} if "googlenet" in name else {})

    torch.nn.Module.load_state_dict = load
    torch.hub.load = hub
    torch.hub.load_state_dict_from_url = lambda *args, **options: NoWeights()
    torch.hub.download_url_to_file = lambda url, path, *args, **options: _write(url, path)
    # A torchvision that was built for another torch has no compiled ops, which these programs do not call.
    register = torch.library.register_fake

    def registered(name: Any, *args: Any, **options: Any) -> Any:
        return (
            (lambda function: function) if str(name).startswith("torchvision::") else register(name, *args, **options)
        )

    torch.library.register_fake = registered


def torchvision_(torchvision: Any) -> None:
    """Weights of a name are none."""
    from torchvision.models import _api

    _api.WeightsEnum.get_state_dict = lambda self, *args, **options: NoWeights()


def timm_(timm: Any) -> None:
    """Models without trained weights."""
    create = timm.create_model

    def without(name: str, pretrained: bool = False, **options: Any) -> Any:
        return create(name.rpartition("/")[2].partition(".")[0], pretrained=False, **options)

    timm.create_model = without


def pytorchcv_(module: Any) -> None:
    """Models without trained weights."""
    get = module.get_model
    module.get_model = lambda name, **options: get(name, **options | {"pretrained": False})


def segmentation_(module: Any) -> None:
    """Models without trained weights."""
    create = module.Unet
    module.Unet = lambda *args, **options: create(*args, **options | {"encoder_weights": None})


def transformers_(transformers: Any) -> None:
    """Models of a checkpoint's sizes; tokens and pixels that are seeded."""
    import checkpoints
    import tokens
    from transformers import image_processing_base, processing_utils
    from transformers.models.auto import (
        auto_factory,
        configuration_auto,
        feature_extraction_auto,
        image_processing_auto,
        modeling_auto,
        processing_auto,
        tokenization_auto,
    )

    def config_of(name: Any, **options: Any) -> Any:
        if not isinstance(name, str):
            return name
        family, differs = checkpoints.size_of(name)
        known = set(configuration_auto.AutoConfig.for_model(family).to_dict())
        return configuration_auto.AutoConfig.for_model(
            family, **differs, **{k: v for k, v in options.items() if k in known}
        )

    def without_head_mask(part: Any, args: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        options.pop("head_mask", None)
        return args, options

    def made(cls: Any, name: str, *args: Any, config: Any = None, **options: Any) -> Any:
        import torch

        config = config or config_of(name, **options)
        with torch.device("meta"):
            count = sum(p.numel() for p in cls._from_config(config).parameters())
        if count > MOST_PARAMETERS:
            for layers in LAYERS:
                if isinstance(getattr(config, layers, None), int):
                    setattr(config, layers, 2)
            if config.model_type == "gpt_neo":
                config.attention_types, config.attention_layers = [[["global", "local"], 1]], ["global", "local"]
            if getattr(config, "layer_types", None):
                config.layer_types = config.layer_types[:2]
            note(f"two layers of {count / 1e6:,.0f} million parameters")
        torch.manual_seed(0)
        model = cls._from_config(config).eval()
        for part in model.modules():
            if "head_mask" not in inspect.signature(part.forward).parameters:
                part.register_forward_pre_hook(without_head_mask, with_kwargs=True)
        if not config.return_dict:
            # Parts of a model read results of other parts by name, also where it is asked for a tuple; those of
            # release 5 do not find them. Some parts have a copy of the configuration.
            for part in model.modules():
                if hasattr(own := getattr(part, "config", None), "return_dict"):
                    own.return_dict = True
            forward = model.forward
            model.forward = functools.wraps(forward)(
                lambda *args, **given: forward(*args, **{"return_dict": False, **given})
            )
        return model

    def auto(cls: Any, name: str, *args: Any, config: Any = None, **options: Any) -> Any:
        config = config or config_of(name, **options)
        return made(cls._model_mapping[type(config)], name, config=config)

    def tokenizer(cls: Any, name: str, *args: Any, **options: Any) -> Any:
        config = config_of(name)
        text = getattr(config, "text_config", config)
        return tokens.Tokenizer(text.vocab_size, config.model_type in ("bert", "albert", "squeezebert", "dpr"))

    def processor(cls: Any, name: str, *args: Any, **options: Any) -> Any:
        return tokens.Processor(config_of(name))

    base = transformers.modeling_utils.PreTrainedModel
    base.from_pretrained = classmethod(made)
    # A program may ask for the masks of heads, and pass them on, as before release 5: there are none.
    base.get_head_mask = lambda self, head_mask, layers, *args: [None] * layers
    for cls in list(vars(modeling_auto).values()):  # each has a copy of its own
        if isinstance(cls, type) and issubclass(cls, auto_factory._BaseAutoModelClass):
            cls.from_pretrained = classmethod(auto)
    for holder in (transformers.configuration_utils.PreTrainedConfig, configuration_auto.AutoConfig):
        holder.from_pretrained = classmethod(lambda cls, name, *args, **options: config_of(name, **options))
    for holder in (transformers.tokenization_utils_base.PreTrainedTokenizerBase, tokenization_auto.AutoTokenizer):
        holder.from_pretrained = classmethod(tokenizer)
    for holder in (
        image_processing_base.ImageProcessingMixin,
        processing_utils.ProcessorMixin,
        feature_extraction_auto.AutoFeatureExtractor,
        image_processing_auto.AutoImageProcessor,
        processing_auto.AutoProcessor,
    ):
        holder.from_pretrained = classmethod(processor)


def requests_(requests: Any) -> None:
    """Pages are seeded pictures, or a thousand labels."""

    def get(url: str, *args: Any, **options: Any) -> Any:
        content = _content(url)
        return types.SimpleNamespace(
            raw=io.BytesIO(content),
            content=content,
            text=content.decode("latin-1"),
            status_code=200,
            ok=True,
            json=lambda: json.loads(content),
            raise_for_status=lambda: None,
            iter_content=lambda size=0: iter([content]),
        )

    requests.get = get


def urllib_(request: Any) -> None:
    """See `requests_`."""
    request.urlopen = lambda url, *args, **options: io.BytesIO(_content(getattr(url, "full_url", url)))
    request.urlretrieve = lambda url, path=None, *args, **options: (_write(url, path), None)


class Rows:
    """A data set of one row, and of parts that are the same."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._row = row

    def __getitem__(self, key: Any) -> Any:
        """Returns a row by number, a column by name, or a part by any other name."""
        return self._row if isinstance(key, int) else [self._row[key]] if key in self._row else self

    def __len__(self) -> int:
        return 1


def datasets_(datasets: Any) -> None:
    """A data set is one seeded picture and one seeded sound."""

    def load(*args: Any, **options: Any) -> Any:
        import numpy as np
        from PIL import Image

        picture = Image.open(io.BytesIO(_content("x.png")))
        if "mnist" in str(args):
            picture = picture.convert("L").resize((28, 28))
        sound = {"array": np.random.default_rng(0).standard_normal(16000 * 5), "sampling_rate": 16000}
        return Rows({"image": picture, "audio": sound, "text": "a text"})

    datasets.load_dataset = load


def tt_device_(module: Any) -> None:
    """Says when a device has compiled."""
    compile_modules = module.TTDevice.compile_modules

    def compiled(self: Any, *args: Any) -> None:
        compile_modules(self, *args)
        note("compiled")

    module.TTDevice.compile_modules = compiled


HOOKS: dict[str, Callable[[Any], None]] = {
    "torch": torch_,
    "torchvision": torchvision_,
    "timm": timm_,
    "pytorchcv.model_provider": pytorchcv_,
    "segmentation_models_pytorch": segmentation_,
    "transformers": transformers_,
    "requests": requests_,
    "urllib.request": urllib_,
    "datasets": datasets_,
    "opscope.simulator.host.devices.tt_device": tt_device_,
}
"""Module -> what is changed in it once it is imported."""


def _content(url: str) -> bytes:
    if url.endswith("mapping.txt"):  # number and label
        return "\n".join(f"{number}\tlabel {number}" for number in range(1000)).encode()
    if url.endswith((".txt", ".names")):
        return "\n".join(f"label {number}" for number in range(1000)).encode()
    if url.endswith(".json"):
        return json.dumps({str(number): [f"n{number}", f"label {number}"] for number in range(1000)}).encode()
    import numpy as np
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def _write(url: str, path: Any) -> str:
    path = path or url.rpartition("/")[2]
    with open(path, "wb") as file:  # noqa: PTH123 - what the program would have downloaded
        file.write(_content(url))
    return str(path)


class _Hooked(Loader):
    """Imports a module as another loader does, and then changes it."""

    def __init__(self, loader: Any, hook: Callable[[Any], None]) -> None:
        self._loader, self._hook = loader, hook

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._loader.exec_module(module)
        self._hook(sys.modules.get(module.__name__, module))


class _Empty(Loader):
    """A module without names."""

    def create_module(self, spec: Any) -> None:
        """Python makes it."""

    def exec_module(self, module: Any) -> None:
        """Nothing is in it."""


class _Finder(MetaPathFinder):
    """Puts a hook behind the import of each module of `HOOKS`."""

    def __init__(self) -> None:
        self._busy: set[str] = set()

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname not in HOOKS or fullname in self._busy:
            return None
        self._busy.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._busy.discard(fullname)
        if spec is None and fullname == "datasets":  # nothing of it is needed but what the hook puts there
            spec = ModuleSpec(fullname, _Empty())
        if spec is not None and spec.loader is not None:
            spec.loader = _Hooked(spec.loader, HOOKS[fullname])
        return spec


if NOTES:
    sys.meta_path.insert(0, _Finder())
    for _name in set(HOOKS) & set(sys.modules):
        HOOKS[_name](sys.modules[_name])
