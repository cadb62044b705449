"""One call of a Python function in a child process, with a deadline, a memory limit and progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opscope.base.children.child import CappedLog
from opscope.base.children.ending import Cause, ChildEnded, Deadline, Ending
from opscope.base.children.frames import RETURNED, Message

if TYPE_CHECKING:
    from typing import Unpack

    from opscope.base.children.child import ChildOptions
    from opscope.base.children.process import Local


@dataclass(frozen=True)
class Outcome:
    """The outcome of a call."""

    ending: Ending
    log: CappedLog
    """What the child printed; its last lines are in memory."""
    result: Any = None
    """What the function returned, after a round trip through JSON."""


def call(
    function: str | Local,
    task: Message,
    *,
    seconds: float | None = None,
    memory: int | None = None,
    on_message: Callable[[Message], None] | None = None,
    watch: Callable[[], None] | None = None,
    **options: Unpack[ChildOptions],
) -> Outcome:
    """Runs `function`, written `package.module:name`, in its own child process until it ends.

    The function takes an `inside.Parent`: it receives `task` from it and may send messages, which are passed to
    `on_message`. Its return value must be JSON. The child is ended after `seconds`, or once it and its descendants hold
    more than `memory` bytes. `watch` is called about twenty times a second and may raise ChildEnded. Raises any other
    exception of `on_message` and `watch`; the child never outlives this call. `options` and a `Local` function are as
    for `Child`. If no process can be started, for want of files or processes, the outcome says so.
    """
    from opscope.base.children.child import Child  # a run in which nothing changed has no child

    deadline = Deadline(seconds)
    try:
        started = Child(function, memory=memory, **options)
    except OSError as error:
        printed = options.get("log") or CappedLog(None)
        printed.write(f"no process could be started: {error}\n".encode())
        return Outcome(Ending(Cause.EXIT, f"could not be started: {error}", 1), printed)
    with started as child:
        child.send(task)
        try:
            while True:
                message = child.receive(deadline, watch)
                if RETURNED in message:
                    return Outcome(Ending(Cause.RETURNED, "returned"), child.log, message[RETURNED])
                if on_message is not None:
                    on_message(message)
                child.check(deadline, watch)
        except ChildEnded as ended:
            return Outcome(ended.ending, child.log)
        finally:
            child.log.close()
