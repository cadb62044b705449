"""Sets options with errors of the API's own: one line that begins with where they were set."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from opscope.compiler.api import CompilerInputError, Configuration
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.query import NodePredicateBuilder


def checked(where: str, configuration: Configuration, options: Mapping[str, Any]) -> list[warnings.WarningMessage]:
    """Sets options; returns warnings of those without effect. Raises PyBudaError that begins with `where`."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            configuration.set_configuration_options(**options)
    except CompilerInputError as error:
        raise PyBudaError(f"{where}: {error}") from None
    return caught


def named_ops(where: str, ops: Any) -> list[Any]:
    """Returns names of ops and predicates of them as a list. Raises PyBudaError."""
    listed: Iterable[Any] = ops if isinstance(ops, list | tuple) else [ops]
    made = list(listed)
    for op in made:
        if not isinstance(op, str | NodePredicateBuilder):
            raise PyBudaError(f"{where}: expected names of ops or predicates of pybuda.query, got {op!r}")
    return made
