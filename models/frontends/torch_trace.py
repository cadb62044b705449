"""Turns a PyTorch module into a function of JAX arrays.

Imports torch and torchax.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch._ops import OpOverloadPacket

from opscope.models.frontends.torch_modules import Called

if TYPE_CHECKING:
    from opscope.models.frontends.torch import TorchBuilt

Call = Callable[[Mapping[str, Any], Sequence[Any]], tuple[Any, ...]]
"""From weights by name and inputs in order to the results."""


@contextlib.contextmanager
def _renamed_overloads() -> Iterator[None]:
    """Replaces missing overloads by others of the same op: torchax registers lowerings for overloads on named tensors,
    which newer versions of torch lack and no module can reach."""
    original = OpOverloadPacket.__getattr__

    def get_overload(self: Any, key: str) -> Any:
        try:
            return original(self, key)
        except AttributeError:
            if "imname" in key or "names" in key:
                return getattr(self, self.overloads()[0])
            raise

    OpOverloadPacket.__getattr__ = get_overload
    try:
        yield
    finally:
        OpOverloadPacket.__getattr__ = original


with _renamed_overloads():
    import jax
    import torchax
    import torchax.decompositions  # at the first trace it would be too late
    from torchax.interop import JittableModule
    from torchax.ops import mappings

    from opscope.models.frontends import torch_environment

# An op comes from the model's own line, not from the file that lowers it.
_HIDDEN = [str(Path(str(module.__file__)).parent) for module in (torch, torchax)]
with contextlib.suppress(ImportError):
    from jax.extend import source_info_util

    for _folder in (*_HIDDEN, str(Path(__file__).parent)):
        source_info_util.register_exclusion(_folder)


def by_trace(module: torch.nn.Module, built: TorchBuilt) -> Call:
    """JAX runs the module's own Python on tensors that record what is done to them."""
    environment = torch_environment.environment()
    jittable: Any = JittableModule(Called(module, built), dedup_parameters=True)
    computed = {name: value for name, value in jittable.buffers.items() if value.device.type != "meta"}
    constants = {name: mappings.t2j(value) for name, value in computed.items()}
    parameters = set(jittable.params)

    def call(weights: Mapping[str, Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        named = {f"module.{name}": value for name, value in weights.items()}
        params = {name: value for name, value in named.items() if name in parameters}
        buffers = constants | {name: value for name, value in named.items() if name not in parameters}
        p, b, a = cast("tuple[Any, Any, Any]", environment.j2t_iso((params, buffers, list(inputs))))
        with environment, _scopes(module):
            results = jittable.functional_call("forward", p, b, *a)
        return tuple(cast("list[Any]", environment.t2j_iso(list(results))))

    return call


@contextlib.contextmanager
def _scopes(module: torch.nn.Module) -> Iterator[None]:
    """Within this context, the locations of ops contain the path of their module."""
    names = {id(child): name.rsplit(".", 1)[-1] for name, child in module.named_modules() if name}
    original = torch.nn.Module.__call__

    def named(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        name = names.get(id(self))
        with jax.named_scope(name) if name else contextlib.nullcontext():
            return original(self, *args, **kwargs)

    torch.nn.Module.__call__ = named
    try:
        yield
    finally:
        torch.nn.Module.__call__ = original
