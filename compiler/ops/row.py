"""The op table: one row holds everything that the compiler needs to know about one regular op.

From a row come the op's classes in the stablehlo, ttir and ttnn dialects, its 1:1 lowerings, its verifier, the kernel
that the flatbuffer names, and its line in the coverage page. `register` adds a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from opscope.compiler.ops.codec import Codec
from opscope.compiler.target.program import EltwiseParams, Params

Group = Literal[
    "eltwise",
    "reduce",
    "norm",
    "matmul",
    "conv",
    "pool",
    "data_movement",
    "creation",
    "control",
    "linalg",
    "random",
    "quant",
    "collective",
    "dynamic",
    "layout",
    "host",
]
"""Ops that passes treat alike. The family of an op that users see is `op_families.op_family`."""
Lowering = Literal["row", "pattern", "device", "decomposed", "notimpl", "notyet", "never"]
"""How an op gets from StableHLO to TTIR: by its row alone (`row`), or by a pattern in passes/stablehlo_to_ttir/
(`pattern`). A `device` row has no StableHLO op; patterns emit it. A `decomposed` one is an op of tt-mlir's TTIR that
has no kernel here: `ttir-to-ttir-decomposition` writes it in ops that have one. Ops of the other kinds are not lowered,
for `reason`: this compiler lacks the op (`notimpl`), the target lacks it (`notyet`), or the hardware cannot do it
(`never`)."""

FLOAT = frozenset({"float"})
INT = frozenset({"int"})
BOOL = frozenset({"bool"})
NUMBER = FLOAT | INT
PLAIN = NUMBER | BOOL
ANY = PLAIN | {"complex", "quant"}

ShapeRule = Callable[[Any, dict[str, Any]], "tuple[int, ...] | None"]
"""(op, attributes as Python values) -> shape of result 0, or None if the rule does not determine it."""


def eltwise_params(attrs: dict[str, Any], op: Any) -> Params:
    """Returns the parameters of an elementwise kernel: its float attributes, in the row's order."""
    return EltwiseParams(tuple(float(v) for v in attrs.values() if isinstance(v, float)))


@dataclass(frozen=True)
class OpRow:
    """One op. Names have no dialect prefix, except `stablehlo`, which may be `chlo.erf`."""

    stablehlo: str
    """Full name of the StableHLO or chlo op; empty for an op of the device that only patterns emit."""
    ttir: str = ""
    group: Group = "eltwise"
    ttnn: str = ""
    """If empty, the same as `ttir`."""
    kernel: str = ""
    """If empty, the same as `ttnn`."""
    arity: int | None = 1
    """Number of operands; None means any number."""
    dtypes: frozenset[str] = FLOAT
    """Type classes of operand 0 that this row lowers (float, int, bool, complex, quant)."""
    shape_rule: ShapeRule | None = None
    """The shape rule. None means NumPy broadcasting of all operands."""
    attrs: dict[str, Codec] = field(default_factory=dict)
    """Attributes of the ttir and ttnn op; a name that ends in `?` is optional."""
    in_ttnn: dict[str, tuple[str, Codec] | None] = field(default_factory=dict)
    """Attribute of the ttir op -> its name and how it is written in the ttnn op, where tt-mlir's two dialects differ;
    None where the ttnn op lacks it."""
    sizes_in_ttnn: dict[str, tuple[Codec, Callable[[Any], Any]]] = field(default_factory=dict)
    """Attribute that tt-mlir's ttnn op has beside the row's -> how it is written, and (ttir op) -> its value: what the
    shapes say here."""
    params: Callable[[dict[str, Any], Any], Params] = eltwise_params
    """(attributes, ttnn op) -> the kernel's parameters."""
    matrix: bool = False
    """Whether the kernel uses the matrix unit; its operands are then narrowed to Tf32, and fidelity matters."""
    lowering: Lowering = "row"
    reason: str = ""

    @property
    def ttnn_name(self) -> str:
        """Name of the op in the ttnn dialect, without prefix."""
        return self.ttnn or self.ttir

    @property
    def kernel_name(self) -> str:
        """The kernel's name in the flatbuffer."""
        return self.kernel or self.ttnn_name

    def attrs_in(self, dialect: str) -> dict[str, tuple[str, Codec]]:
        """Attribute as `attrs` has it -> its name (`?` if optional) and how it is written in `ttir` or `ttnn`."""
        own = {key: (key, codec) for key, codec in self.attrs.items()}
        if dialect == "ttnn":
            for key, place in self.in_ttnn.items():
                if place is None:
                    del own[key]
                else:
                    own[key] = (place[0] + "?" * key.endswith("?"), place[1])
        return own

    @property
    def lowered(self) -> bool:
        """Whether an op of this row can reach the device."""
        return self.lowering in ("row", "pattern", "device", "decomposed")


class OpTable:
    """All rows, by StableHLO name (one row per type class) and by device op."""

    def __init__(self) -> None:
        self._by_stablehlo: dict[str, list[OpRow]] = {}
        self._by_ttir: dict[str, OpRow] = {}
        self._by_ttnn: dict[str, OpRow] = {}
        self._known: dict[str, OpRow] = {}
        """Ops of ttir (`ttir.mish`) and ttnn (`ttnn.generic`) without a kernel: decomposed, or not lowered."""
        self._listeners: list[Callable[[OpRow], None]] = []

    def add(self, row: OpRow) -> OpRow:
        """Adds a row. Raises ValueError if another row already lowers the same op and type class."""
        if row.stablehlo:
            rows = self._by_stablehlo.setdefault(row.stablehlo, [])
            for other in rows:
                if both := other.dtypes & row.dtypes:
                    raise ValueError(f"{row.stablehlo}: expected one row per type class, got two for {sorted(both)}")
            rows.append(row)
        if row.lowering not in ("row", "device") and not row.reason:
            raise ValueError(f"{row.stablehlo}: expected a reason for {row.lowering}, got none")
        if row.ttir and row.lowering in ("row", "device"):
            self._by_ttir.setdefault(row.ttir, row)
            self._by_ttnn.setdefault(row.ttnn_name, row)
        elif not row.stablehlo:
            for name in (f"ttir.{row.ttir}" if row.ttir else "", f"ttnn.{row.ttnn}" if row.ttnn else ""):
                self._known |= {name: row} if name else {}
        for listener in self._listeners:
            listener(row)
        return row

    def listen(self, listener: Callable[[OpRow], None]) -> None:
        """Calls `listener` for every row, now and whenever one is added."""
        self._listeners.append(listener)
        for row in list(self):
            listener(row)

    def __iter__(self) -> Iterator[OpRow]:
        """All rows: StableHLO ones first, then those of the device only."""
        for rows in self._by_stablehlo.values():
            yield from rows
        yield from (r for r in self._by_ttir.values() if not r.stablehlo)
        # A row with a kernel, registered before or after, is what the name means.
        known = {id(row): row for row in self._known.values()}.values()
        yield from (r for r in known if r.ttir not in self._by_ttir and (r.ttir or r.ttnn not in self._by_ttnn))

    def stablehlo(self, name: str) -> tuple[OpRow, ...]:
        """Rows of a StableHLO op (full name), one per type class; empty if the table has none."""
        return tuple(self._by_stablehlo.get(name, ()))

    def ttir(self, name: str) -> OpRow | None:
        """Row of a ttir op, by name without prefix."""
        return self._by_ttir.get(name)

    def ttnn(self, name: str) -> OpRow | None:
        """Row of a ttnn op, by name without prefix."""
        return self._by_ttnn.get(name)

    def named(self, dialect: str, name: str) -> OpRow | None:
        """Row of any op of `ttir` or `ttnn`, lowered or not; what ttir has no row for in ttnn is the ttir op's."""
        rows = self._by_ttir if dialect == "ttir" else self._by_ttnn
        return rows.get(name) or self._known.get(f"{dialect}.{name}") or self._known.get(f"ttir.{name}")


TABLE = OpTable()


def register(row: OpRow) -> OpRow:
    """Adds a row to the table, so that its op is compiled from then on."""
    return TABLE.add(row)


def register_all(*rows: OpRow) -> None:
    """Adds several rows."""
    for row in rows:
        TABLE.add(row)
