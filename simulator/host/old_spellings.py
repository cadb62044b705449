"""Names that parameters had in older versions of TT-Buda."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from opscope.simulator.host.errors import PyBudaError

F = TypeVar("F", bound=Callable[..., Any])


def old_spellings(**names: str) -> Callable[[F], F]:
    """Takes parameters by their old names (`num_inputs="input_count"`) too; the signature shows the new ones alone.

    Raises PyBudaError for a parameter under both names, or under none that the function has.
    """

    def wrap(function: F) -> F:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for old, new in names.items():
                if old in kwargs:
                    if new in kwargs:
                        raise PyBudaError(f"{function.__name__}: expected {new} or {old}, got both")
                    kwargs[new] = kwargs.pop(old)
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise PyBudaError(f"{function.__name__}: expected {signature}, got {error}") from None
            return function(*bound.args, **bound.kwargs)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return wrap
