"""The errors of the host, each with one line: `<where>: expected X, got Y; try Z`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opscope.base.first_line import first_line


class PyBudaError(RuntimeError):
    """Bad input, or a call that does not fit what was called before."""


class NoMeaningHere(PyBudaError):
    """A name of TT-Buda's that has no meaning for a simulated card."""


class NotThereYet(PyBudaError):
    """A name of TT-Buda's that will have a meaning here and has none so far."""


class DeviceDied(PyBudaError):
    """The process of a device has ended; outputs of the inputs before are in the queue of outputs."""

    reported = False
    """Whether it was raised to whoever asks."""

    def __init__(self, message: str, device: str = "", ending: str = "") -> None:
        """`ending` is how it ended in a word or two: `signal SIGKILL`, `exit 3`."""
        super().__init__(message)
        self.device, self.ending = device, ending


def again(error: BaseException) -> PyBudaError:
    """Returns an error that a run has ended with as one that can be raised to whoever asks, any number of times."""
    if isinstance(error, DeviceDied):
        error.reported = True
        return DeviceDied(str(error), error.device, error.ending)
    return type(error)(str(error)) if isinstance(error, PyBudaError) else PyBudaError(str(error))


@contextmanager
def in_one_line(where: str) -> Iterator[None]:
    """Raises whatever the block raises as one line of PyBudaError that begins with `where`; PyBudaError as it is."""
    try:
        yield
    except PyBudaError:
        raise
    except Exception as error:  # a user's code, or a framework's
        raise PyBudaError(f"{where}: {type(error).__name__}: {first_line(error)}"[:300]) from error


class ImageError(ValueError):
    """A device image that cannot be written, read or run; `<where>: expected X, got Y; try Z` on one line."""
