"""A PyTorch module in eager mode, on given weights and inputs. Imports torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from opscope.models.frontends.jax import package_versions

NO_TRAINING = "its training step is JAX's: PyTorch has no other to compare it with"


def results(
    called: torch.nn.Module, inputs: Sequence[str], names: Mapping[str, str], values: Mapping[str, np.ndarray]
) -> tuple[str, list[np.ndarray]]:
    """PyTorch's version and the results of `called` (`torch_modules.Called`) on its `inputs`, in order.

    `names` has PyTorch's name of each weight within the module, by the name of its argument.
    """
    state = {f"module.{name}": tensor(values[label]) for label, name in names.items()}
    with torch.no_grad():
        outputs = torch.func.functional_call(called, state, tuple(wide(tensor(values[name])) for name in inputs))
    return package_versions(("torch",)), [array(each) for each in outputs]


def wide(value: torch.Tensor) -> torch.Tensor:
    """An input with the integers that PyTorch indexes by: 64 bits, of which JAX has 32."""
    return value.long() if value.dtype is torch.int32 else value


def tensor(value: np.ndarray) -> torch.Tensor:
    """A NumPy array as a tensor of its own memory."""
    value = np.array(value)
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)


def array(value: torch.Tensor) -> Any:
    """A tensor as a NumPy array; bfloat16, which NumPy lacks, as float32."""
    value = value.detach().cpu()
    return (value.float() if value.dtype is torch.bfloat16 else value).numpy()
