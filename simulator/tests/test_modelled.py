"""`opscope device show`: its measured errors are those of the rows that others published, and of the document."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from opscope.compiler.target.system_desc import load_board
from opscope.simulator.commands.device_show import device
from opscope.simulator.modelled import ALL, DIFFERENCES, ERRORS, PARTS, PRODUCTS, READS
from opscope.simulator.tests.test_timing import SILICON, gemm_ratios, needs_silicon
from opscope.simulator.timing.operation import NOC

MEASUREMENTS = Path(__file__).parents[2] / "docs" / "measurements.md"


def shown(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(device, ["show", *words])
    return done.exit_code, done.output


def test_every_figure_of_a_board_is_in_the_document() -> None:
    lines = MEASUREMENTS.read_text(encoding="utf-8").splitlines()
    names = {"grayskull": "Grayskull", "wormhole_b0": "Wormhole", "blackhole": "Blackhole"}
    for error in ERRORS:
        number = f"{error.percent:+g}" if error.statistic == "one" else f"{error.percent:g}"
        figure = re.compile(rf"(?<![\d.]){re.escape(number)}(\.0)?(?!\.?\d)")
        about = error.boards or tuple(names[arch] for arch in error.archs)
        assert any(figure.search(line) and all(name in line for name in about) for line in lines), error
    assert {arch for entry in (*PARTS, *DIFFERENCES, *ERRORS) for arch in entry.archs} == set(ALL)


def stated(what: str, arch: str) -> dict[str, float]:
    return {error.statistic: error.percent for error in ERRORS if error.what == what and arch in error.archs}


@needs_silicon
@pytest.mark.parametrize("board", ["n150", "p150"])
def test_errors_of_matrix_products_are_those_of_the_published_rows(board: str) -> None:
    errors = 100 * np.abs(np.array(list(gemm_ratios(board).values())) - 1)
    measured = {"median": np.median(errors), "p95": np.percentile(errors, 95)}
    assert stated(PRODUCTS, load_board(board).arch) == pytest.approx(measured, abs=0.06)


@needs_silicon
@pytest.mark.parametrize("arch", ["wormhole_b0", "blackhole"])
def test_errors_of_dram_reads_are_those_of_the_published_rows(arch: str) -> None:
    noc, errors = NOC[arch], []
    with (SILICON / "noc_dram_latency.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if (row["arch"], row["primitive"]) == (arch, "dram_read"):
                count, size = int(row["transactions"]), int(row["bytes_each"])
                cycles = noc.latency + max(noc.issue * (count - 1), count * size / noc.bytes_per_clock)
                errors.append(100 * abs(cycles / float(row["cycles"]) - 1))
    measured = {"mean": np.mean(errors), "p95": np.percentile(errors, 95)}
    assert stated(READS, arch) == pytest.approx(measured, abs=0.06)


def test_a_board_shows_its_own() -> None:
    code, text = shown("e150", "--json")
    found = json.loads(text)
    assert (code, found["arch"], found["profiles"]["buda"]["grid"]) == (0, "grayskull", [10, 12])
    assert "Float32" not in found["dst_formats"]
    assert not any(error["what"] == PRODUCTS for error in found["errors"])  # nobody published Grayskull's
    assert not any(error["what"] == PRODUCTS for error in json.loads(shown("n300", "--json")[1])["errors"])
    code, text = shown("p150")
    assert code == 0
    assert "median 26.5 %" in text
    assert "cycles of a core are Wormhole's" in text
    code, harvested = shown("n150-harvested-2052", "--json")
    found = json.loads(harvested)
    assert (code, found["profiles"]["buda"]["grid"]) == (0, [8, 8])
    assert any(error["what"] == PRODUCTS for error in found["errors"])


def test_an_unknown_board_is_one_line() -> None:
    assert shown("n151") == (2, "Error: arch: expected a board or an arch, got 'n151'; try n150, p150, e150\n")
