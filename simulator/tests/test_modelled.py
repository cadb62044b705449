"""`opscope device show`: its measured errors are those of the rows that others published, and of the document."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from ci.calibration.card_rows import ProductRow, halves, product_rows, tuned_rows_of_p150
from ci.calibration.fit_movement import error as transfer_error
from ci.calibration.fit_movement import errors_with_loopback, parts
from ci.calibration.fit_products import errors
from opscope.base import passes
from opscope.compiler.target.system_desc import load_board
from opscope.simulator.commands.device_show import device
from opscope.simulator.kernels import KERNELS
from opscope.simulator.modelled import (
    ALL,
    DIFFERENCES,
    ERRORS,
    PARTS,
    PRODUCTS,
    TRANSFERS,
    TUNED,
    WITH_LOOPBACK,
    modelled,
)
from opscope.simulator.real_kernels import APART, SAME, cause, section
from opscope.simulator.tests.test_timing import needs_silicon

DOCS = Path(__file__).parents[2] / "docs"
MEASUREMENTS = DOCS / "measurements.yaml"


def shown(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(device, ["show", *words])
    return done.exit_code, done.output


def test_a_board_says_which_figures_are_another_chips() -> None:
    for board, borrowed in (("p150", 2), ("p300", 2), ("n150", 0), ("e150", 0)):
        code, text = shown(board)
        assert (code, text.count("borrowed")) == (0, borrowed), board


def test_every_figure_of_a_board_was_measured() -> None:
    sections = yaml.load(MEASUREMENTS.read_text(encoding="utf-8"), yaml.CSafeLoader)["sections"]
    tables = [table for section in sections for table in section["tables"]]
    lines = [" ".join(map(str, row.values())) for table in tables for row in table["rows"]]
    names = {"grayskull": "Grayskull", "wormhole_b0": "Wormhole", "blackhole": "Blackhole"}
    for error in ERRORS:
        number = f"{error.percent:+g}" if error.statistic == "one" else f"{error.percent:g}"
        figure = re.compile(rf"(?<![\d.]){re.escape(number)}(\.0)?(?!\.?\d)")
        about = error.boards or tuple(names[arch] for arch in error.archs)
        assert any(figure.search(line) and all(name in line for name in about) for line in lines), error
    assert {arch for entry in (*PARTS, *DIFFERENCES, *ERRORS) for arch in entry.archs} == set(ALL)


def stated(what: str, arch: str) -> dict[str, float]:
    return {error.statistic: error.percent for error in ERRORS if error.what == what and arch in error.archs}


def products(board: str, *, tuned: bool) -> list[ProductRow]:
    """The rows that no constant was fitted to."""
    if tuned and board == "p150":
        return list(tuned_rows_of_p150())
    rows = [row for row in product_rows() if row.board == board]
    return [row for row in halves(rows)[1] if row.tuned == tuned]


@needs_silicon
@pytest.mark.parametrize(("board", "what"), [("n150", PRODUCTS), ("n150", TUNED), ("p150", PRODUCTS), ("p150", TUNED)])
def test_errors_of_matrix_products_are_those_of_the_published_rows(board: str, what: str) -> None:
    off = errors(products(board, tuned=what == TUNED))
    measured = {"median": np.median(off), "p95": np.percentile(off, 95)}
    assert stated(what, load_board(board).arch) == pytest.approx(measured, abs=0.06)
    assert measured["median"] <= (10 if board == "n150" else 15)
    assert measured["p95"] <= 25


@needs_silicon
def test_errors_of_transfers_are_those_of_the_published_rows() -> None:
    named = {("wormhole_b0", "dram_read"): "DRAM reads", ("wormhole_b0", "dram_write"): "DRAM writes"}
    named |= {("blackhole", primitive): what for (_, primitive), what in named.items()}
    named |= {(arch, "multicast"): "multicasts" for arch in ("wormhole_b0", "blackhole")}
    off: dict[str, list[float]] = {"wormhole_b0": [], "blackhole": []}
    for arch, primitive, model, _, reported in parts():
        own = [transfer_error(model, row) for row in reported]
        off[arch] += own
        assert np.mean(own) <= 9, (arch, primitive)
        if what := named.get((arch, primitive)):
            assert stated(f"{TRANSFERS}: {what}", arch) == pytest.approx({"mean": np.mean(own)}, abs=0.06)
    loopback = {"mean": np.mean(errors_with_loopback())}
    assert stated(f"{TRANSFERS}: {WITH_LOOPBACK}", "blackhole") == pytest.approx(loopback, abs=0.06)
    for arch, own in off.items():
        assert stated(TRANSFERS, arch) == pytest.approx({"mean": np.mean(own)}, abs=0.06)
        assert np.mean(own) <= 3


def test_a_board_shows_its_own() -> None:
    code, text = shown("e150", "--json")
    document = json.loads(text)
    assert (code, document["arch"], document["profiles"]["buda"]["grid"]) == (0, "grayskull", [10, 12])
    assert "Float32" not in document["dst_formats"]
    assert not any(error["what"] == PRODUCTS for error in document["errors"])  # nobody published Grayskull's
    assert not any(error["what"] == PRODUCTS for error in json.loads(shown("n300", "--json")[1])["errors"])
    code, text = shown("p150")
    assert code == 0
    assert "median 3.6 %" in text
    assert "cycles of a core are Wormhole's" in text
    code, harvested = shown("n150-harvested-2052", "--json")
    document = json.loads(harvested)
    assert (code, document["profiles"]["buda"]["grid"]) == (0, [8, 8])
    assert document["passes_by"] == passes.state
    assert any(error["what"] == PRODUCTS for error in document["errors"])


def test_an_unknown_board_is_one_line() -> None:
    assert shown("n151") == (2, "Error: arch: expected a board or an arch, got 'n151'; try n150, p150, e150\n")


def test_the_page_and_the_board_say_which_bits_differ() -> None:
    """docs/conformance.md ends with the section; every kernel in it is one of ours."""
    assert (DOCS / "conformance.md").read_text(encoding="utf-8").endswith(section() + "\n")
    assert {kernel for row in APART for kernel in row.kernels} <= set(KERNELS)
    assert "denormal" in cause("neg", "Float32")
    assert cause("matmul", "Float16_b") == ""
    assert modelled(load_board("p150")).bits.same == SAME
    assert modelled(load_board("e150")).bits is None
