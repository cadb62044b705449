"""`opscope ulp OP...`: an elementwise op over every input that there is, against exact goldens."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opscope.base import machine
from opscope.base.finite_number import FiniteNumber
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import DEFAULT_BACKEND

if TYPE_CHECKING:
    from opscope.harness.ulp.sweep import Asked, Swept
    from opscope.wire import ulp as wire

WHERE = "opscope ulp"
INFINITE = 1e300
"""Errors from here on stand for a number in place of none, or the other way round."""


@click.command("ulp", short_help="Measure elementwise ops over every input, in units in the last place.")
@click.argument("ops", metavar="[OP]...", nargs=-1)
@click.option(
    "--dtype", "types", multiple=True, metavar="TYPE", help="bf16 (default), f16, f32, f64, f8E4M3FN, f8E5M2."
)
@click.option("--backend", "backends", multiple=True, metavar="NAME", help=f"Default: {DEFAULT_BACKEND}.")
@click.option("--arch", metavar="BOARD", help="Board, such as n150.")
@click.option("--data-format", metavar="FORMAT", help="Number format in which the device computes floats.")
@click.option("--math-fidelity", metavar="FIDELITY", help="Passes of the matrix unit: LoFi, HiFi2, HiFi3 or HiFi4.")
@click.option("--range", "limits", metavar="LOW:HIGH", help="Only numbers whose first operand is between these.")
@click.option("--most", type=FiniteNumber(min=0), metavar="ULP", help="Exit with 1 if a number is farther off.")
@click.option("--expected", type=click.Path(path_type=Path), metavar="FILE", help="Errors that are expected.")
@click.option("--update", is_flag=True, help="Write what came to the file of --expected.")
@click.option(
    "--picture", type=click.Path(path_type=Path), metavar="FOLDER", help="Draw each op's error there, as SVG."
)
@click.option("--run-dir", type=click.Path(path_type=Path), metavar="DIR", help="The run folder; default: a new one.")
@click.option("-n", "lanes", type=click.IntRange(1, 64), help="Processes.  [default: one per processor]")
@click.option(
    "--op-timeout",
    type=FiniteNumber(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of a part, in seconds.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a list with an entry a part.")
@click.option("--list", "listed", is_flag=True, help="Print the ops, and end.")
@click.pass_context
def ulp_command(
    ctx: click.Context,
    ops: tuple[str, ...],
    types: tuple[str, ...],
    backends: tuple[str, ...],
    limits: str | None,
    most: float | None,
    expected: Path | None,
    update: bool,
    picture: Path | None,
    run_dir: Path | None,
    lanes: int | None,
    op_timeout: float,
    as_json: bool,
    listed: bool,
    **options: str | None,
) -> None:
    """Run each OP on every number of its type, and on special values, and compare with the correctly rounded results.

    OP is an elementwise op (tanh, stablehlo.power), a formula (gelu, "elu(alpha=2.0)"), or a group: unary, binary,
    ternary, all. Numbers of 16 and 8 bits are all tried; of wider types all exponents; of two operands 65,536 pairs
    and all pairs of special values. Results are a run: `opscope show`, `publish` and `diff` take its folder.

    The exit code is 1 if an op gave no result, is farther off than --most, or is worse or better than --expected has
    it; 2 for bad input.
    """
    from opscope.harness.run import lanes_ahead
    from opscope.harness.ulp import expected as expectations
    from opscope.harness.ulp.swept_op import GROUPS, every

    if listed:
        for group, counts in list(GROUPS.items())[:-1]:
            click.echo(f"{group}: {', '.join(op.name for op in every(counts))}")
        return
    if not ops:
        raise InputError(WHERE, "an op", "none", "opscope ulp tanh --dtype bf16, or opscope ulp --list")
    if update and expected is None:
        raise InputError("--update", "a file of --expected", "none", "--expected ulp.json")
    lanes_ahead.for_lanes(backends or (DEFAULT_BACKEND,))
    known = expectations.read(expected) if expected is not None and (expected.exists() or not update) else {}
    parts = _parts(ops, types or ("bf16",), limits)
    swept: list[Swept] = []
    for number, backend in enumerate(backends or (DEFAULT_BACKEND,)):
        place = run_dir / str(number) if run_dir is not None and len(backends) > 1 else run_dir
        swept += _of_backend(backend, parts, place, lanes or machine.processors(), op_timeout, options, as_json)
    if picture is not None:
        _draw(swept, picture)
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.ulp import PRINTS

        print_answer([_answer(each) for each in swept], PRINTS)
    if update and expected is not None:
        expectations.written(expected, known, swept)
    changed = expectations.changes(known, swept) if expected is not None and not update else []
    for change in changed:
        click.echo(str(change), err=as_json)
    far = _say_too_far(swept, most, as_json)
    refused = expected is None and any(each.got is None for each in swept)  # else the file says which have no result
    ctx.exit(1 if changed or far or refused else 0)


def _say_too_far(swept: list[Swept], most: float | None, as_json: bool) -> bool:
    """Names the parts whose numbers are farther off than `most`; returns whether there are any."""
    far = [each for each in swept if most is not None and each.asked.part == "numbers" and each.largest > most]
    for each in far:
        click.echo(f"{each.key}: expected at most {most:g} ulp, got {each.largest:.4g}", err=as_json)
    return bool(far)


def _parts(names: tuple[str, ...], types: tuple[str, ...], limits: str | None) -> list[Asked]:
    """Both parts of each op in each type."""
    from opscope.harness.ulp.sweep import asked
    from opscope.harness.ulp.swept_op import GROUPS, element_dtype, every, named

    for each in types:
        element_dtype(each)
    ops = [op for name in names for op in (every(GROUPS[name]) if name in GROUPS else [named(name)])]
    between = _range(limits)
    parts = [part for op in dict.fromkeys(ops) for kind in types for part in asked(op, kind, between)]
    if not parts:
        raise InputError("--range", "a range with numbers that have a result", str(limits))
    return parts


def _range(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise InputError("--range", "two numbers, LOW:HIGH", repr(text), "--range -87:88.5") from None
    return low, high


def _of_backend(
    backend: str,
    parts: list[Asked],
    run_dir: Path | None,
    lanes: int,
    timeout: float,
    options: dict[str, str | None],
    quiet: bool,
) -> list[Swept]:
    """The parts on one backend; each is printed as it comes."""
    from opscope.harness.record import run_folders, store
    from opscope.harness.record.optest import backend_label, now
    from opscope.harness.record.result_options import ResultOptions
    from opscope.harness.ulp.sweep import MODEL, Sweep

    place = (run_dir or run_folders.make_run_dir([MODEL, backend_label(backend)], now())).absolute()
    if store.has_run(place) or (place.is_dir() and any(place.iterdir())):
        raise InputError("--run-dir", "a new folder", str(place), "another folder")
    changed: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    sweep = Sweep(backend, ResultOptions(**changed), place, sys.argv, lanes=lanes, timeout=timeout)
    swept: list[Swept] = []
    for each in sweep.run(parts):
        swept.append(each)
        if not quiet:
            click.echo(_line(each))
            for worst in each.worst if each.largest > 1 else ():
                click.echo(f"    {worst}")
    if not quiet:
        click.echo(f"run folder: {place}")
    return swept


def _line(each: Swept) -> str:
    """One part in one line."""
    if each.got is None:
        return f"{each.key}: {each.test.status}: {each.test.error_message or 'no result'}"
    figures = f"at most {each.largest:.4g} ulp, {each.nearest:.2%} nearest, {each.over:,} of {each.ulp.size:,} over 1"
    return f"{each.key}: {figures}{f' ({each.where})' if each.where else ''}; {each.test.status}"


def _answer(each: Swept) -> wire.Swept:
    from opscope.wire import ulp as wire

    return wire.Swept(
        op=each.asked.op.name,
        type=each.asked.element_type,
        part=each.asked.part,
        backend=each.test.backend,
        status=str(each.test.status),
        error=each.test.error_message,
        inputs=int(each.asked.exact.size),
        largest_ulp=None if each.got is None else each.largest if each.largest < INFINITE else math.inf,
        over_ulp=each.over,
        nearest=each.nearest,
        where=each.where,
        worst=tuple(
            wire.Worst(inputs=tuple(map(repr, worst.inputs)), expected=repr(worst.expected), got=repr(worst.got))
            for worst in each.worst
        ),
        op_id=each.test.op_id,
        run_id=each.test.run_id,
    )


def _draw(swept: list[Swept], folder: Path) -> None:
    """The error of each part of numbers over the real line."""
    from opscope.harness.judge.picture import picture
    from opscope.harness.record import store
    from opscope.harness.record.run_folders import file_name

    folder.mkdir(parents=True, exist_ok=True)
    for each in swept:
        if each.got is not None and each.asked.part == "numbers":
            path = folder / f"{file_name(each.key)}.svg"
            store.write_whole(path, picture(each.ulp, each.asked.inputs[0], each.key), "another folder")
