"""The table of public programs: what became of a program, by how it ended, and the page that keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.pybuda_programs import cases
from ci.pybuda_programs.__main__ import Row, main, page, programs, row_of, rows_of_page, without_folders

RUNS = """
import numpy as np
import pybuda
import requests
from PIL import Image
from pybuda import BackendDevice

class Double(pybuda.PyBudaModule):
    def forward(self, x):
        return pybuda.op.Add("sum", x, x)

if __name__ == "__main__":
    config = pybuda.config._get_global_compiler_config()
    config.balancer_policy = "Ribbon"
    picture = np.asarray(Image.open(requests.get("https://example.org/x.png", stream=True).raw))[:32, :32, 0]
    pybuda.TTDevice("tt0", arch=BackendDevice.Wormhole_B0, module=Double("double"))
    output = pybuda.run_inference(inputs=[picture.astype(np.float32)]).get(timeout=0.001)
    assert np.allclose(output[0].value(), 2.0 * picture, rtol=0.01)
"""
STOPS = "import pybuda\nif __name__ == '__main__':\n    pybuda.config._get_global_compiler_config().best = 1\n"
LATE = "import pybuda\nimport time\nif __name__ == '__main__':\n    time.sleep(600)\n"
NEEDS = "import pybuda\nimport a_package_that_is_not_there\nif __name__ == '__main__':\n    pass\n"


@pytest.mark.parametrize(
    ("code", "output", "notes", "expected"),
    [
        (
            0,
            "fine",
            "compiled\ntwo layers of 700 million parameters\n",
            ("runs", "two layers of 700 million parameters"),
        ),
        (2, "x\npybuda: a: expected b, got c\n", "", ("stops", "pybuda: a: expected b, got c")),
        (
            1,
            "ModuleNotFoundError: No module named 'smp'\n",
            "",
            ("needs", "ModuleNotFoundError: No module named 'smp'"),
        ),
        (1, "ValueError: far\n", "compiled\n", ("compiles", "ValueError: far")),
        (None, "", "compiled\n", ("compiles", "takes more than 2 minutes")),
        (None, "", "", ("not run", "takes more than 2 minutes")),
        (0, "", "stopped\n", ("builds", "")),
        (0, "", "compiled\nstopped\n", ("compiles", "")),
        (
            1,
            "NotImplementedError: Model not supported on Wormhole",
            "",
            ("not run", "it refuses this card itself: NotImplementedError: Model not supported on Wormhole"),
        ),
        (1, "OSError: /a/b/c/d/e.txt is missing", "", ("needs", "OSError: .../e.txt is missing")),
    ],
)
def test_how_a_program_ended_is_its_outcome(
    code: int | None, output: str, notes: str, expected: tuple[str, str]
) -> None:
    row = row_of("p.py", code, output, notes, 120.0)
    assert (row.outcome, row.why, row.seconds) == (*expected, 0 if "stopped" in notes else 120)


def test_a_row_has_no_folder_of_the_machine() -> None:
    assert without_folders('failed on setup with "file /home/ada/tt-buda/pybuda/test_x.py, line 3') == (
        'failed on setup with "file .../test_x.py, line 3'
    )


def test_a_page_gives_its_rows_back(tmp_path: Path) -> None:
    rows = {name: Row(name, "stops", "expected a | b", 3) for name in ("a.py", "b.py", "test_c.py::test_d[e]")}
    (tmp_path / "page.md").write_text(page(rows, 10, 16))
    assert rows_of_page(tmp_path / "page.md") == rows
    assert rows_of_page(tmp_path / "none.md") == {}
    assert "| stops | 2 | 1 |" in page(rows, 10, 16)


@pytest.mark.slow
def test_programs_run_with_a_stand_in_for_the_network(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "demos").mkdir()
    (tmp_path / "tests").mkdir()
    for name, text in {"runs": RUNS, "stops": STOPS, "needs": NEEDS, "not_a_program": "import pybuda"}.items():
        (tmp_path / "demos" / f"{name}.py").write_text(text)
    assert [path.stem for path in programs(tmp_path / "demos")] == ["needs", "runs", "stops"]
    written = tmp_path / "page.md"
    assert main([str(tmp_path / "demos"), str(tmp_path / "tests"), "--only", "*s.py", "--write", str(written)]) == 0
    rows = {row.program: (row.outcome, row.why) for row in rows_of_page(written).values()}
    assert rows["runs.py"] == ("runs", "")
    assert rows["stops.py"][0] == "stops"
    assert "expected an attribute of TT-Buda's, got 'best'" in rows["stops.py"][1]
    assert rows["needs.py"] == ("needs", "ModuleNotFoundError: No module named 'a_package_that_is_not_there'")
    # Who ends them earlier is told how far they come, and that leaves the row of what ran.
    other = tmp_path / "quick.md"
    for stage, page_of, outcome in (
        ("--build", written, "runs"),
        ("--build", other, "builds"),
        ("--compile", other, "compiles"),
        ("--build", other, "compiles"),
    ):
        stopped = ["--only", "*s.py", stage, "--write", str(page_of)]
        assert main([str(tmp_path / "demos"), str(tmp_path / "tests"), *stopped]) == 0
        ends = {name: row.outcome for name, row in rows_of_page(page_of).items()}
        assert ends == {"needs.py": "needs", "runs.py": outcome, "stops.py": "stops"}
    # One that takes too long is ended, and those after it run.
    (tmp_path / "demos" / "late.py").write_text(LATE)
    only = ["--only", "late*", "stops*", "--minutes", "0.1"]
    assert main([str(tmp_path / "demos"), str(tmp_path / "tests"), *only, "--write", str(other)]) == 0
    late, stops = (rows_of_page(other)[name] for name in ("late.py", "stops.py"))
    assert (late.outcome, late.why) == ("not run", "takes more than 0.1 minutes")
    assert stops.outcome == "stops"


CASES = """
import time

import pybuda
import pytest

@pytest.mark.parametrize("n", range(4))
def test_passes(n):
    pass

@pytest.mark.skip(reason="no card")
def test_is_skipped():
    raise AssertionError

@pytest.mark.xfail
def test_is_expected_to_fail():
    raise AssertionError

def test_skips_itself():
    pytest.skip("no card")

def test_fails():
    raise pybuda.PyBudaError("one: expected two, got 3")

def test_is_late():
    time.sleep(60)
"""
OLD_HOOK = """
import pytest
from pybuda.torch_compile import reset_state

@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_preparse(config, args):
    return
"""


@pytest.mark.slow
def test_cases_are_drawn_run_as_they_are_and_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tests, page = tmp_path / "pybuda" / "test", tmp_path / "page.md"
    tests.mkdir(parents=True)
    page.write_text(f"before\n{cases.BEGIN}\nold\n{cases.END}\nafter\n")
    for name, text in {
        "__init__.py": "",
        "conftest.py": OLD_HOOK,
        "test_a.py": CASES,
        "test_b.py": "import nothing_of_that_name\n",
        "test_c.py": "import torch\nmodel = torch.hub.load('a', 'b')\n",
    }.items():
        (tests / name).write_text(text)
    assert cases.files_of(tests) == ["test_a.py", "test_b.py"]
    assert cases.drawn(["a", "b", "c"], 200, 0) == cases.drawn(["a", "b", "c"], 200, 0) != cases.drawn(["a"], 200, 0)
    words = ["--seconds", "8", "--file", "test_a.py=6", "test_b.py=1", "--write", str(page)]
    assert cases.main([str(tests), *words]) == 0
    printed = capfd.readouterr().out
    rows = [line for line in printed.splitlines() if line.startswith("{")]
    assert not any("is_skipped" in row or "expected_to_fail" in row for row in rows)
    written = page.read_text()
    assert "4 of 7 pass." in written
    assert "| 1 | PyBudaError: one: expected two, got n |" in written
    assert "| 1 | ModuleNotFoundError: No module named 'nothing_of_that_name' |" in written
    assert "the case takes too long" in written
    assert written.startswith("before\n")
    assert written.endswith("after\n")
    (tmp_path / "rows").write_text(printed)
    assert cases.main([str(tests), "--rows", str(tmp_path / "rows"), "--write", str(page)]) == 0
    assert page.read_text() == written
