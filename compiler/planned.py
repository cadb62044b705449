"""What a compilation with a netlist becomes for those who run it: binaries, and what leads from one to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opscope.compiler.target.queue_content import QueueContent
    from opscope.compiler.translations.ttir_to_graph.host import HostPart


@dataclass(frozen=True)
class PlannedModule:
    """A compilation that has a netlist, as what runs it without the compiler needs it: bytes, names and shapes."""

    name: str
    host: bytes
    """The host's part as a binary: from the module's arguments to the contents of queues, then `host_results`."""
    program: bytes
    """The placed program as a binary: from the contents of `queues` to the results of the device."""
    contents: tuple[QueueContent, ...]
    """What the results of the host's part are in queues, in order."""
    queues: tuple[str, ...]
    """The queues that are the inputs of the placed program, in order."""
    arguments: tuple[tuple[tuple[int, ...], str], ...]
    """Shape and element type of each of the module's arguments."""
    results: tuple[tuple[tuple[int, ...], str], ...]
    """Shape and element type of each of the module's results, and behind them of `saved`."""
    saved: tuple[str, ...]
    """Names of the results of ops that `op_intermediates_to_save` adds."""
    device_results: tuple[int, ...]
    """The numbers of the results that the device computes, in the order of its outputs."""
    host_results: tuple[int, ...]
    """The numbers of the results that the host's part computes, in order."""
    netlist: str
    options: dict[str, Any]
    """The compile options that were set."""
    stablehlo: bytes
    """The module as a portable artifact, or as bytecode if it has ops that have no portable form."""
    backend_files: dict[str, str]
    """What TT-Buda's back end would compile for the cores: path -> text (`opscope plan --backend-output`)."""


@dataclass(frozen=True)
class PlannedParts:
    """The binaries of a planned program, in the order in which they run, and what leads from one to the next."""

    once: bytes
    """What the host computes of parameters and constants alone, for the board n150."""
    each: bytes
    """What the host computes for each input, for the board n150."""
    device: bytes
    rest: bytes | None
    """What the host computes after the device has run: of the arguments and of `rest_inputs`, for the board n150."""
    fill_once: HostPart
    fill_each: HostPart
    """From the results of the host's parts to the contents of the device's queues."""
    sources: tuple[str, ...]
    """The queues that are the device's inputs, in order."""
    outputs: tuple[str, ...]
    """The queues that are the device's outputs, in order."""
    results: tuple[tuple[str, tuple[int, ...], str], ...]
    """Each result of the program: the device's output that holds it ('' if the host computes it), shape, MLIR type.

    Behind them are the results of ops that `op_intermediates_to_save` adds."""
    saved: int
    """How many these are."""
    rest_results: tuple[int, ...]
    """The numbers of the results that the rest computes, in order."""
    rest_inputs: tuple[tuple[str, tuple[int, ...], str], ...]
    """Outputs of the device that the rest takes, with shapes and MLIR types."""
