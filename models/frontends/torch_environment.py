"""torchax's environment, in which tensors that a module makes itself meet those that are traced.

A tensor of `torch.arange`, of `torch.tensor` or of an attribute that is no buffer stays PyTorch's: Python may read it
(`.item()`, `range(n)`), and where it meets a traced one it is a constant. What a module makes in order to write into
it (`torch.zeros`, ...) is traced from the start. Imports torch and torchax.
"""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
from torch.utils import _mode_utils as modes
from torch.utils import _pytree as pytree
from torchax.tensor import TENSOR_CONSTRUCTORS, Environment, Tensor
from torchax.view import View

from opscope.models.frontends import torch_eager

WRITTEN_INTO = frozenset({torch.zeros, torch.ones, torch.empty, torch.full})
"""Constructors of tensors that are filled afterwards."""


@functools.cache
def environment() -> TracingEnvironment:
    """The one of this process."""
    return TracingEnvironment()


class TracingEnvironment(Environment):
    """Takes PyTorch's own tensors as constants. Refuses to write traced values into one, which nobody would see."""

    def _handle_tensor_constructor(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if func in WRITTEN_INTO and str(kwargs.get("device") or "cpu") == "cpu":
            kwargs = {**kwargs, "device": "jax"}
        return super()._handle_tensor_constructor(func, args, kwargs)

    def dispatch(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """The result of an op. Raises TypeError if it writes what is traced into a tensor that is not.

        A factory that torchax does not know (`torch.hann_window`, `torch.fft.fftfreq`, ...) is PyTorch's own, whatever
        its device: what it makes is a constant.
        """
        if func is torch.Tensor.type and _traced(args[0]):
            return _typed(*args, **(kwargs or {}))
        if self._makes_constant(func, args, kwargs or {}):
            with modes.no_dispatch(), torch._C.DisableTorchFunction():
                made = func(*args, **{**(kwargs or {}), "device": "cpu"})
            return Tensor(_constant(made), self)
        if isinstance(func, torch._ops.OpOverload) and func._schema.is_mutable:
            tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
            if any(map(_traced, tensors)) and any(map(_plain, _written(func, args, kwargs or {}))):
                raise TypeError(
                    f"{func.overloadpacket}: expected a tensor of the inputs' device to write into, got one of the "
                    "processor; try device=x.device where it is made"
                )
        return super().dispatch(func, types, args, kwargs)

    def _makes_constant(self, func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        factory = not isinstance(func, torch._ops.OpOverload) and func not in TENSOR_CONSTRUCTORS
        asked = factory and kwargs.get("device") is not None and self._should_use_torchax_tensor(kwargs["device"])
        return asked and not any(isinstance(x, torch.Tensor) for x in pytree.tree_leaves((args, kwargs)))

    def t2j_iso(self, torchtensors: Any) -> Any:
        """JAX's arrays of tensors; PyTorch's own ones are constants."""
        return super().t2j_iso(pytree.tree_map_only(torch.Tensor, self._as_traced, torchtensors))

    def _as_traced(self, tensor: torch.Tensor) -> torch.Tensor:
        return Tensor(_constant(tensor), self) if _plain(tensor) else tensor


def _typed(tensor: torch.Tensor, dtype: Any = None, **_how: Any) -> Any:
    """The name of a tensor's type (`torch.FloatTensor`), or the tensor in another type: of the processor's tensors, for
    one of which a traced one stands."""
    with modes.no_dispatch(), torch._C.DisableTorchFunction():
        own = torch.empty(0, dtype=tensor.dtype)
        if dtype is None:
            return own.type()
        wanted = own.type(dtype).dtype
    return tensor.to(wanted)


def _type_as(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """torchax's own converts the tensor itself, and takes none of PyTorch's."""
    return tensor.to(other.dtype)


Tensor.type_as = _type_as


def _traced(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, Tensor | View)


def _plain(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and not _traced(tensor)


def _written(func: torch._ops.OpOverload, args: Any, kwargs: dict[str, Any]) -> list[Any]:
    """The arguments that an op changes in place."""
    named = {a.name: value for a, value in zip(func._schema.arguments, args, strict=False)} | kwargs
    changed = [a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    return pytree.tree_leaves([named.get(name) for name in changed])


def _constant(tensor: torch.Tensor) -> Any:
    """A copy, since the module may go on to change its tensor. One without dims does not widen what it meets."""
    with modes.no_dispatch(), torch._C.DisableTorchFunction():
        if tensor.ndim == 0 and tensor.dtype in (torch.float32, torch.float64, torch.int64):
            return jnp.asarray(tensor.item())
        array = np.array(torch_eager.array(tensor))
        return jnp.asarray(array, jnp.bfloat16 if tensor.dtype is torch.bfloat16 else None)
