"""What TT-Buda's devices say to their own processes; none of it has a meaning to the processes of devices here."""

from __future__ import annotations

from typing import Any, NoReturn

from opscope.simulator.host.errors import NoMeaningHere

WHY = (
    "a device's process is sent programs and tensors by the pipeline, never a Command of TT-Buda's, which is a pickled "
    "object; try push_to_inputs and run_inference"
)


class ProcessCommands:
    """Methods that each raise NoMeaningHere."""

    name: str

    def push_to_command_queue(self, cmd: Any) -> None:
        """Sends a command."""
        self._none("push_to_command_queue")

    def get_command_queue_response(self) -> None:
        """Reads an answer."""
        self._none("get_command_queue_response")

    def get_next_command(self, command_queue: Any) -> None:
        """Reads a command."""
        self._none("get_next_command")

    def run_next_command(self, cmd: Any) -> None:
        """Runs a command."""
        self._none("run_next_command")

    def dc_transfer_thread(self, direction: str, direction_queue: Any) -> None:
        """Moves data between devices for ever."""
        self._none("dc_transfer_thread")

    def dc_transfer(self, direction: str) -> None:
        """Moves data between devices once."""
        self._none("dc_transfer")

    def run(self, output_dir: str) -> None:
        """Runs commands for ever."""
        self._none("run")

    def _none(self, what: str) -> NoReturn:
        raise NoMeaningHere(f"{self.name}.{what}: expected a name that a simulated card has, got this one: {WHY}")
