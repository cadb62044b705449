"""What is measured of an op: one row per quantity, of which all else follows.

A row is an attribute of `Measures`: its type, and a `Measure` that explains it. A backend that measures the quantity
sets it on its job (`Job` is a `Measures`). From the row follow the field of a record and its column in the database
(after `make migration`), the columns of the view `performance` and of the frame `op_tests` with their types, what docs
and dashboards say of them, and whether two equal runs may differ in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_type_hints

from opscope.harness.record.field_types import Int


@dataclass(frozen=True)
class Measure:
    """The row of a quantity, apart from its type."""

    meaning: str
    """In a few words, for tables of columns. A quantity is None where a backend does not measure it."""
    volatile: bool = False
    """Whether two equal runs may differ in it."""


@dataclass(kw_only=True)
class Measures:
    """All quantities, in the order of the columns."""

    cycles: Annotated[Int | None, Measure("device cycles of one execution")] = None
    """Of the whole program, from the simulator's cycle model."""
    cycles_error: Annotated[
        float | None, Measure("how far they may be from a card's, in percent: the error of its kernels' kinds")
    ] = None
    """Measured on rows that nobody fitted (`opscope device show`), weighted by the kernels' cycles."""
    device_ns: Annotated[float | None, Measure("nanoseconds of one execution on the device")] = None
    l1_peak_bytes: Annotated[Int | None, Measure("L1 per core")] = None
    dram_peak_bytes: Annotated[Int | None, Measure("DRAM")] = None
    limiter: Annotated[
        str | None,
        Measure("what takes most of the cycles: `math`, `noc`, `dram`, `launch`, ...; null in older records"),
    ] = None
    """`math`, `unpack`, `pack`, `noc`, `dram`, `launch` or `ethernet`."""
    utilisation: Annotated[float | None, Measure("share of the cycles of all cores in which a core computes")] = None
    """0 to 1."""
    dram_bytes: Annotated[Int | None, Measure("bytes read from and written to DRAM")] = None
    noc_bytes: Annotated[Int | None, Measure("bytes that the busiest core of each operation receives, summed")] = None
    link_bytes: Annotated[
        Int | None, Measure("of a collective: bytes that a chip receives from other chips, at most")
    ] = None
    """In a ring of its group."""
    link_ns: Annotated[float | None, Measure("how long that takes, in nanoseconds; `device_ns` does not count it")] = (
        None
    )
    run_ns: Annotated[
        float | None,
        Measure(
            "nanoseconds of one execution where something truly executes: the median of a few runs after the first",
            volatile=True,
        ),
    ] = None
    """By the host's clock."""
    run_spread_ns: Annotated[
        float | None,
        Measure("how far these runs lie apart, in nanoseconds; null if there was one alone", volatile=True),
    ] = None
    domain_share: Annotated[
        float | None,
        Measure("share of the domain that the inputs reached: of a type of 16 bits its values, else its exponents"),
    ] = None
    """0 to 1, of the operand that reached least (harness/prepare/domains.py)."""
    largest_ulp: Annotated[
        float | None,
        Measure("of `opscope ulp`: the largest error in units in the last place; null if it is infinite, or not swept"),
    ] = None
    """Against the exact result."""
    over_ulp: Annotated[Int | None, Measure("of `opscope ulp`: how many results are more than a unit off")] = None


_HINTS = get_type_hints(Measures, include_extras=True)
MEASURES = MappingProxyType({name: get_args(hint)[1] for name, hint in _HINTS.items()})
"""Name of a quantity -> its row."""
KINDS = MappingProxyType({name: get_args(hint)[0] for name, hint in get_type_hints(Measures).items()})
"""Name of a quantity -> `int`, `float` or `str`."""


def measure_fields() -> dict[str, tuple[Any, Any]]:
    """The fields of a record for all quantities, with type and default; an older record has none of them."""
    return {name: (hint, None) for name, hint in _HINTS.items()}
