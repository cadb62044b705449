"""Measured cycles of single ops on one core of a card (tt-budabackend, perf_lib/op_model/scripts/perf_data), as rows.

A row's description is complete but for a splice, whose file does not say which tiles were taken.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opscope.compiler.target.formats import number_format
from opscope.simulator.kernels.matmul import FIDELITIES
from opscope.simulator.timing.block_work import BlockWork, SparseTiles
from opscope.simulator.timing.kernel_cycles import width_of

SILICON = Path(__file__).parents[3] / "shared" / "data" / "silicon"
KERNELS = {
    "nop": "typecast",
    "cosine": "cos",
    "sine": "sin",
    "lrelu": "leaky_relu",
    "power": "pow_scalar",
    "reduce-z": "reduce_z",
    "whb0-reduce-r": "reduce r",
    "whb0-reduce-c": "reduce c",
    "whb0-splice": "splice",
    "matmul-sparse": "sparse_matmul",
    "matmul-l1-acc": "matmul",
    "gelu-derivative": "gelu_derivative",
}
"""File, without formats -> kernel; other files are called like theirs."""
SUFFIXES = ("-op-performance", "-performance", "-approx", "-bfp8", "-fp16", "-int8", "-int32")


@dataclass(frozen=True)
class Row:
    """One measurement."""

    file: str
    """`<arch>/<name>.csv`."""
    kernel: str
    """As in the tables of constants."""
    work: BlockWork
    width: str
    l1_acc: bool
    fidelity: str
    formats: tuple[str, str]
    """Of the first operand and of the result."""
    cycles: float
    """Of one input."""

    @property
    def arch(self) -> str:
        """The card's architecture."""
        return self.file.partition("/")[0]


def rows(arch: str) -> Iterator[Row]:
    """Yields every row of an architecture's files."""
    for path in sorted((SILICON / "ops" / arch).glob("*.csv")):
        with path.open(encoding="utf-8-sig") as file:
            yield from (_row(f"{arch}/{path.stem}", line) for line in csv.DictReader(file))


def _row(file: str, line: dict[str, str]) -> Row:
    name = file.partition("/")[2]
    stem = name
    for suffix in SUFFIXES:
        stem = stem.replace(suffix, "")
    if stem in ("sine", "cosine"):
        stem = line["Unary-Type"]
    kernel = KERNELS.get(stem, stem) + (" approx" if "-approx" in name else "")
    if "quant" in stem and "-int32" in name:
        kernel += " int32"
    source = line.get("input0_df") or line.get("input0") or "Bfp8_b"
    result = line.get("output_df") or source
    widest = max(
        (number_format(line.get(key) or source) for key in ("input0_df", "input1_df", "output_df")),
        key=lambda fmt: fmt.bits,
    )
    plain = widest.bits == 8 and widest.kind != "block"

    def count(*names: str) -> int:
        return next((int(line[key]) for key in names if line.get(key) not in (None, "", "N/A")), 1)

    sparse = None
    if kernel == "sparse_matmul":
        sparse = SparseTiles(count("nz_tiles"), count("nz_ublocks"), count("nz_strips"))
    work = BlockWork(
        count("t", "output_t"),
        count("mblock_m", "output_mb_r"),
        count("mblock_n", "output_mb_c"),
        count("ublock_rt", "output_ub_r"),
        count("ublock_ct", "output_ub_c"),
        count("m_k", "mblock_k"),
        count("u_kt", "ublock_kt"),
        FIDELITIES[line["math_fidelity"]],
        count("z"),
        2 if "input1_df" in line or stem in ("add", "subtract", "multiply", "maximum") else 1,
        widest.bits,
        sparse,
    )
    inputs = 1
    if "runtime" not in line:
        inputs = int(line["last-input-idx-recorded"]) - int(line["first-input-idx-recorded"]) + 1
    cycles = float(line.get("runtime") or line["total-runtime"]) / inputs
    fidelity, l1_acc = line["math_fidelity"], "l1-acc" in name
    return Row(file, kernel, work, width_of(widest.bits, not plain), l1_acc, fidelity, (source, result), cycles)


def halves(of: Sequence[Row], seed: int) -> tuple[list[Row], list[Row]]:
    """Returns rows to fit and rows to report: of each two neighbours in a file, one each, as the seed decides."""
    chance = random.Random(seed)
    fitted: list[Row] = []
    unfitted: list[Row] = []
    files: dict[str, list[Row]] = {}
    for row in of:
        files.setdefault(row.file, []).append(row)
    for part in files.values():
        w = sorted(
            part,
            key=lambda r: (
                r.kernel,
                r.width,
                r.work.depth,
                r.work.m_k,
                r.work.u_kt,
                r.work.ublock_rt,
                r.work.ublock_ct,
                r.work.mblock_m,
                r.work.mblock_n,
                r.cycles,
            ),
        )
        for first in range(0, len(w), 2):
            pair = w[first : first + 2]
            chance.shuffle(pair)
            fitted.append(pair[0])
            unfitted += pair[1:]
    return fitted, unfitted
