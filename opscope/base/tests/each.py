"""Cases of one test where each takes less than pytest takes to run a test: they are run in one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def each(names: str | Iterable[str], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, in one test, whose failure names the case; those after it are not run.

    Not for cases that skip, and for none that would see what another has left in a fixture.
    """
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    given = [dict(zip(split, (case,) if len(split) == 1 else case, strict=True)) for case in cases]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def together(*words: Any, **fixtures: Any) -> None:
            for case in given:
                try:
                    test(*words, **fixtures, **case)
                except BaseException as error:
                    error.add_note("where " + ", ".join(f"{name} = {value!r}" for name, value in case.items()))
                    raise

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in split]
        together.__dict__["__signature__"] = signature.replace(parameters=left)
        return together

    return decorate
