"""TT-Buda's commands to a device's process, which a device here carries out in the program's own process."""

from __future__ import annotations

import queue
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NoReturn

WAIT = 0.1
"""Seconds after which who waits for a command looks whether the device is shut down."""

PARAMETERS: dict[str, tuple[str, ...]] = {
    "QUIT": (),
    "RUN_FORWARD": ("loop_count",),
    "RUN_BACKWARD": ("loop_count", "zero_grad"),
    "RUN_OPTIMIZER": (),
    "RUN_SCHEDULERS": (),
    "GET_PARAMETER_CHECKPOINT": (),
    "GET_PARAMETER_GRADIENTS": (),
    "COMPILE": ("inputs", "compiler_cfg", "targets", "microbatch_size", "microbatch_count", "verify_cfg"),
    "UPDATE_DEVICE_PARAMETERS": ("parameters",),
    "GET_QUEUES": ("queue_type",),
    "DC_TRANSFER": ("direction",),
    "CPUEVAL_FORWARD": ("inputs", "parameters", "save_for_backward", "targets"),
    "CPUEVAL_BACKWARD": ("bw_inputs", "parameters"),
    "SYNC": (),
    "RUN_GENERATE": ("loop_count", "write_index", "tokens_per_iter", "token_id"),
}
"""Kind of command -> its parameters. SET_QUEUES and CPUEVAL_LOSS have no meaning here: no queue is shared."""
CommandType: Any = Enum("CommandType", {name: name for name in PARAMETERS})
ANSWERS = {
    "GET_PARAMETER_CHECKPOINT": "checkpoint",
    "GET_PARAMETER_GRADIENTS": "gradients",
    "COMPILE": "outputs",
    "CPUEVAL_FORWARD": "result",
}
"""Kind of command -> the name of its answer."""
DIRECTIONS = ("forward_input", "forward", "target", "backward", "intermediates")


class Command:
    """A command and its parameters; `Command.run_forward(1)` and its like make one of each kind."""

    def __init__(self, command_type: Any, params: dict[str, Any] | None = None) -> None:
        self.command_type, self.params = command_type, params or {}

    def __repr__(self) -> str:
        return f"{self.command_type}: {self.params}"


def _made(kind: str, *values: Any, **named: Any) -> Command:
    return Command(CommandType[kind], dict(zip(PARAMETERS[kind], values, strict=False)) | named)


for _kind in PARAMETERS:
    setattr(Command, _kind.lower(), staticmethod(partial(_made, _kind)))


class Commanded:
    """What a device does with commands: it carries them out one after the other, and keeps the answers in order."""

    name: str
    closed: bool

    def __init__(self) -> None:
        self.command_queue: queue.Queue[Any] = queue.Queue()
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._made: queue.Queue[Any] = queue.Queue()
        """Results of commands that run inputs forward, until a transfer takes them."""

    def push_to_command_queue(self, cmd: Command) -> None:
        """Sends a command, for `run` or `get_next_command`."""
        self.command_queue.put(cmd)

    def get_next_command(self, command_queue: queue.Queue[Any]) -> Command | None:
        """Returns the next command of a queue, when there is one; None once the device is shut down."""
        return self._taken(command_queue)

    def get_command_queue_response(self) -> dict[str, Any] | None:
        """Returns the oldest answer, when there is one; None once the device is shut down."""
        return self._taken(self._answers)

    def run_next_command(self, cmd: Command) -> bool:
        """Carries out a command; returns whether it was the one to quit. Raises PyBudaError."""
        kind = getattr(cmd.command_type, "name", str(cmd.command_type))
        if kind not in PARAMETERS:
            self.refuse(f"a command of {', '.join(PARAMETERS).lower()}", repr(cmd))
        if missing := [name for name in PARAMETERS[kind] if name not in cmd.params]:
            self.refuse(f"{', '.join(missing)} with the command {kind.lower()}", repr(cmd.params))
        result = self._does(kind)(*(cmd.params[name] for name in PARAMETERS[kind]))
        if kind in ANSWERS:
            self._answers.put({ANSWERS[kind]: result})
        elif kind == "SYNC":
            self._answers.put({"sync": True})
        elif kind == "GET_QUEUES":
            self._answers.put(dict(zip(("queues", "tile_broadcast_dims", "original_shapes"), result, strict=True)))
        elif kind == "CPUEVAL_BACKWARD":
            self._answers.put(dict(zip(("input_grads", "params_grads"), result, strict=True)))
        elif kind in ("RUN_FORWARD", "RUN_GENERATE"):
            for outputs in result:
                self._made.put(outputs)
        return kind == "QUIT"

    def dc_transfer(self, direction: str) -> None:
        """Hands the oldest result of a command on, `forward`: to the next device, or as the answer `outputs`.

        Nothing else has to be moved: what is pushed is there, and gradients go along with a backward pass. Raises
        PyBudaError for another direction, or if no result is there.
        """
        if direction not in DIRECTIONS:
            self.refuse(f"a direction of {', '.join(DIRECTIONS)}", repr(direction))
        if direction != "forward":
            return
        if self._made.empty():
            self.refuse("a command that runs inputs forward before a transfer", "none")
        outputs = self._made.get()
        if not self.hand_on(outputs):
            self._answers.put({"outputs": outputs})

    def dc_transfer_thread(self, direction: str, direction_queue: queue.Queue[Any]) -> None:
        """Transfers once for each entry of a queue, until `quit` or a shutdown. Raises PyBudaError."""
        while self._taken(direction_queue) not in ("quit", None):
            self.dc_transfer(direction)

    def run(self, output_dir: str) -> None:
        """Carries out the commands that are sent, until one to quit or a shutdown. `output_dir` is ignored."""
        while (cmd := self._taken(self.command_queue)) is not None:
            if self.run_next_command(cmd):
                break

    def _does(self, kind: str) -> Callable[..., Any]:
        """Returns the method that carries out a kind of command."""
        named = {
            "QUIT": "shutdown_device",
            "COMPILE": "compile_for",
            "GET_QUEUES": "get_dram_io_queues",
            "UPDATE_DEVICE_PARAMETERS": "update_parameters",
            "RUN_OPTIMIZER": "step_optimizers",
            "RUN_SCHEDULERS": "step_schedulers",
        }
        name = named.get(kind, kind.lower().removeprefix("run_"))
        method = getattr(self, name, None)
        if method is None:
            self.refuse(f"a device that has {name}", type(self).__name__)
        return method

    def _taken(self, source: queue.Queue[Any]) -> Any:
        while not self.closed:
            try:
                return source.get(timeout=WAIT)
            except queue.Empty:
                continue
        return None

    def hand_on(self, outputs: list[Any]) -> bool:
        """Pushes results to the device behind; returns whether there is one."""
        raise NotImplementedError

    def refuse(self, expected: str, got: str) -> NoReturn:
        """Raises PyBudaError in its name."""
        raise NotImplementedError
