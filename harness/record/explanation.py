"""Why a wrong number is wrong, as a lane stored it beside the record: for terminals, report.html and repro folders.

RUN/artifacts/<op id>/compare-<backend>/compare.json   what is below
                                        compare.txt    the same to read; the record's artifact
                                        compare.svg    heat maps and histograms
                                        result-<n>.npy what the device gave, if it was small enough
"""

from __future__ import annotations

from pathlib import Path, PurePath

from pydantic import FiniteFloat, ValidationError

from opscope.base import damage, stored
from opscope.base.damage import Damaged
from opscope.base.inner_path import inside
from opscope.harness.record.field_types import InnerPath, Int
from opscope.harness.record.records import OpTest, Record

FOLDER = "compare-"
JSON, TEXT, PICTURE = "compare.json", "compare.txt", "compare.svg"
SECONDS = 10.0
"""How long an explanation may take; what it has found by then is stored."""


class OperandElement(Record, defer_build=True):
    """One element of an operand. Numbers are text, so that NaN and infinity keep their names."""

    operand: Int
    """Which argument of the op; -1: a constant inside its module."""
    index: tuple[Int, ...]
    value: str


class Term(Record, defer_build=True):
    """What an element of a result was made of: operands that were multiplied, or one that was added or moved."""

    elements: tuple[OperandElement, ...]
    value: str
    """Their product."""

    @property
    def text(self) -> str:
        """`in0[3, 17] 1.5 x in1[17, 2] -2 = -3`."""
        parts = [f"in{e.operand}[{', '.join(map(str, e.index))}] {e.value}" for e in self.elements]
        return " x ".join(parts) + (f" = {self.value}" if len(parts) > 1 else "")


class WorstElement(Record, defer_build=True):
    """One of the elements that are most wrong."""

    index: tuple[Int, ...]
    place: str
    """Its tile, face and row of the face."""
    expected: str
    got: str
    z: float | None
    """Its error over its scale; None for values that are held to exact equality."""
    terms: tuple[Term, ...] = ()
    """The largest of what it was made of."""
    terms_note: str = ""
    """How many terms there are in all, or why none is known."""


class HeatMap(Record, defer_build=True):
    """Where a result is wrong. A tensor is seen as a stack of matrices: one row of cells below the other."""

    cells: tuple[tuple[FiniteFloat, ...], ...]
    """Of each cell the share of its elements that is wrong, or the root mean square of their z."""
    what: str
    """`share of wrong elements` or `root mean square of z`."""
    cell: str
    """What a cell is: `tile (32x32)`."""
    batch_rows: Int
    """Rows of cells that belong to one matrix of the stack."""


class Histogram(Record, defer_build=True):
    """How the elements' z are spread, values that are too small and too large apart."""

    edges: tuple[float, ...]
    """Bounds of |z|: bucket i reaches from edges[i] to edges[i + 1], the last one to infinity."""
    low: tuple[Int, ...]
    """Elements with negative z, per bucket."""
    high: tuple[Int, ...]


class ResultExplanation(Record, defer_build=True):
    """What is known of one wrong result."""

    number: Int
    shape: tuple[Int, ...]
    data_type: str
    reason: str
    wrong: Int | None = None
    """Elements beyond their limit; None if shape or type are wrong, so that no elements can be compared."""
    count: Int | None = None
    z_limit: float | None = None
    worst: tuple[WorstElement, ...] = ()
    heat: HeatMap | None = None
    histogram: Histogram | None = None
    hypothesis: str = ""
    """One sentence that fits what was found; empty if none does."""
    file: InnerPath | None = None
    """The device's result, beside this file; None: not stored, `note` says why."""
    note: str = ""


class Explanation(Record, defer_build=True):
    """The explanation of one op's failure."""

    op_id: str
    op_name: str
    backend: str
    results: tuple[ResultExplanation, ...]
    note: str = ""
    """What is missing and why."""

    @property
    def hypothesis(self) -> str:
        """The first result's that has one."""
        return next((result.hypothesis for result in self.results if result.hypothesis), "")


def folder_name(backend: str) -> str:
    """The name of the folder, below an op's artifacts, for the explanation of its wrong results on a backend."""
    return f"{FOLDER}{backend}"


def folder_of(test: OpTest) -> PurePath | None:
    """The folder with the explanation of a record, relative to the run's; None if its artifact is another."""
    path = PurePath(test.artifact or "")
    return path.parent if path.name == TEXT and path.parent.name.startswith(FOLDER) else None


def read(run_dir: Path, folder: str | PurePath) -> Explanation | None:
    """The explanation in a folder of a run; None if there is none. Raises Damaged: the file is not what was stored, or
    a link."""
    try:
        place = inside(run_dir, PurePath(folder, JSON))
    except OSError as error:
        raise Damaged(run_dir / folder / JSON, error.strerror or str(error)) from error
    try:
        return Explanation.model_validate(stored.read_json(place))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise Damaged(place, f"{error.error_count()} unexpected values") from error


def of(run_dir: Path, test: OpTest) -> Explanation | None:
    """The explanation of a record in its run folder. Raises Damaged."""
    folder = folder_of(test)
    return None if folder is None else read(run_dir, folder)


def shown(run_dir: Path, test: OpTest) -> Explanation | None:
    """The explanation of a record for a page. Damage is said in one line, and the page does without it."""
    try:
        return of(run_dir, test)
    except Damaged as error:
        damage.say(f"{error.where}: {error.state}")
        return None
