"""The text of an issue about a failure: what is in it, and that it is about this failure."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.harness.record.errors import InputError
from opscope.harness.record.explanation import Explanation, ResultExplanation, WorstElement
from opscope.harness.tests.faulty_backends import hidden
from opscope.harness.tests.triage.runs import binary, run
from opscope.harness.triage import after_run, bundle, issue, issue_facts
from opscope.harness.triage.cli import repro

OWN_WORDS = """
    def repro_lines(self, job):
        return ("the-compiler --like-this module.mlir", "python3 shows_it.py")

    def repro_files(self, job):
        return {"shows_it.py": b"print('it fails')", "card.bin": job.module[:4]}

    def build_note(self):
        return "This build is somebody's."
"""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory):
    """A run with a wrong op on a backend that knows how to show it, and the op's record."""
    folder = tmp_path_factory.mktemp("issue")
    backend = Path(hidden.write(folder, "off_by_one", "True", hidden.WRONG))
    backend.write_text(backend.read_text() + OWN_WORDS)
    run_dir, (test,) = run(folder, binary("add", "4x6xf32"), str(backend), repro_size=1 << 20)
    return run_dir, test


@pytest.fixture
def folder(failed, tmp_path: Path) -> Path:
    """A copy of the repro folder of its failure."""
    run_dir, test = failed
    return Path(shutil.copytree(after_run.place(run_dir, test), tmp_path / "repro-off_by_one"))


def test_an_issue_has_what_a_maintainer_asks_for(failed, folder: Path) -> None:
    run_dir, test = failed
    text = CliRunner().invoke(repro, [test.op_id, "--run", str(run_dir), "--as-issue"]).output
    assert (after_run.place(run_dir, test) / issue.FILE).read_text() == text
    title = text.splitlines()[0].removeprefix("# ")
    assert title.startswith("stablehlo.add (4x6xf32, 4x6xf32) gives wrong numbers: 24 of 24")
    assert len(title) <= issue.TITLE
    assert "| element | place | expected | got |\n| --- | --- | --- | --- |\n| (0, 0) |" in text
    for words in (
        "```mlir\nmodule",
        "stablehlo.add %arg0, %arg1 : tensor<4x6xf32>",
        "- jaxlib: ",
        "- backend `backend/off_by_one.py`",
        "- options: the usual ones\n",
        "beside `module.mlirbc`, `card.bin` (attached)",
        "```sh\nthe-compiler --like-this module.mlir\npython3 shows_it.py\n```",
        "`shows_it.py`:\n\n```python\nprint('it fails')\n```",
        "`./run.sh`",
        "1 use in 1 model of this run: `net`.",
    ):
        assert words in text, words
    assert text.endswith("\n\nThis build is somebody's.\n\n")
    assert (folder / "card.bin").read_bytes() == (folder / "module.mlirbc").read_bytes()[:4]


def test_a_folder_is_enough(failed, folder: Path) -> None:
    _, test = failed
    document = json.loads((folder / bundle.FILE).read_text())
    document["versions"] |= {"the-compiler": "4.5"}
    (folder / bundle.FILE).write_text(json.dumps(document))
    done = CliRunner().invoke(repro, [str(folder), "--as-issue"])
    assert done.output == (folder / issue.FILE).read_text()
    assert test.error_message in done.output
    assert "- the-compiler: 4.5\n" in done.output


@pytest.mark.slow
def test_the_smallest_form_is_that_of_the_same_failure(folder: Path) -> None:
    small = Path(shutil.copytree(folder, folder.with_name("reduced")))
    (small / bundle.TEXT).write_text("module { the_small_one }\n")
    text = issue.write(folder)
    assert "## Smallest form that fails in this way\n\n```mlir\nmodule { the_small_one }\n```" in text
    assert "from `stablehlo.add` (4x6xf32, 4x6xf32)" in text
    for change in ({"signature": "0"}, {"status": "crashed"}):
        document = json.loads((folder / bundle.FILE).read_text())
        document["failure"] |= change
        (small / bundle.FILE).write_text(json.dumps(document))
        assert "the_small_one" not in issue.write(folder), change
    document = json.loads((folder / bundle.FILE).read_text())
    document["options"]["backend"] = "xla"
    (small / bundle.FILE).write_text(json.dumps(document))
    assert "the_small_one" not in issue.write(folder), "another backend's"


def test_a_folder_of_an_earlier_version_has_no_facts(folder: Path) -> None:
    (folder / issue_facts.FILE).unlink()
    text = issue.write(folder)
    assert "stablehlo.add %arg0, %arg1" in text
    assert "The op is one of run `" in text
    assert "somebody's" not in text


def test_a_missing_kernel_is_no_compiler_failure(folder: Path) -> None:
    document = json.loads((folder / bundle.FILE).read_text())
    for stage, ran_on, words in (
        ("run", "none", "What stops here is opscope's simulator"),
        ("compare", "simulator", "nothing ran on a card"),
    ):
        document["failure"]["stage"] = stage
        (folder / bundle.FILE).write_text(json.dumps(document))
        facts = issue_facts.read(folder).model_copy(update={"card_type": "sim-n150", "ran_on": ran_on})
        (folder / issue_facts.FILE).write_text(facts.model_dump_json())
        assert words in issue.write(folder)


def test_a_module_that_is_too_long_is_attached(folder: Path) -> None:
    (folder / bundle.TEXT).write_text("x" * (issue.LONGEST + 1))
    assert "Attached as `module.mlir` (12,001 characters)." in issue.write(folder)


def test_an_op_that_passes_is_no_issue(tmp_path: Path) -> None:
    run_dir, (test,) = run(tmp_path, binary("add", "2x3xf32"), "xla")
    raised = CliRunner().invoke(repro, [test.op_id, "--run", str(run_dir), "--as-issue"]).exception
    assert isinstance(raised, InputError)
    assert "--as-issue: expected an op that failed" in str(raised)


def test_a_place_with_a_bar_breaks_no_row_of_the_worst_values() -> None:
    element = WorstElement(index=(1, 2), place="a | b", expected="1", got="2", z=None)
    result = ResultExplanation(number=0, shape=(4, 4), data_type="f32", reason="", worst=(element,))
    table = "\n".join(issue.worst(Explanation(op_id="", op_name="", backend="", results=(result,))))
    assert table.splitlines()[2] == r"| (1, 2) | a \| b | 1 | 2 |"
    assert list(issue.worst(None)) == []
