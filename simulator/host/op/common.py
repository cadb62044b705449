"""The decorator of all ops: resolves operands, names the op, and refuses what JAX refuses in one line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from opscope.base.first_line import first_line
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.parameter import Parameter
from opscope.simulator.host.tensor import Tensor, array_of, is_tensor
from opscope.simulator.host.tracing import MARK, current

F = TypeVar("F", bound=Callable[..., Any])
TILE = 32
"""Rows and columns of a tile."""


def op(function: F) -> F:
    """Makes an op of a JAX function whose first parameter is the op's name.

    Raises PyBudaError for arguments that do not fit, a name that is taken, or operands that JAX refuses.
    """
    kind = function.__name__
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        import jax

        if args and hasattr(args[0], "get_device") and hasattr(args[0], "get_name"):
            args = args[1:]  # the module, in programs of old
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise PyBudaError(f"{kind}: expected {kind}{signature}, got arguments with {error}") from None
        bound.apply_defaults()
        own_name = bound.arguments["name"]
        if not isinstance(own_name, str):
            raise PyBudaError(
                f"{kind}: expected a name first, got {type(own_name).__name__}; try '' for a name of its own"
            )
        trace = current()
        name = trace.name(own_name, kind) if trace else own_name or kind.lower()
        bound.arguments["name"] = name
        for key, value in bound.arguments.items():
            bound.arguments[key] = _resolved(value)
        try:
            with jax.named_scope(f"{MARK}{name}"):
                result = function(*bound.args, **bound.kwargs)
        except PyBudaError as error:
            raise PyBudaError(f"{name}: {error}") from None
        except (TypeError, ValueError, IndexError, ZeroDivisionError) as error:
            line = first_line(error) or type(error).__name__
            raise PyBudaError(f"{name}: expected operands that fit {kind}, got: {line[:200]}") from error
        if trace is not None:
            trace.made(name, result)
        return result

    return call  # type: ignore[return-value]


def named(kind: str, doc: str) -> Callable[[F], F]:
    """Names a function that stands for several ops by the one that is made of it."""

    def rename(function: F) -> F:
        function.__name__ = function.__qualname__ = kind
        # Where pickle finds it: the package has all ops.
        function.__module__, function.__doc__ = "opscope.simulator.host.op", doc
        return function

    return rename


def unary(kind: str, compute: Callable[[Any], Any], doc: str) -> Callable[..., Any]:
    """Makes an op of one operand of a JAX function, with TT-Buda's name of it and of its parameters."""

    @op
    @named(kind, doc)
    def function(name: str, operandA: Any) -> Any:
        return compute(operandA)

    return function


def binary(kind: str, compute: Callable[[Any, Any], Any], doc: str) -> Callable[..., Any]:
    """Makes an op of two operands of a JAX function, as `unary` does of one."""

    @op
    @named(kind, doc)
    def function(name: str, operandA: Any, operandB: Any) -> Any:
        return compute(operandA, operandB)

    return function


def _resolved(value: Any) -> Any:
    """Returns the JAX value of a parameter, a tensor or an array; anything else unchanged."""
    import jax.numpy as jnp

    if isinstance(value, Parameter):
        trace = current()
        if trace is not None and id(value) in trace.values:
            return trace.values[id(value)]
        return jnp.asarray(array_of(value.value()))
    if hasattr(value, "aval"):  # JAX's own, and what records a trace
        return value
    if isinstance(value, Tensor) or is_tensor(value):
        return jnp.asarray(array_of(value))
    if isinstance(value, tuple) and any(isinstance(v, Parameter | Tensor) or is_tensor(v) for v in value):
        return tuple(_resolved(v) for v in value)
    return value


def axis_of(dim: int, rank: int) -> int:
    """Returns `dim` counted from the front. Raises PyBudaError if there is no such dimension."""
    if not isinstance(dim, int) or not -rank <= dim < rank:
        raise PyBudaError(f"expected a dim from {-rank} to {rank - 1}, got {dim!r}")
    return dim % rank


def several(value: Any, count: int, what: str) -> tuple[int, ...]:
    """Returns a size per dimension, of one number for all or one for each. Raises PyBudaError."""
    if isinstance(value, int):
        return (value,) * count
    values = tuple(int(v) for v in value)
    if len(values) != count:
        raise PyBudaError(f"expected {what} of one or {count} numbers, got {list(values)}")
    return values


def dtype_name(dtype: Any) -> str:
    """Returns NumPy's name of a type that NumPy, JAX or PyTorch gave: `torch.int8` is `int8`."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]
