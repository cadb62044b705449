"""The simulator's cycles against measured ones: every row of the silicon files, and the epochs of whole netlists.

`python -m ci.calibration.bench_cycles [--no-refit]` prints, per file, the error of the half of the rows that no
constant was fitted to, beside that of TT-Buda's formulas on the same rows. A row that a netlist can say is compiled,
loaded and timed as any planned program; of others (a sparse operand's tiles, ops without a kernel) the counts are
timed. Then constants are fitted again without whole files, a fifth of them at a time, and these files are timed.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from ci.calibration.fit_cycles import SEED, error, fit
from ci.calibration.silicon_rows import SILICON, Row, halves, rows
from opscope.compiler.buda.balancer.cycles import formulas, sparse
from opscope.compiler.buda.balancer.cycles.weights import weights
from opscope.compiler.buda.netlist import parse
from opscope.compiler.buda.netlist.to_binary import to_binary
from opscope.compiler.buda.sparse_pattern import SparseShare
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.formats import number_format
from opscope.simulator.device import Device
from opscope.simulator.errors import DeviceError
from opscope.simulator.timing.arch_constants import CONSTANTS
from opscope.simulator.timing.constants import Constants
from opscope.simulator.timing.kernel_cycles import has, kernel_cycles
from opscope.simulator.timing.tile_cycles import block_cycles

ARCHS = ("grayskull", "wormhole_b0")
BOARDS = {"grayskull": "e150", "wormhole_b0": "n150"}
TYPES = {
    "typecast": "nop",
    "cos": "cosine",
    "sin": "sine",
    "leaky_relu": "lrelu",
    "pow_scalar": "power",
    "reduce r": "reduce",
    "reduce c": "reduce",
}
"""Kernel -> TT-Buda's type, where it has another name."""
IN_NETLISTS = {
    "abs",
    "add",
    "cos",
    "exp",
    "gelu",
    "leaky_relu",
    "log",
    "matmul",
    "maximum",
    "multiply",
    "pow_scalar",
    "reciprocal",
    "reduce c",
    "reduce r",
    "sigmoid",
    "sin",
    "sqrt",
    "square",
    "subtract",
    "tanh",
    "typecast",
}
FOLDS = 5
NETLISTS = SILICON.parent / "netlists.zip"
GRAPHS = "verif__graph_tests__netlists__"
EPOCHS = {
    f"{GRAPHS}netlist_encoder_grid": 35_500,
    f"{GRAPHS}wormhole_b0__netlist_encoder_grid": 59_462,
    f"{GRAPHS}blackhole__netlist_encoder_grid": 59_462,
    "verif__tm_tests__directed__bert_tiny_inference_hifi": 33_345,
    f"{GRAPHS}netlist_bert_base": 794_700,
}
"""Netlist -> cycles per input that its performance check expects."""


def text_of(row: Row) -> str:
    """Returns a netlist of one op on one core, as the row describes it."""
    w, kernel = row.work, row.kernel.removesuffix(" approx")
    source, result = row.formats
    out_m, out_n, out_rt, out_ct = w.mblock_m, w.mblock_n, w.ublock_rt, w.ublock_ct
    shapes = [(w.mblock_m, w.mblock_n, w.ublock_rt, w.ublock_ct)] * w.operands
    attributes: dict[str, object] = {}
    if kernel == "matmul":
        shapes = [(w.mblock_m, w.m_k, w.ublock_rt, w.u_kt), (w.m_k, w.mblock_n, w.u_kt, w.ublock_ct)]
        attributes = {"m_k": w.m_k, "u_kt": w.u_kt, **({"l1_acc": True} if row.l1_acc else {})}
    elif kernel == "reduce r":
        out_m, out_rt, attributes = 1, 1, {"dim": "r", "m_k": w.mblock_m, "u_kt": w.ublock_rt}
    elif kernel == "reduce c":
        out_n, out_ct, attributes = 1, 1, {"dim": "c", "m_k": w.mblock_n, "u_kt": w.ublock_ct}
    elif kernel in ("leaky_relu", "pow_scalar"):
        attributes = {"slope": 0.5} if kernel == "leaky_relu" else {"exp": 2}
    if row.kernel.endswith(" approx"):
        attributes["approximate_mode"] = True
    spelled = ", ".join(f"{key}: {str(value).lower()}" for key, value in attributes.items())
    queues = [
        f"  in{i}: {{input: HOST, type: queue, entries: 1, grid_size: [1, 1], t: {w.t}, mblock: [{m}, {n}], "
        f"ublock: [{rt}, {ct}], df: {source}, target_device: 0, loc: host, host: [{hex(i << 28)}]}}"
        for i, (m, n, rt, ct) in enumerate(shapes)
    ]
    block = f"t: {w.t}, mblock: [{out_m}, {out_n}], ublock: [{out_rt}, {out_ct}]"
    wide = "Int32" if source == "Int8" and kernel != "typecast" else "Float16" if "_b" not in source else "Float16_b"
    return "\n".join(
        [
            f"devices: {{arch: {row.arch}}}",
            "queues:",
            *queues,
            f"  out: {{input: op, type: queue, entries: 1, grid_size: [1, 1], {block}, df: {result}, target_device: 0, "
            "loc: host, host: [0x70000000]}",
            "graphs:",
            "  fwd_0:",
            "    target_device: 0",
            "    input_count: 1",
            f"    op: {{type: {TYPES.get(kernel, kernel)}, grid_loc: [0, 0], grid_size: [1, 1], "
            f"inputs: [{', '.join(f'in{i}' for i in range(len(shapes)))}], {block}, buf_size_mb: 2, ublock_order: r, "
            f"in_df: [{', '.join([source] * len(shapes))}], out_df: {result}, intermed_df: {result}, "
            f"acc_df: {wide}, math_fidelity: {row.fidelity}, attributes: {{{spelled}}}}}",
            "programs:",
            "  - run:",
            "    - var: [$p]",
            "    - execute: {graph_name: fwd_0, queue_settings: {"
            + ", ".join(f"in{i}: {{prologue: false}}" for i in range(len(shapes)))
            + "}}",
            "    - endprogram",
            "",
        ]
    )


@cache
def device(arch: str) -> Device:
    """Returns the card of an arch."""
    return Device(BOARDS[arch], profile="buda")


def compiled_cycles(row: Row, folder: Path) -> float | None:
    """Returns the cycles of the row's op as the simulator times its binary; None if no netlist can say the row."""
    if row.kernel.removesuffix(" approx") not in IN_NETLISTS:
        return None
    path = folder / "row.yaml"
    path.write_text(text_of(row), encoding="utf-8")
    try:
        executable = device(row.arch).load_decoded(to_binary(parse.read(path)).binary)
    except (CompilerInputError, DeviceError):
        return None
    (epoch,) = executable.profile.epochs
    return float(epoch.slowest_cycles)


def counted_cycles(row: Row, constants: Constants) -> float:
    """Returns the cycles of the row's counts."""
    if has(constants, row.kernel):
        return kernel_cycles(constants, row.kernel, row.work, row.width, l1_acc=row.l1_acc)
    name = row.kernel.removesuffix(" int32")
    return block_cycles(constants, name, row.work, row.width, l1_acc=row.l1_acc)


def buda_cycles(row: Row) -> float:
    """Returns what TT-Buda's formula says of the row."""
    w = row.work
    work = formulas.Work(w.t, w.mblock_m * w.mblock_n, w.ublock_rt, w.ublock_ct, w.m_k, w.u_kt, w.phases)
    fmt = number_format(row.formats[1])
    if w.sparse is not None:
        share = SparseShare(w.sparse.tiles, w.sparse.ublocks, w.sparse.strips, 0, 0)
        rows = sparse.SparseRows(w.mblock_n, share, w.sparse.tiles)
        return sparse.estimate(row.arch, row.fidelity, row.formats[1], work, rows)
    op, _, condition = row.kernel.partition(" ")
    op = {**TYPES, "reduce_z": "reduce_z"}.get(op, op)
    conditions = {condition} & {"approx"} | ({"l1_acc_en"} if row.l1_acc else set())
    conditions |= {"dim_c"} if row.kernel == "reduce c" else set()
    conditions |= {"df_bfp"} if fmt.kind == "block" else set()
    conditions |= {"df_int8"} if "int8" in row.file and "matmul" not in row.file else set()
    conditions |= {"df_int32"} if "int32" in row.file else set()
    constants = weights(row.arch, op, frozenset(conditions))
    if op == "matmul" and row.arch == "grayskull":
        return formulas.matmul_grayskull(work, constants)
    if op in ("matmul", "depthwise"):
        return formulas.matmul(work, constants)
    if op == "reduce_z":
        return formulas.reduce_z(work, constants, w.depth)
    wide = {16: 2, 32: 4}.get(fmt.bits, 1) if op in ("add", "subtract", "multiply") and fmt.is_float else 1
    return formulas.elementwise(work, constants, wide)


def summary(errors: Sequence[float]) -> tuple[float, float]:
    """Returns median and 95th percentile, in percent."""
    return 100 * statistics.median(errors), 100 * float(np.quantile(errors, 0.95))


def by_file(of: Sequence[Row], cycles: Callable[[Row], float]) -> dict[str, list[float]]:
    """Returns the errors of each file."""
    errors: dict[str, list[float]] = {}
    for row in of:
        errors.setdefault(row.file, []).append(error(row, cycles(row)))
    return errors


def held_out(folder: Path) -> None:
    """Prints the errors of the rows that the product's constants were not fitted to."""
    print(f"{'file':58} rows built | median   p95 | TT-Buda's median   p95")
    worse = []
    for arch in ARCHS:
        _, unfitted = halves(list(rows(arch)), SEED)
        built = {id(row): compiled_cycles(row, folder) for row in unfitted}
        times: dict[int, float] = {}
        for row in unfitted:
            own = built[id(row)]
            times[id(row)] = counted_cycles(row, CONSTANTS[arch]) if own is None else own
        ours = by_file(unfitted, lambda row, times=times: times[id(row)])
        buda = by_file(unfitted, buda_cycles)
        for file, errors in ours.items():
            count = sum(built[id(row)] is not None for row in unfitted if row.file == file)
            (median, high), (other, other_high) = summary(errors), summary(buda[file])
            line = f"{file:58} {len(errors):4} {count:5} | {median:5.1f} {high:6.1f} | {other:5.1f} {other_high:6.1f}"
            print(line, flush=True)
            if median > other + 0.05 and high > other_high + 0.05:
                worse.append(file)
        _total(arch, ours)
        _total(f"{arch}, TT-Buda's formulas", buda)
    print(f"worse than TT-Buda's formulas in median and p95: {', '.join(worse) or 'none'}")


def _total(what: str, errors: Mapping[str, Sequence[float]]) -> None:
    every = [each for part in errors.values() for each in part]
    median, high = summary(every)
    print(f"{what}: {len(every)} rows, median {median:.2f} %, p95 {high:.1f} %", flush=True)


def left_out() -> None:
    """Prints the errors of whole files that nothing was fitted to."""
    for arch in ARCHS:
        every = list(rows(arch))
        files = sorted({row.file for row in every})
        random.Random(SEED).shuffle(files)
        errors: dict[str, list[float]] = {}
        for fold in range(FOLDS):
            out = set(files[fold::FOLDS])
            fitted, _ = halves([row for row in every if row.file not in out], SEED)
            constants = fit(fitted)
            base = CONSTANTS["wormhole_b0"]
            for name in ("data", "products", "sparse", "reduce", "reduce_z"):
                if not getattr(constants, name):  # as for an arch of which nobody published them
                    constants = replace(constants, **{name: getattr(base, name)})
            spare = (
                {**base.kernels} if arch == "grayskull" else dict.fromkeys(base.kernels, constants.kernels["typecast"])
            )
            constants = replace(constants, kernels={**spare, **constants.kernels})
            if "depthwise" not in constants.products:
                constants = replace(constants, products={**constants.products, "depthwise": base.products["depthwise"]})
            if not any(" l1_acc" not in key and key != "depthwise" for key in constants.products):
                constants = replace(constants, products={**base.products, **constants.products})
            errors |= by_file([r for r in every if r.file in out], lambda row, c=constants: counted_cycles(row, c))
        _total(f"{arch}, whole files left out, a fifth at a time", errors)


def epochs(folder: Path) -> None:
    """Prints the slowest epoch of each measured netlist."""
    with zipfile.ZipFile(NETLISTS) as archive:
        for name, measured in EPOCHS.items():
            (member,) = (m for m in archive.namelist() if m.endswith(f"{name}.yaml"))
            binary = to_binary(parse.read(Path(archive.extract(member, folder)))).binary
            parts = Device(binary.board, profile="buda").load_decoded(binary).profile.epochs
            worst = max(parts, key=lambda part: part.cycles)
            print(
                f"{name.removeprefix(GRAPHS)}: {worst.cycles:,} cycles, measured {measured:,} "
                f"({100 * (worst.cycles / measured - 1):+.1f} %); slowest op {worst.slowest_cycles:,}, stalls "
                f"{worst.stall_cycles:,}, busiest DRAM channel {worst.dram_cycles:,}, switch {worst.switch_cycles:,}"
            )


def main() -> None:
    """Prints all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-refit", action="store_true", help="do not fit again without whole files (3 minutes)")
    options = parser.parse_args()
    if not SILICON.exists():
        raise SystemExit(f"bench_cycles: expected measured figures in {SILICON}, got none")
    with tempfile.TemporaryDirectory() as name:
        held_out(Path(name))
        epochs(Path(name))
    if not options.no_refit:
        left_out()


if __name__ == "__main__":
    main()
