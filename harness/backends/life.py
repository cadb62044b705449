"""The life of a backend: `load`, then in each lane `open`, `fingerprint`, `warm_up`, ops, `close`.

The only place that knows in which order its methods are called, that older classes take no options, and what an
exception of one means.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from opscope.harness.backends import compiler_commits, registry
from opscope.harness.backends.base import Backend, BackendError, StageError
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.verdict.target import Target

FAULTS_OF_CODE = (AttributeError, NameError, ImportError)
"""What the code of a backend raises where it is wrong itself, whatever the op."""


MISSING = "a missing requirement"


class Opened(NamedTuple):
    """What a backend has reported once it is open."""

    target: Target
    fingerprint: str
    versions: dict[str, str]
    commit: dict[str, str]
    """Its own commit: `revision`, `dirty`, `url`; or the `problem` that kept it from naming one."""


def load(name: str) -> Backend:
    """Imports a backend and has it load its libraries. Raises InputError if it cannot work here."""
    with as_input_error(name, "a backend that can be imported"):
        backend = registry.load(name)
        missing = backend.available()
    if missing:
        raise InputError(f"--backend {name}", "a backend that works here", MISSING, missing)
    with as_input_error(name, "load() without an error"):
        backend.load()
    return backend


def open_(name: str, backend: Backend, options: ResultOptions) -> Opened:
    """Opens a loaded backend in a lane. Raises InputError if it refuses an option, or cannot work here."""
    with as_input_error(name, "target() without an error"):
        target = backend.target(options)
        if not isinstance(target, Target):
            raise TypeError(f"target() returned {type(target).__name__}, not a Target")
    with as_input_error(name, "open() without an error"):
        backend.open(options)
    with as_input_error(name, "fingerprint() without an error"):
        fingerprint = with_options(backend.fingerprint, options)
        if not isinstance(fingerprint, str):
            raise TypeError(f"fingerprint() returned {fingerprint!r}, not a text")
        fingerprint = fingerprint or str(backend.name)
    warm_up(name, backend, options)
    with as_input_error(name, "versions() without an error"):
        versions = {str(part): str(version) for part, version in backend.versions().items()}
    return Opened(target, fingerprint, versions, own_commit(name, backend))


def own_commit(name: str, backend: Backend) -> dict[str, str]:
    """The commit that a backend names as its compiler's (`compiler_commits.named`)."""
    return compiler_commits.named(name, lambda: _own(backend, "revision"), lambda: _own(backend, "repository"))


def _own(backend: Backend, name: str) -> Any:
    """What an attribute, a property or a method says; empty where the class, which may have no base, has none."""
    if inspect.getattr_static(backend, name, None) is None:
        return ""
    own = getattr(backend, name)  # without a default: it would hide what a property raises
    return own() if callable(own) else own


def warm_up(name: str, backend: Backend, options: ResultOptions) -> None:
    """Has a backend do its one-time work. Raises InputError if it cannot.

    A stage that refuses the op of a warm-up is only logged: ops will say so, each with its stage.
    """
    with as_input_error(name, "warm_up() without an error"):
        try:
            with_options(backend.warm_up, options)
        except StageError:
            traceback.print_exc()


def close(backend: Backend) -> None:
    """Closes a backend. What it raises is only logged: all its ops have their records."""
    try:
        backend.close()
    except Exception:  # noqa: BLE001  a library may raise anything
        traceback.print_exc()


def with_options(method: Any, options: ResultOptions) -> Any:
    """Calls a method with the options, or without them where it takes none, as in classes for earlier versions."""
    try:
        parameters = list(inspect.signature(method).parameters.values())
    except (TypeError, ValueError):
        return method(options)
    takes = any(parameter.kind is not parameter.KEYWORD_ONLY for parameter in parameters)
    return method(options) if takes else method()


@contextlib.contextmanager
def as_input_error(name: str, expected: str) -> Iterator[None]:
    """Turns whatever a step of the backend `name` raises into an InputError of one line; the log gets the traceback."""
    try:
        yield
    except InputError:
        raise
    except BackendError as error:
        raise refused(name, error) from error
    except Exception as error:
        traceback.print_exc()
        text = " ".join(str(error).split())
        got = f"{type(error).__name__}: {text}" if text else type(error).__name__
        raise InputError(f"--backend {name}", expected, got, _doctor(name)) from error


def fault_of_code(backend: Backend, error: Exception) -> BackendError | None:
    """What ends the run where a user's own backend fails for a fault in its own file, which says nothing of the op.

    What a compiler raises that it calls is the op's verdict, and so is what a backend of this project raises, but for a
    library that cannot be loaded: there is no memory for it, or it is not installed as it should be.
    """
    if isinstance(error, ImportError) and type(backend).__module__.startswith("opscope."):
        hint = "`ulimit -v unlimited`"
        return BackendError(f"{type(error).__name__}: {error}", "libraries that can be loaded", hint)
    modules = {each.__module__ for each in type(backend).__mro__ if not each.__module__.startswith("opscope.")}
    files = {getattr(sys.modules.get(name), "__file__", None) for name in modules}
    frames = traceback.extract_tb(error.__traceback__)
    if not isinstance(error, FAULTS_OF_CODE) or not frames or frames[-1].filename not in files:
        return None
    traceback.print_exception(error)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"
    return BackendError(f"{type(error).__name__} at {place}: {error}", "a backend without faults of its own")


def refused(name: str, error: BackendError) -> InputError:
    """The line with which a run ends whose backend cannot work here."""
    expected, got, hint = (" ".join(part.split()) for part in (error.expected, error.got, error.hint))
    return InputError(f"--backend {name}", expected, got, hint or _doctor(name))


def _doctor(name: str) -> str:
    return f"`opscope doctor --backend {name}`"
