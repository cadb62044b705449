"""Faults planted in the reference compiler: a gate names each in whole models, with its counts and its price."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from opscope.harness.cli.main import root as opscope

pytestmark = pytest.mark.slow

SEEDED = """
from opscope.harness.backends.reference import Reference

LEFT_OUT, CHANGED, SHARE, EXCHANGED = {left_out}, {changed}, {share}, {exchanged!r}


class Own(Reference):
    name = "seeded"

    def target(self, options):
        return super().target(options.changed(**CHANGED))

    def climb(self, stage, job):
        from opscope.compiler.passes import ttnn_optimizer
        from opscope.compiler.passes.ttir_fusing.matching import RULES

        for name, rules in RULES.items():
            RULES[name] = [rule for rule in rules if rule.__name__ not in LEFT_OUT]
        ttnn_optimizer.SHARE = SHARE
        job.options = job.options.changed(**CHANGED)
        super().climb(stage, job)
        if EXCHANGED and stage == "ttir-to-ttnn":
            for op in job.state[stage].walk():
                if op.name == EXCHANGED:
                    op.operands[1], op.operands[2] = op.operands[2], op.operands[1]
"""


def gated(
    place: Path, model: str, left_out: tuple[str, ...] = (), share: float = 0.75, exchanged: str = "", **changed: str
) -> dict[str, Any]:
    """What the gate says of the reference with a fault, at level 2."""
    text = SEEDED.format(left_out=left_out, changed=changed, share=share, exchanged=exchanged)
    (place / "seeded.py").write_text(text, encoding="utf-8")
    words = ["--old", "reference", "--new", "seeded.py", "--optimization-level", "2", "--json", "--no-smallest"]
    done = CliRunner().invoke(opscope, ["gate", "--model", model, *words])
    assert done.exit_code in (0, 1), repr(done.exception)
    return json.loads(done.stdout)


def counts(answer: dict[str, Any]) -> dict[str, int]:
    """Op -> how many more of it there are in the new program."""
    found: dict[str, int] = {}
    for name, (old, new) in (item for each in answer["changes"] for item in each["places"][0]["counts"].items()):
        found[name.removeprefix("ttnn.")] = found.get(name.removeprefix("ttnn."), 0) + new - old
    return found


def rise(answer: dict[str, Any]) -> float:
    """Percent by which the cycles of the one model rise."""
    [model] = answer["models"]
    old, new = model["cycles"]
    return (new / old - 1) * 100


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("left_out", "named", "percent"),
    [
        (
            ("softmax",),
            {"scaled_dot_product_attention": -12, "exp": 12, "sum": 12, "max": 12, "divide": 12},
            18.46,
        ),
        (("normalised",), {"layer_norm": -25, "mean": 50}, 2.88),
    ],
    ids=["F2", "F3"],
)
def test_a_fusion_that_is_lost(place: Path, left_out: tuple[str, ...], named: dict[str, int], percent: float) -> None:
    answer = gated(place, "bert_base", left_out)
    found = counts(answer)
    assert {name: found.get(name, 0) for name in named} == named
    assert rise(answer) == pytest.approx(percent, rel=0.01)
    assert answer["verdict"] == "worse"


def test_a_layout_that_is_lost(place: Path) -> None:
    answer = gated(place, "resnet50", share=0.25)
    layouts = [change for change in answer["changes"] if "conv2d" in json.dumps(change)]
    assert layouts
    assert {"layout", "ops"} & {change["kind"] for change in layouts}
    assert rise(answer) == pytest.approx(4.82, rel=0.01)


@pytest.mark.parametrize(
    ("changed", "percent"),
    [
        ({"math_fidelity": "HiFi2"}, -0.06),
        ({"math_fidelity": "LoFi"}, -0.09),
        ({"numerics": "ttnn"}, 0.0),
        ({"data_format": "Bfp8_b"}, -16.79),
    ],
    ids=["N1", "N2", "N3", "N4"],
)
def test_numbers_that_change(place: Path, changed: dict[str, str], percent: float) -> None:
    answer = gated(place, "llama_prefill", **changed)
    [model] = answer["models"]
    assert model["numbers"] in ("within", "worse", "better", "wrong")
    assert "relative L2" in model["reason"] or model["numbers"] == "wrong"
    assert rise(answer) == pytest.approx(percent, rel=0.01, abs=0.01)


def test_operands_that_are_exchanged(place: Path) -> None:
    answer = gated(place, "bert_base", exchanged="ttnn.scaled_dot_product_attention")
    [model] = answer["models"]
    assert (model["numbers"], answer["verdict"]) == ("wrong", "worse")
    assert rise(answer) == 0
    assert [row["label"] for row in answer["news"]] == ["NEW"]


def test_a_build_against_itself_five_times(place: Path) -> None:
    words = ["--old", "reference", "--new", "reference", "--optimization-level", "2", "--json"]
    for _ in range(5):
        done = CliRunner().invoke(opscope, ["gate", "--model", "llama_prefill", "--model", "bert_base", *words])
        answer = json.loads(done.stdout)
        assert (done.exit_code, answer["changes"], answer["op_changes"], answer["worse"]) == (0, [], [], [])
        assert answer["compared"] == 2
        assert {model["numbers"] for model in answer["models"]} == {"equal bits"}
