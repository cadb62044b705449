"""`opscope diff-tensors A B`: where two tensors, or two dumps of a run, part: element, tile, face and row, worst first.

A and B are `.npy` files or folders that `opscope simulate --dump` wrote; a folder alone is compared with its goldens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from opscope.base import regular_file
from opscope.base.finite_number import FiniteNumber
from opscope.base.page import Page
from opscope.base.visible_text import counted, cut
from opscope.harness.explain.operand_elements import number_text
from opscope.harness.record.element_types import NUMPY_NAMES, numpy_dtype
from opscope.harness.record.errors import InputError
from opscope.harness.record.signature import shorten
from opscope.harness.triage.compared import Compared, Difference
from opscope.harness.verdict.places import index_of, name_of

INDEX = "index.json"
MOST_LATER = 20
"""Later results that are listed."""
DIFFERS = 1
"""Exit code if a tensor differs, as diff(1) has it."""


@click.command("diff-tensors", short_help="Show where two tensors, or two dumps of a run, differ; the worst first.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path), required=False)
@click.option(
    "--type", "element_type", default="", metavar="TYPE", help="Element type of .npy files that NumPy has not: bf16."
)
@click.option(
    "--above",
    default=0.0,
    show_default=True,
    type=FiniteNumber(min=0),
    metavar="X",
    help="Only elements that are farther apart.",
)
@click.option("--worst", default=8, show_default=True, type=click.IntRange(1, 1000), help="Elements to show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def diff_tensors(
    ctx: click.Context, a: Path, b: Path | None, element_type: str, above: float, worst: int, as_json: bool
) -> None:
    """Compare A with B: two .npy files, or two folders of `opscope simulate --dump`; one folder with its goldens.

    Names the elements that differ with tile, face and row, the worst first, and of folders the first operation whose
    results differ. The exit code is 1 if anything differs.
    """
    if b is None and not a.is_dir():
        raise InputError("opscope diff-tensors", "two .npy files, or a folder with goldens", f"{a} alone", "A B")
    if b is not None and a.is_dir() != b.is_dir():
        raise InputError("opscope diff-tensors", "two files or two folders", f"{a} and {b}")
    if a.is_dir():
        compared = list(_folders(a, b, above, worst))
    else:
        assert b is not None
        compared = [compare(a.name, _load(a, element_type), _load(b, element_type), above, worst)]
    apart = [one for one in compared if one.differing or one.problem]
    if as_json:
        from opscope.wire import answer
        from opscope.wire import diff_tensors as wire

        answer.print_answer(apart if a.is_dir() else compared, wire.PRINTS, indent=None)
    else:
        _show(compared, apart)
    if apart:
        ctx.exit(DIFFERS)


def compare(name: str, left: np.ndarray, right: np.ndarray, above: float = 0.0, worst: int = 8) -> Compared:
    """Two arrays, element by element; NaN is equal to NaN, and types may differ."""
    if left.shape != right.shape:
        problem = f"shapes {left.shape} and {right.shape}"
        return Compared(name, left.shape, 0, None, (), (), problem)
    with np.errstate(all="ignore"):
        wide = np.dtype(np.complex128 if "c" in (left.dtype.kind, right.dtype.kind) else np.float64)
        exact = left.dtype.kind in "iub" and right.dtype.kind in "iub"
        one, two = left.astype(wide), right.astype(wide)
        # Integers of 64 bits are told apart as such, and measured as floats.
        same = (left == right) if exact else ((one == two) | (np.isnan(one) & np.isnan(two)))
        distance = np.abs(one - two)
        finite = np.isfinite(one) & np.isfinite(two)
        distance = np.where(same, 0.0, np.where(finite, distance, np.inf))
        apart = ~same & ((distance > above) | ((above == 0) & (distance >= 0)))
        norm = float(np.linalg.norm(two[finite].ravel()))
        error = float(np.linalg.norm((one - two)[finite].ravel()))
    flat = np.flatnonzero(apart)
    chosen = flat[np.lexsort((flat, -distance.ravel()[flat]))][:worst]
    differences = tuple(
        Difference(
            index_of(int(at), left.shape),
            name_of(int(at), left.shape),
            number_text(left.ravel()[at]),
            number_text(right.ravel()[at]),
            float(distance.ravel()[at]),
        )
        for at in chosen
    )
    ratio = error / norm if norm and np.isfinite(norm) else None
    return Compared(name, left.shape, len(flat), ratio, differences, _fullest(flat, left.shape))


def _fullest(flat: np.ndarray, shape: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    """The tiles with the most of some elements."""
    if not len(flat):
        return ()
    rows, columns = (shape[-2] if len(shape) > 1 else 1), (shape[-1] if shape else 1)
    across, down = -(-columns // 32), -(-rows // 32)
    matrix, rest = np.divmod(flat, rows * columns)
    row, column = np.divmod(rest, columns)
    tiles, counts = np.unique((matrix * down + row // 32) * across + column // 32, return_counts=True)
    chosen = np.lexsort((tiles, -counts))[:3]
    names = (divmod(int(tiles[n]), across) for n in chosen)
    return tuple(
        (f"tile ({r // down}, {r % down}, {c})", int(counts[n])) for (r, c), n in zip(names, chosen, strict=True)
    )


def _folders(a: Path, b: Path | None, above: float, worst: int) -> Iterator[Compared]:
    """Each result of two dumps, in order; of one dump those that have a golden."""
    left, right = _index(a), _index(b) if b is not None else None
    if right is not None and len(left) != len(right):
        raise InputError(str(b), f"a dump of {len(left)} operations, as {a}", f"{len(right)}", "two runs of one binary")
    seen = False
    for number, entry in enumerate(left):
        other = right[number] if right is not None else entry
        if right is not None and (entry["kernel"], len(entry["results"])) != (other["kernel"], len(other["results"])):
            raise InputError(f"{b}: operation {number}", f"{entry['kernel']}, as in {a}", other["kernel"])
        for mine, its in zip(entry["results"], other["results"], strict=True):
            file = its.get("golden") if right is None else its["file"]
            if file is None or mine["file"] is None:
                continue
            seen = True
            kind = its["element_type"] if right is not None else its.get("golden_type", its["element_type"])
            name = f"{number} {entry['kernel']}" + (f" ({entry['location']})" if entry["location"] else "")
            arrays = (_load(_inner(a, mine["file"]), mine["element_type"]), _load(_inner(b or a, file), kind))
            yield compare(name, *arrays, above, worst)
    if not seen:
        raise InputError(
            str(a), "results with goldens", "none", "opscope simulate --dump DIR --golden MODEL, or give B"
        )


def _index(folder: Path) -> list[dict[str, Any]]:
    """The operations of a dump."""
    where = folder / INDEX
    try:
        operations = json.loads(regular_file.read_text(where))["operations"]
        for entry in operations:
            _ = entry["kernel"], entry["location"], [(r["file"], r["element_type"]) for r in entry["results"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        got = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise InputError(str(where), "the index of a dump", cut(str(got), 120), "opscope simulate --dump DIR") from None
    return operations


def _inner(folder: Path, name: str) -> Path:
    """A file of a dump; a name that leaves the folder is refused."""
    if Path(name).name != name:
        raise InputError(str(folder / INDEX), "names of files in the folder", repr(name))
    return folder / name


def _load(path: Path, element_type: str) -> np.ndarray:
    """An array of a .npy file, raw elements as the element type. Raises InputError."""
    if element_type and element_type not in NUMPY_NAMES:
        raise InputError("--type", f"one of {', '.join(NUMPY_NAMES)}", repr(element_type), "bf16")
    try:
        regular_file.check(path)
        with path.open("rb") as file:
            begin = file.read(6)
        if not begin.startswith((b"\x93NUMPY", b"PK")):  # NumPy would take it for a pickle, and say how to trust it
            got = f"bytes that begin {begin.hex(' ')}" if begin else "an empty file"
            raise InputError(str(path), "a .npy file", got)
        array = np.load(path, allow_pickle=False)
    except InputError:
        raise
    except (OSError, ValueError, EOFError, SyntaxError, OverflowError) as error:
        got = getattr(error, "strerror", None) or str(error)
        raise InputError(str(path), "a .npy file", shorten(str(got), 120)) from None
    if not isinstance(array, np.ndarray):
        raise InputError(str(path), "a .npy file", "an archive of several arrays", "one .npy of it")
    if not element_type:
        if array.dtype.kind not in "biufc":
            raise InputError(str(path), "numbers", str(array.dtype), "--type bf16")
        return array
    dtype = numpy_dtype(element_type)
    if array.dtype.itemsize != dtype.itemsize:
        raise InputError(str(path), f"elements of {element_type}", str(array.dtype))
    return array.view(dtype) if array.dtype != dtype else array


def _show(compared: list[Compared], apart: list[Compared]) -> None:
    page = Page()
    if not apart:
        count = sum(int(np.prod(one.shape)) for one in compared)
        page.line(f"no difference: {counted(len(compared), 'tensor')}, {count:,} elements")
        return
    if len(compared) > 1:
        page.prose(f"{len(apart)} of {len(compared)} results differ; the first is {apart[0].name}")
    _show_one(page, apart[0])
    rest = sorted(apart[1:], key=lambda one: -(one.worst[0].size if one.worst else np.inf))
    if rest:
        columns = [
            ("result", "left"),
            ("elements", "right"),
            ("relative L2", "right"),
            ("worst", "left"),
            ("place", "left"),
        ]
        rows = []
        for one in rest[:MOST_LATER]:
            ratio = "" if one.relative_l2 is None else f"{one.relative_l2:.3g}"
            worst = [(f"{item.left} / {item.right}", item.place) for item in one.worst[:1]] or [("", "")]
            rows.append((one.name, one.problem or f"{one.differing:,}", ratio, *worst[0]))
        page.table(columns, rows, "later results, worst first", spare=("relative L2",))
        if len(rest) > MOST_LATER:
            page.line(f"and {len(rest) - MOST_LATER} more, see --json")


def _show_one(page: Page, one: Compared) -> None:
    shape = "x".join(map(str, one.shape)) or "scalar"
    if one.problem:
        page.prose(f"{one.name}: {one.problem}")
        return
    ratio = "" if one.relative_l2 is None else f", relative L2 {one.relative_l2:.4g}"
    tiles = ", ".join(f"{name}: {count:,}" for name, count in one.tiles)
    page.prose(f"{one.name}, {shape}: {one.differing:,} of {int(np.prod(one.shape)):,} elements differ{ratio}")
    page.prose(f"most in {tiles}")
    columns = [
        ("index", "left"),
        ("tile (batch, row, column), face, row", "left"),
        ("A", "right"),
        ("B", "right"),
        ("apart", "right"),
    ]
    page.table(
        columns,
        [
            (f"({', '.join(map(str, item.index))})", item.place, item.left, item.right, f"{item.size:.4g}")
            for item in one.worst
        ],
    )
