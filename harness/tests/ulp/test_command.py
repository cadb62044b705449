"""`opscope ulp`: figures, worst inputs by name, expected errors both ways, a run folder, a picture."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from opscope.harness.cli.ulp import ulp_command
from opscope.harness.record.errors import InputError
from opscope.harness.record.store import load_run
from opscope.harness.tests.own_backend import own_backend

HONEST = """
(x,) = job.inputs
y = np.tanh(x.astype(np.float64))
SPOIL
job.outputs, job.ran_on = [y.astype(x.dtype)], "host"
"""


@pytest.fixture
def backend(tmp_path):
    def written(spoil="pass"):
        file = tmp_path / "mine.py"
        file.write_text(
            own_backend("mine", HONEST.replace("SPOIL", spoil), stages="Stage.RUN", top="import numpy as np")
        )
        return ["--backend", str(file), "-n", "1"]

    return written


def called(*words):
    return CliRunner().invoke(ulp_command, words, catch_exceptions=False)


def test_an_op_is_measured_and_the_run_can_be_read(backend, tmp_path):
    ended = called("tanh", *backend(), "--run-dir", str(tmp_path / "run"), "--picture", str(tmp_path / "pictures"))
    assert ended.exit_code == 0, ended.output
    assert "tanh bf16 numbers mine: at most 0.498" in ended.output
    run = load_run(tmp_path / "run")
    assert [test.status for test in run.tests] == ["success", "success"]
    assert run.tests[0].largest_ulp == pytest.approx(0.4984, abs=1e-4)
    assert (run.tests[0].over_ulp, run.tests[0].domain_share) == (0, pytest.approx(1, abs=1e-4))
    assert run.record.outcome == "complete"
    assert not list((tmp_path / "run" / "artifacts").glob("*/tensors-*")), "results are not kept twice"
    (picture,) = (tmp_path / "pictures").iterdir()
    assert picture.read_text().startswith("<svg")


@pytest.mark.slow
def test_a_wrong_tail_is_named_with_its_inputs(backend, tmp_path):
    spoiled = backend("y = np.where(x.astype(float) > 2, 0.96, y)")
    ended = called("tanh", *spoiled, "--run-dir", str(tmp_path / "run"), "--json", "--most", "1")
    assert ended.exit_code == 1
    numbers = json.loads(ended.stdout)[0]
    assert numbers["status"] == "wrong_result"
    assert numbers["largest_ulp"] == pytest.approx(10, rel=0.01)
    assert numbers["where"].startswith("2.")
    assert numbers["worst"][0]["got"].startswith("0.96")


@pytest.mark.slow
def test_an_op_that_became_better_fails_as_one_that_became_worse(backend, tmp_path):
    file = str(tmp_path / "expected.json")
    honest, spoiled = "pass", "y = np.where(x.astype(float) > 2, 0.96, y)"

    def run(number, spoil, *more):
        return called("tanh", *backend(spoil), "--run-dir", str(tmp_path / str(number)), "--expected", file, *more)

    assert run(1, spoiled, "--update").exit_code == 0
    assert run(2, spoiled).exit_code == 0
    better = run(3, honest)
    assert better.exit_code == 1
    assert "tanh bf16 numbers mine: better: expected 10 ulp" in better.output
    assert run(4, honest, "--update").exit_code == 0
    worse = run(5, spoiled)
    assert worse.exit_code == 1
    assert "tanh bf16 numbers mine: worse: expected 0.498 ulp, 0 over 1" in worse.output


def test_an_op_without_a_result_is_no_success(backend, tmp_path):
    ended = called("tanh", *backend("raise ValueError('no tanh')"), "--run-dir", str(tmp_path / "run"))
    assert ended.exit_code == 1
    assert "run_failed: " in ended.output
    assert "no tanh" in ended.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "an op"),
        (("tahn",), "an elementwise op"),
        (("tanh", "--dtype", "bf17"), "one of bf16"),
        (("tanh", "--range", "one"), "two numbers"),
        (("tanh", "--range", "3e38:3.1e38", "--dtype", "f16"), "a range with numbers"),
        (("tanh", "--update"), "a file of --expected"),
        (("tanh", "--expected", "nothing.json"), "errors as"),
    ],
)
def test_bad_input_is_refused(words, expected):
    with pytest.raises(InputError, match=expected):
        called(*words)


def test_the_list_names_every_group():
    listed = called("--list").output
    assert [line.partition(":")[0] for line in listed.splitlines()] == ["unary", "binary", "ternary"]
    assert "tanhshrink" in listed
