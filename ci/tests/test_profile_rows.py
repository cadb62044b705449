"""Prices of profiled operations: results are no inputs, bad files are refused, errors stay within what is stated."""

from __future__ import annotations

import csv
import json
import random
import re
from pathlib import Path

import numpy as np
import pytest

from ci.calibration.card_profiles import profile_rows
from ci.calibration.fit_profiles import folds_of_families, left_out
from ci.calibration.profile_rows import main, report
from ci.calibration.silicon_rows import SILICON
from opscope.simulator.modelled import BY_KIND, ERRORS, RECORDS

PROFILES = SILICON / "profiles.csv"
pytestmark = pytest.mark.skipif(not PROFILES.exists(), reason=f"no profiles of cards at {PROFILES}")
RESULTS = re.compile(r"measured_|[a-z]+risc\d?_ns")


def lines_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def written(lines: list[dict[str, str]], path: Path) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    return path


@pytest.mark.parametrize("own_split", [False, True], ids=["card's split", "own split"])
def test_what_was_measured_changes_no_price(own_split: bool, tmp_path: Path) -> None:
    lines, chance = lines_of(PROFILES), random.Random(5)
    measured = [name for name in lines[0] if RESULTS.match(name)]
    assert len(measured) == 8
    for name in measured:
        values = [line[name] for line in lines]
        chance.shuffle(values)
        for line, value in zip(lines, values, strict=True):
            line[name] = value
    shuffled = profile_rows(written(lines, tmp_path / "shuffled.csv"))
    prices, others = (
        [row["simulated_ns"] for row in report(rows, own_split=own_split)["rows"]]
        for rows in (profile_rows(PROFILES), shuffled)
    )
    assert prices == others
    assert [row.time_ns for row in shuffled] != [row.time_ns for row in profile_rows(PROFILES)]


@pytest.mark.parametrize("own_split", [False, True], ids=["card's split", "own split"])
def test_errors_stay_within_the_limits(own_split: bool) -> None:
    document = report(profile_rows(PROFILES), own_split=own_split)
    assert document["all"]["rows"] == len(lines_of(PROFILES))
    assert document["all"]["median"] <= (20 if own_split else 15)
    assert document["all"]["p95"] <= (75 if own_split else 60)
    assert all(kind["median"] <= 30 for kind in document["kinds"].values() if kind["rows"] >= 5)
    assert document["same_cores"]["same"] >= 0.85 * document["same_cores"]["rows"]
    sums = {name: run["sum"] for name, run in document["runs"].items()}
    assert all(abs(off) <= 15 for off in sums.values()), sums


@pytest.mark.slow
def test_the_errors_that_a_board_shows_are_those_of_rows_left_out() -> None:
    rows = profile_rows(PROFILES)
    errors = {n: abs(error) for n, error in left_out(rows, folds_of_families(rows), own_split=True).items()}
    stated = {error.statistic: error.percent for error in ERRORS if error.what == RECORDS}
    every = list(errors.values())
    assert stated == pytest.approx({"median": np.median(every), "p95": np.quantile(every, 0.95)}, abs=0.3)
    for kind, (median, count) in BY_KIND.items():
        own = [error for n, error in errors.items() if rows[n].kernel == kind]
        assert (len(own), float(np.median(own))) == (count, pytest.approx(median, abs=0.3)), kind


def test_a_report_is_printed_as_tables_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(PROFILES)]) == 0
    text = capsys.readouterr().out
    assert all(title in text for title in ("Operations", "Errors by kernel", "Errors by run"))
    assert main([str(PROFILES), "--own-split", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["split"] == "own"
    assert sum(kind["rows"] for kind in document["kinds"].values()) == document["all"]["rows"]


BAD = {
    "an empty file": lambda lines: [],
    "another column": lambda lines: [{"run" if k == "file" else k: v for k, v in line.items()} for line in lines],
    "no number": lambda lines: [{**lines[0], "n": "many"}],
    "a time of zero": lambda lines: [{**lines[0], "measured_ns": "0"}],
    "another arch": lambda lines: [{**lines[0], "arch": "quasar"}],
    "another kernel": lambda lines: [{**lines[0], "kernel": "fft"}],
    "a kernel of other arguments": lambda lines: [{**lines[0], "kernel": "cholesky"}],
    "another fidelity": lambda lines: [{**lines[0], "fid": "HiFi9"}],
    "a shape with a zero": lambda lines: [{**lines[0], "out_logical": "1x0x19x3072"}],
    "a shape in words": lambda lines: [{**lines[0], "shapes": "large"}],
    "another type": lambda lines: [{**lines[0], "in0_dtype": "FLOAT24"}],
    "a memory in words": lambda lines: [{**lines[0], "out_memory": "somewhere"}],
    "no window": lambda lines: [{**line, "sliding_window": ""} for line in lines if line["kernel"] == "conv2d"],
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = BAD[name](lines_of(PROFILES))
    path = tmp_path / "bad.csv"
    path.write_text("") if not lines else written(lines, path)
    assert main([str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(str(path))
    assert "expected" in printed.err
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize("content", [b"\x00\xff\xfe\x01", b"a,b\n1\n"], ids=["bytes", "a table"])
def test_no_profile_is_refused(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    assert main([str(path)]) == 2
    assert main([str(tmp_path / "absent.csv")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize("image", ["(1, 128, 128, 256)", "(1, 1, 16384, 256)", "(16384, 256)"])
@pytest.mark.parametrize("window", ["(1, 1, 256, 256)", "(256, 256)"])
def test_a_convolution_of_1x1_has_a_price(tmp_path: Path, image: str, window: str) -> None:
    """What stands before its channels are ones, which shapes are written without."""
    line = next(dict(line) for line in lines_of(PROFILES) if line["kernel"] == "conv2d")
    line["shapes"] = f"{image} {window} (16384, 256)"
    line["sliding_window"] = re.sub(
        r"input_hw=.*?window_hw=\(3;3\)(.*?)padding=\(.*?\)\)",
        r"input_hw=(128;128); window_hw=(1;1)\1padding=((0; 0); (0; 0))",
        line["sliding_window"],
    )
    rows = profile_rows(written([line], tmp_path / "one.csv"))
    for own_split in (False, True):
        [row] = report(rows, own_split=own_split)["rows"]
        assert row["simulated_ns"] > 0
