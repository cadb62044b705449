"""`opscope simulate FILE.ttnn`: runs a device binary on a simulated card and shows its cost and its results."""

from __future__ import annotations

import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opscope.base import regular_file
from opscope.base.model_files import ModelFiles
from opscope.base.page import Page
from opscope.simulator.counters import moved_line
from opscope.simulator.modelled import record_error

if TYPE_CHECKING:
    import numpy as np

    from opscope.simulator.device import Device, Executable, RunResult
    from opscope.simulator.dumping import Dump, Goldens
    from opscope.simulator.faults.injection import Injection
    from opscope.simulator.non_finite import NonFinite
    from opscope.simulator.profile import OpCost
    from opscope.simulator.timing.events.recording import Recording

DRAWN = "inputs were drawn, which a deep model may magnify beyond its formats; try --inputs with a model's own"
MOST_ROWS = 40
"""Operations that the table shows, the dearest of them; `--all` shows each."""


class InputProblem(click.ClickException):
    """Bad input: one line, exit code 2."""

    exit_code = 2


@click.command("simulate", short_help="Run a device binary on a simulated card: cycles, tensors, hardware faults.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--inputs", type=click.Path(path_type=Path), help=".npz with the inputs, in order; default: drawn.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Draws the inputs not given.")
@click.option("--outputs", type=click.Path(path_type=Path), help=".npz to write the results to.")
@click.option("--board", help="Board to simulate; default: the one that the binary was compiled for.")
@click.option(
    "--profile",
    type=click.Choice(["ttnn", "buda"]),
    help="Whose figures of grid and memory hold; default: ttnn's, and buda's for what a plan places.",
)
@click.option("--per-core", is_flag=True, help="Make each result core by core, by the plan if there is one.")
@click.option(
    "--exact-order",
    is_flag=True,
    help="Compute products, sums, functions, softmax and norms in the steps of ttnn's own kernels (slow).",
)
@click.option(
    "--stochastic-rounding",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="The packer rounds by random bits; NumPy's, of this seed.",
)
@click.option(
    "--memory-map",
    type=click.Path(path_type=Path),
    metavar="STEM",
    help="If it does not fit: write STEM.txt and STEM.svg, what lies where.",
)
@click.option("--dump", type=click.Path(path_type=Path), help="New folder for the results of each operation, as .npy.")
@click.option(
    "--golden",
    metavar="MODEL",
    help="With --dump: the StableHLO file that the binary was compiled from; XLA's value of each op is written, too.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="FAULT",
    help="A hardware fault, several if given again: l1-bit@ROW-COL,ADDRESS,BIT, dram-bit@CHANNEL,ADDRESS,BIT, "
    "dead-core@ROW-COL, stuck-link@ROW-COL,east|south, slow-channel@CHANNEL=xN.",
)
@click.option("--timed", is_flag=True, help="Time the program by events: threads, buffers, NoC, DRAM channels.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    help="With --timed: file for a trace that Perfetto opens; a page is written beside it, as .html.",
)
@click.option(
    "--max-events", type=click.IntRange(min=1), help="With --timed: stop after so many events. [default: 20000000]"
)
@click.option("--all", "every", is_flag=True, help="Show every operation, in order.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def simulate(ctx: click.Context, **given: Any) -> None:
    """Run a device binary FILE.ttnn, also a planned one, on a simulated card.

    Prints the shapes of its results, its operations with their cycles, and the operation in which the first NaN or Inf
    arises. With --fault it runs twice, without and with the faults, and says what they hit and which results they
    change; the exit code is 1 if the device hangs. With --timed, a run that stops at --max-events is marked partial.
    """
    from opscope.compiler.target.binary import BinaryError
    from opscope.simulator.__main__ import write_map
    from opscope.simulator.errors import DeviceError, OutOfMemory

    asked = _Asked(**given)
    asked.check()
    try:
        run, counted = _simulated(asked, ctx.find_object(ModelFiles))
    except (DeviceError, BinaryError, ValueError, OSError) as error:
        stem = asked.memory_map
        refused = write_map(stem, error) if stem and isinstance(error, OutOfMemory) else ""
        raise InputProblem(" ".join(f"{error}{refused and f'; {refused}'}".split())) from error
    except MemoryError as error:
        raise InputProblem(f"{asked.file}: expected tensors that this machine can hold, got: {error}") from error
    summary = run.summary(counted)
    if asked.inputs is None and summary["non_finite"]:
        summary["non_finite"].append(DRAWN)
    if asked.as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.simulate import Hung, Simulated

        print_answer(Hung(**summary) if run.result is None else Simulated(**summary), indent=None)
    else:
        _show(run, summary, asked.every)
    if run.hang:
        ctx.exit(1)


@dataclass(frozen=True)
class _Asked:
    """The arguments of the command."""

    file: Path
    inputs: Path | None
    seed: int
    outputs: Path | None
    board: str | None
    profile: str | None
    per_core: bool
    exact_order: bool
    stochastic_rounding: int | None
    memory_map: Path | None
    dump: Path | None
    golden: str | None
    faults: tuple[str, ...]
    timed: bool
    trace: Path | None
    max_events: int | None
    every: bool
    as_json: bool

    def check(self) -> None:
        """Refuses options that need another one, and paths that cannot be files."""
        if self.golden and self.dump is None:
            got = f"got {self.golden}; try --dump"
            raise InputProblem(f"--golden: expected --dump, whose folder goldens are written to, {got}")
        if self.outputs is not None and not self.outputs.parent.is_dir():
            raise InputProblem(f"--outputs: expected a file in a folder that is there, got {self.outputs}")
        for name, value in (("--trace", self.trace), ("--max-events", self.max_events)):
            if value is not None and not self.timed:
                got = f"got {value} without it; try --timed"
                raise InputProblem(f"{name}: expected --timed, which simulates events, {got}")
        if self.trace is None:
            return
        page = self.trace.with_suffix(".html")
        if self.trace == page:
            json = self.trace.with_suffix(".json")
            raise InputProblem(f"--trace: expected a file for JSON, got {self.trace}; try {json}")
        for path in (self.trace, page):
            if not path.parent.is_dir() or (path.exists() and not path.is_file()):
                raise InputProblem(f"--trace: expected a file in a folder that is there, got {path}; try trace.json")


@dataclass(frozen=True)
class _Run:
    """A run of a binary on a card, and what has watched it."""

    device: Device
    executable: Executable
    result: RunResult | None
    """None if the device hangs."""
    hang: str
    watch: NonFinite
    injection: Injection | None
    right: RunResult | None
    """The result without the faults of `injection`."""
    writer: Dump | None
    recording: Recording | None
    """Of its events, if it was timed by them."""

    def summary(self, counted: dict[str, Any]) -> dict[str, Any]:
        """What the run gave, as JSON; `counted` are the counters of its result."""
        summary: dict[str, Any] = {"card_type": self.device.card_type, "non_finite": self.watch.lines()}
        if self.writer is not None:
            summary["dump"] = str(self.writer.folder)
        if self.injection is not None:
            summary["faults"] = self.injection.lines()
        if self.hang:
            summary["hang"] = self.hang
        if self.result is not None:
            summary |= _figures(self.result)
            if self.right is not None:
                pairs = zip(self.right.outputs, self.result.outputs, strict=True)
                summary["changed"] = [_changed(right, got) for right, got in pairs]
            summary |= counted
        if self.recording is not None:
            summary |= {
                "partial": self.recording.partial,
                "events": self.recording.events,
                "event_seconds": round(self.recording.seconds, 3),
                "notes": self.recording.notes,
            }
        return summary


def _simulated(asked: _Asked, files: ModelFiles | None) -> tuple[_Run, dict[str, Any]]:
    """Runs the binary and writes the files that were asked for; returns the run and its counters.

    Raises what the binary, the card or a file is refused with.
    """
    from opscope.compiler.target.binary import read
    from opscope.simulator.counters import counters
    from opscope.simulator.device import Device
    from opscope.simulator.dumping import Dump
    from opscope.simulator.errors import DeviceHang
    from opscope.simulator.faults.fault import parse
    from opscope.simulator.faults.injection import Injection
    from opscope.simulator.non_finite import NonFinite
    from opscope.simulator.observing import all_of

    wanted = [parse(text) for text in asked.faults]
    binary = read(_bytes(asked.file))
    model = None
    if asked.timed:
        from opscope.simulator.timing.timed import MAX_EVENTS, Timed

        model = Timed(asked.max_events or MAX_EVENTS)

    def card() -> Device:
        """A card of its own draws the same random bits."""
        return Device(
            asked.board or binary.board,
            profile=asked.profile,
            exact_order=asked.exact_order,
            stochastic_seed=asked.stochastic_rounding,
            timing=model,
        )

    device = card()
    executable = device.load_decoded(binary)
    injection = Injection(card().load_decoded(binary), wanted) if wanted else None
    _ = executable.memory  # what does not fit is refused before inputs are drawn or read
    arrays = _inputs(executable, asked.inputs, asked.seed)
    writer = None
    if asked.dump is not None:
        about = {"binary": asked.file.name, "card": device.card_type, "faults": list(asked.faults)}
        writer = Dump(asked.dump, about, _goldens(files, asked.golden, executable, arrays))
    right = executable.run(arrays, per_core=asked.per_core) if injection else None
    run_by, watch, result, hang = injection.executable if injection else executable, NonFinite(), None, ""
    observers = [*([injection.observe] if injection else []), watch.observe, *([writer.observe] if writer else [])]
    try:
        result = run_by.run(arrays, per_core=asked.per_core, observe=all_of(observers))
    except DeviceHang as error:
        hang = str(error)
    finally:
        if writer is not None:
            writer.close()
    recording = model.recording if model is not None else None
    counted = asdict(counters((result or executable).profile, device.system, executable.cores))
    run = _Run(device, executable, result, hang, watch, injection, right, writer, recording)
    _write(asked, run, counted)
    return run, counted


def _write(asked: _Asked, run: _Run, counted: dict[str, Any]) -> None:
    """Writes results and trace to the files that were asked for."""
    if asked.outputs is not None and run.result is not None:
        _save(asked.outputs, run.result.outputs)
    if asked.trace is not None and run.recording is not None:
        from opscope.simulator.timing.trace import write_trace
        from opscope.simulator.timing.trace_page import write_page

        write_trace(asked.trace, run.recording, counted)
        write_page(asked.trace.with_suffix(".html"), run.recording, run.device.card_type, counted)


def _bytes(file: Path) -> bytes:
    try:
        return regular_file.read_bytes(file)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputProblem(f"{file}: expected a binary, got: {reason}; try `opscope compile`") from error


def _inputs(executable: Executable, path: Path | None, seed: int) -> list[np.ndarray]:
    """The arrays of the archive, or arrays drawn for the program: normal floats, small integers, booleans."""
    import numpy as np

    from opscope.compiler.target.formats import host_dtype
    from opscope.simulator.__main__ import load_arrays

    if path is not None:
        try:
            regular_file.check(path)
            return load_arrays(path, executable)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            got = " ".join(str(error).split())[:120]
            raise InputProblem(f"{path}: expected an .npz of arrays, got: {got}; try numpy.savez") from error
    # Parameters of a plan as a model's are at its start: others would grow from layer to layer, beyond any format.
    ram = {queue.tensor for queue in executable.plan.queues if queue.kind == "ram"}
    moves = (op for op in executable.program.operations if op.kernel == "to_device")
    parameters = {op.inputs[0] for op in moves if op.outputs[0] in ram}
    random, drawn = np.random.default_rng(seed), []
    for tensor in executable.program.inputs:
        desc = executable.program.tensors[tensor]
        dtype = host_dtype(desc.element_type)
        if dtype == np.bool_:
            drawn.append(random.integers(0, 2, desc.shape).astype(bool))
        elif dtype.kind in "iu":
            drawn.append(random.integers(0, 2, desc.shape).astype(dtype))
        else:
            normal = np.asarray(random.standard_normal(desc.shape))
            if tensor in parameters and len(desc.shape) > 1:
                normal /= np.sqrt(desc.shape[-2])
            drawn.append(normal.astype(dtype))
    return drawn


def _goldens(
    files: ModelFiles | None, model: str | None, executable: Executable, arrays: list[np.ndarray]
) -> Goldens | None:
    """Goldens of operations by the command line's reader of models; None without `--golden`."""
    from opscope.simulator.kernels import KERNELS
    from opscope.simulator.operation_run import MOVING

    if not model:
        return None
    if files is None or files.goldens is None:
        raise InputProblem("--golden: expected the command `opscope simulate`, which has XLA, got a bare call")
    operations, computed = [], []
    for number, program in enumerate(executable.programs.values()):
        for op in program.operations:
            if KERNELS[op.kernel].unit not in MOVING or op.kernel not in ("to_device", "from_device", "to_layout"):
                operations.append(op)
                descs = [program.tensors[tensor] for tensor in op.outputs]
                computed.append((number, op.location, [(desc.shape, desc.element_type) for desc in descs]))
    golden_of = files.goldens(model, arrays, computed)
    numbers = {id(op): number for number, op in enumerate(operations)}

    def goldens(op: Any) -> Any:
        number = numbers.get(id(op))
        return "only moves data between host and device" if number is None else golden_of(number)

    return goldens


def _save(path: Path, arrays: list[np.ndarray]) -> None:
    import numpy as np

    named: dict[str, Any] = {f"output_{number}": array for number, array in enumerate(arrays)}
    np.savez(path, **named)


def _figures(result: RunResult) -> dict[str, Any]:
    """Cycles, peaks of memory, and the shapes of the results."""
    profile = result.profile
    return {
        "cycles": profile.total_cycles,
        "device_ns": profile.device_ns,
        "l1_peak_bytes": profile.l1_peak_bytes,
        "dram_peak_bytes": profile.dram_peak_bytes,
        "results": [{"shape": list(a.shape), "element_type": a.dtype.name} for a in result.outputs],
        "ops": [op.figures() for op in profile.ops],
    }


def _error_of(op: OpCost, executable: Executable) -> str:
    """How far the cycles of an op that no plan places may be from a card's, by its kind."""
    if not op.cycles or executable.plan.ops:
        return ""
    return f"{record_error(op.kernel, executable.device.system.arch):g} %"


def _changed(right: np.ndarray, got: np.ndarray) -> int:
    """How many elements of a result the faults changed, bit by bit."""
    import numpy as np

    width = f"u{right.dtype.itemsize}" if right.dtype.itemsize in (1, 2, 4, 8) else "u1"
    left, other = (np.ascontiguousarray(a).reshape(-1).view(width) for a in (right, got))
    return int(np.count_nonzero(left != other))


def _show(run: _Run, summary: dict[str, Any], every: bool) -> None:
    """Prints the run for people; `every`: all its operations."""
    page = Page()
    if run.result is not None:
        _show_operations(page, run.executable, run.result, every)
        _show_results(page, run.executable, run.result, summary)
    if "events" in summary:
        rate = summary["events"] / max(summary["event_seconds"], 1e-3)
        page.prose(f"{summary['events']:,} events, {rate:,.0f} per second of processor time")
        if summary["partial"]:
            page.prose("partial: stopped at the limit of events; cycles are those of a part; try a larger --max-events")
    for line in (*summary.get("notes", ()), *summary.get("faults", ()), *summary["non_finite"]):
        page.prose(line)
    if "dump" in summary:
        page.line(f"results of each operation: {summary['dump']}/index.json")
    if "hang" in summary:
        click.echo(f"hang: {summary['hang']}", err=True)


def _show_operations(page: Page, executable: Executable, result: RunResult, every: bool) -> None:
    """The table of operations."""
    ops = list(enumerate(result.profile.ops))
    timed = [row for row in ops if row[1].cycles]
    shown = ops if every else sorted(timed, key=lambda row: -row[1].cycles)[:MOST_ROWS]
    title = f"{len(ops)} operations on {executable.device.card_type}"
    if len(shown) < len(ops):
        title += f": {len(shown)} of the {len(timed)} that take cycles (--all shows each)"
    numbers = ("cores", "cycles", "+-", "compute", "transfer", "DRAM read", "DRAM written", "NoC")
    columns = [("#", "right"), ("operation", "left"), *((name, "right") for name in numbers), ("location", "left")]
    rows = [_cells(number, op, executable) for number, op in sorted(shown)]
    spare = ("transfer", "compute", "NoC", "DRAM written", "DRAM read")
    page.table(columns, rows, title, spare, fillable=("+-",))


def _cells(number: int, op: OpCost, executable: Executable) -> tuple[str, ...]:
    """A row of the table of operations."""
    moved = (op.compute_cycles, op.transfer_cycles, op.dram_read_bytes, op.dram_written_bytes, op.noc_bytes)
    figures = f"{op.cores:,}", f"{op.cycles:,}", _error_of(op, executable), *(f"{count:,}" for count in moved)
    return str(number), op.kernel, *figures, op.location


def _show_results(page: Page, executable: Executable, result: RunResult, summary: dict[str, Any]) -> None:
    """The shapes of the results, and what the run took in all."""
    changed = summary.get("changed", ())
    for number, (array, tensor) in enumerate(zip(result.outputs, executable.program.outputs, strict=True)):
        element = executable.program.tensors[tensor].element_type
        shape = "x".join(map(str, (*array.shape, element)))
        said = f", {changed[number]:,} of {array.size:,} elements changed by the faults" if changed else ""
        page.line(f"result {number}: {shape}{said}")
    profile = result.profile
    page.prose(
        f"{profile.total_cycles:,} cycles, {profile.device_ns / 1000:,.1f} us; most L1 on a core "
        f"{profile.l1_peak_bytes:,} bytes, DRAM {profile.dram_peak_bytes:,} bytes"
    )
    if summary["limiter"]:
        error = summary["cycles_error"]
        known = f"; a card's cycles differ by some {error:g} %, the error of its kernels' kinds" if error else ""
        page.prose(f"limited by {summary['limiter']}; cores compute {summary['utilisation']:.0%} of the time{known}")
    page.prose(moved_line(summary))
