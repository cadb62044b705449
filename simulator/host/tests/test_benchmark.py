"""`opscope benchmark`: what is measured, what is written, and the errors of bad calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from opscope.simulator.host.benchmark import command, runners
from opscope.simulator.host.benchmark.command import benchmark
from opscope.simulator.host.sources import source


def call(*words: str) -> Result:
    return CliRunner().invoke(benchmark, list(words))


def report(path: Path, *words: str) -> dict[str, Any]:
    done = call(*words, "-o", str(path))
    assert done.exit_code == 0, done.output
    assert "bench" not in done.stdout or str(path) not in done.stdout
    return json.loads(path.read_text())


@pytest.mark.slow
def test_a_simulated_card_is_measured(tmp_path: Path) -> None:
    words = ("-d", "tt", "-m", "mnist", "-c", "mlp", "--arch", "n150")
    full = report(tmp_path / "full.json", *words, "-mb", "3", "--loop_count", "2", "--values", "all")
    assert (full["model"], full["board"], full["inputs"], full["computed"]) == ("mnist_mlp", "n150", 6, 6)
    parts = full["seconds"]
    assert parts["total"] == pytest.approx(parts["push"] + parts["device"] + parts["pop"])
    assert min(parts.values()) > 0
    assert full["inputs_per_second"] == pytest.approx(6 / parts["total"])
    one = report(tmp_path / "one.json", *words, "-mb", "3", "--loop_count", "2")
    assert (one["inputs"], one["computed"], one["stopped"]) == (6, 1, False)
    assert one["inputs_per_second"] == pytest.approx(1 / one["seconds"]["total"])
    assert one["simulated_seconds"] == full["simulated_seconds"] == 6 * full["simulated_seconds_per_input"]
    timed = report(tmp_path / "timed.json", *words, "--timing-only")
    assert "seconds" not in timed
    assert timed["timing_only"] is True
    simulated = [key for key in full if key.startswith("simulated")]
    assert len(simulated) == 4
    assert [timed[key] for key in simulated if key != "simulated_seconds"] == [
        full[key] for key in simulated if key != "simulated_seconds"
    ]
    other = report(tmp_path / "e150.json", *words[:-1], "e150", "--timing-only")
    assert other["simulated_seconds_per_input"] != timed["simulated_seconds_per_input"]


def test_what_will_take_long_is_said_and_ctrl_c_reports_what_has_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    card = runners.card

    def stopping(*arguments: Any) -> runners.Runner:
        runner = card(*arguments)

        def step(values: dict[str, np.ndarray], seconds: runners.Seconds) -> Any:
            made.append(1)
            if len(made) == 4:
                raise KeyboardInterrupt
            return runner.step(values, seconds)

        return runners.Runner(step, runner.about)

    monkeypatch.setattr(runners, "card", stopping)
    path = tmp_path / "part.json"
    words = ("-d", "tt", "-m", "mnist_mlp", "-mb", "6", "--values", "all", "-o", str(path))
    done = call(*words)
    assert done.exit_code == 130
    assert "6 inputs in about" in done.stderr
    assert "stopped after 2 of 6 inputs" in done.stderr
    part = json.loads(path.read_text())
    assert (part["computed"], part["stopped"]) == (2, True)
    assert part["inputs_per_second"] == pytest.approx(2 / part["seconds"]["total"])
    made[:] = [1, 1, 1]
    assert call(*words[:6], "-o", str(path)).exit_code == 130  # in the first input: what the card takes is known
    part = json.loads(path.read_text())
    assert (part["computed"], "seconds" in part, part["simulated_seconds"] > 0) == (0, False, True)


def test_the_line_says_the_phases_and_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(
        "opscope.base.live.progress.step", lambda what, done=None, total=0: said.append(f"{what} {done}/{total}")
    )
    assert call("-d", "tt", "-m", "mnist_mlp").exit_code == 0
    phases = [
        next(n for n, text in enumerate(said) if text.startswith(phase))
        for phase in (
            "exporting mnist_mlp",
            "compiling mnist_mlp",
            "loading",
            "pushing an input",
            "computing input 1, op 1/",
        )
    ]
    assert phases == sorted(phases)
    shares = [text.rpartition(" ")[2].split("/") for text in said if text.startswith("computing input 1, op")]
    assert [int(done) for done, _ in shares] == list(range(1, int(shares[0][1]) + 1))


@pytest.mark.slow
def test_every_device_computes_the_same(tmp_path: Path) -> None:
    program = runners.Program("mnist_mlp", *source("mnist_mlp"))
    (values,) = command._inputs(program, 1)
    (expected,) = runners.cpu(program).step(values, runners.Seconds())
    seconds = runners.Seconds()
    (simulated,) = runners.card(program, "n150", ("default_df_override=Float32",)).step(values, seconds)
    np.testing.assert_allclose(simulated, expected, atol=0.02 * float(np.abs(expected).max()))
    assert seconds.device > 0
    (other,) = runners.iree(program).step(values, seconds)
    np.testing.assert_allclose(other, expected, rtol=1e-4, atol=1e-5)


def test_the_report_has_a_name_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("-d", "cpu", "-m", "mnist_mlp", "--save_output", "--task", "image-classification").exit_code == 0
    report = json.loads((tmp_path / "benchmark_cpu_mnist_mlp.json").read_text())
    assert (report["compiler"], report["task"]) == ("XLA", "image_classification")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-d cuda -m bert -c large", "-d cuda: expected tt, cpu or iree, got cuda: no GPU is used here; try -d cpu"),
        ("-d npu -m bert", "-d: expected one of tt, cpu, iree, got 'npu'"),
        ("-d cpu -m bert -c base --task cooking", "--task: expected one of na, text_classification"),
        ("-d cpu -m mnist_mlp --timing-only", "--timing-only: expected -d tt, whose time is modelled, got cpu"),
        ("-d tt -m mnist_mlp --timing-only --values all", "--timing-only: expected no values, got --values all"),
        ("-d cpu -m bert -c huge", "MODEL: expected the name of a model"),
        ("-d tt -m mnist_mlp --arch n151", "arch: expected"),
        ("-d tt -m mnist_mlp --set balancer_policy=Best", "balancer_policy: expected"),
    ],
)
def test_bad_calls_are_one_line(words: str, message: str) -> None:
    done = call(*words.split())
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
