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
from importlib import import_module

from opscope.harness.backends.reference import Reference

LEFT_OUT, CHANGED, SHARE, EXCHANGED = {left_out}, {changed}, {share}, {exchanged!r}
PASSES = "opscope.compiler.passes."


def skip(module, name):
    setattr(getattr(import_module(module), name), "apply", lambda self, ctx, op: None)


def exchange(module, name, make):
    # Once: a lane that is kept takes several programs.
    place = module if not isinstance(module, str) else import_module(module)
    own = getattr(place, name)
    if not hasattr(own, "changed"):
        made = make(own)
        made.changed = True
        setattr(place, name, made)


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
        {fault}
        super().climb(stage, job)
        if EXCHANGED and stage == "ttir-to-ttnn":
            for op in job.state[stage].walk():
                if op.name == EXCHANGED:
                    op.operands[1], op.operands[2] = op.operands[2], op.operands[1]
"""


def gated(
    place: Path,
    model: str,
    left_out: tuple[str, ...] = (),
    share: float = 0.75,
    exchanged: str = "",
    fault: str = "pass",
    dtype: str = "float32",
    **changed: Any,
) -> dict[str, Any]:
    """What the gate says of the reference with a fault, at level 2."""
    text = SEEDED.format(left_out=left_out, changed=changed, share=share, exchanged=exchanged, fault=fault)
    (place / "seeded.py").write_text(text, encoding="utf-8")
    words = ["--old", "reference", "--new", "seeded.py", "--optimization-level", "2", "--json", "--no-smallest"]
    words += ["--dtype", dtype]
    done = CliRunner().invoke(opscope, ["gate", "--model", model, *words])
    assert done.exit_code in (0, 1), repr(done.exception)
    return json.loads(done.stdout)


def counts(answer: dict[str, Any]) -> dict[str, int]:
    """Op, or layout of one -> how many more of it there are in the new program."""
    places = [each["places"][0] for each in answer["changes"]]
    pairs = {name: pair for place in places for name, pair in (*place["counts"].items(), *place["layouts"].items())}
    return {name.replace("ttnn.", ""): new - old for name, (old, new) in pairs.items()}


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
        (("attention",), {"scaled_dot_product_attention": -12, "matmul": 24, "softmax": 12}, 17.58),
        (
            ("softmax",),
            {"scaled_dot_product_attention": -12, "exp": 12, "sum": 12, "max": 12, "divide": 12},
            18.46,
        ),
        (("normalised",), {"layer_norm": -25, "mean": 50}, 2.88),
        (("weighted", "shifted"), {"layer_norm": 0, "multiply": 25, "add": 25}, 2.24),
        (("gelu",), {"fused linear gelu": -12, "erf": 12, "multiply": 36}, 6.71),
        (("bias",), {"linear": -73, "matmul": 73, "fused linear gelu": -12}, 3.16),
    ],
    ids=["F1", "F2", "F3", "F4", "F5", "F6"],
)
def test_a_fusion_that_is_lost(place: Path, left_out: tuple[str, ...], named: dict[str, int], percent: float) -> None:
    answer = gated(place, "bert_base", left_out)
    found = counts(answer)
    assert {name: found.get(name, 0) for name in named} == named
    assert rise(answer) == pytest.approx(percent, rel=0.01)
    assert answer["verdict"] == "worse"


OPTIMIZER = "PASSES + 'ttnn_optimizer'"
IN_DRAM = f"exchange(import_module({OPTIMIZER})._Chooser, 'may_move', lambda own: lambda self, value: {{condition}})"
THIRD = "[op for op in self.block.ops if op.name == 'ttnn.rms_norm'][2:3]"
LAST = "import_module(PASSES + 'ttnn_deallocate').TtnnDeallocate"
NORMS = "[op for op in module.walk() if op.name == 'ttnn.layer_norm']"
LARGER = (
    f"[op.properties.update(epsilon=import_module('xdsl.dialects.builtin').FloatAttr(0.003, 32)) for op in {NORMS}]"
)
EPSILON = f"exchange({LAST}, 'apply', lambda own: lambda self, _, module: ({LARGER}, own(self, _, module)))"


@pytest.mark.parametrize(
    ("model", "fault", "named", "totals", "percent"),
    [
        ("llama_prefill", {"left_out": ("normalised",)}, {"rms_norm": -9}, {"l1 width_sharded": 19}, 13.41),
        (
            "llama_prefill",
            {"fault": f"import_module({OPTIMIZER}).LOCAL = frozenset(['eltwise'])"},
            {"rms_norm l1 width_sharded": -8},
            {},
            8.59,
        ),
        (
            "bert_base",
            {"fault": f"import_module({OPTIMIZER}).IN_DRAM |= {{'data_movement'}}"},
            {},
            {"l1 interleaved": -173, "l1 block_sharded": -2},
            9.21,
        ),
        ("llama_prefill", {"left_out": ("silu",)}, {"fused matmul silu": -4, "sigmoid": 4, "multiply": 4}, {}, 2.30),
        (
            "resnet50",
            {"left_out": ("relu",)},
            {"fused conv2d relu": -33, "relu": -16, "maximum": 49, "ahead full": 1},
            {"const-eval": 1},
            8.84,
        ),
        (
            "resnet50",
            {"left_out": ("scaled", "raised", "lowered")},
            {"multiply": 53, "subtract": 53, "add": 53, "relu": 33, "ahead reshape": -159, "fused conv2d relu": -33},
            {},
            45.00,
        ),
        (
            "llama_prefill",
            {"left_out": ("embedding",)},
            {"embedding": -1, "gather": 1, "reshape": 1},
            {},
            1.51,
        ),
        (
            "llama_prefill",
            {"left_out": ("halves",)},
            {"rotary_embedding": -8, "multiply": 32, "slice_static": 16, "concat": 8, "ahead concat": -2},
            {},
            18.15,
        ),
        (
            "gpt2_prefill",
            {"left_out": ("mean", "normalised")},
            {"layer_norm": -9, "sum": 18, "divide": 18, "rsqrt": 9, "ahead full": 2},
            {},
            39.96,
        ),
        (
            "mnist_mlp_train",
            {"fault": IN_DRAM.format(condition="False")},
            {"sum l1 interleaved": -13, "sum dram interleaved": 13, "matmul l1 block_sharded": -4},
            {"dram interleaved": 67, "l1 block_sharded": -24, "l1 interleaved": -23, "l1 height_sharded": -20},
            12.32,
        ),
        (
            "resnet50",
            {"fault": f"import_module({OPTIMIZER}).PRODUCTS = frozenset(['matmul', 'linear'])"},
            {"conv2d l1 block_sharded": -34, "conv2d l1 height_sharded": -8, "conv2d l1 interleaved": 46},
            {},
            11.44,
        ),
        (
            "llama_prefill",
            {"fault": IN_DRAM.format(condition=f"value.owner not in {THIRD} and own(self, value)")},
            {"rms_norm l1 width_sharded": -1, "rms_norm dram interleaved": 1},
            {"dram interleaved": 1, "l1 width_sharded": -1},
            1.14,
        ),
        (
            "llama_prefill",
            {"fault": "skip(PASSES + 'const_eval_hoist_transform', 'ConstEvalHoistTransform')"},
            {"ttcore.load_cached": -5, "full": 7, "ahead full": -8, "cos": 1, "ahead cos": -1, "reshape": 3},
            {"const-eval": -28},
            11.96,
        ),
        (
            "llama_prefill",
            {"fault": "import_module(PASSES + 'const_eval_hoist_transform').NEVER |= {'control', 'shape'}"},
            {},
            {},
            0.0,
        ),
        (
            "llama_prefill",
            {
                "fault": "skip('xdsl.transforms.common_subexpression_elimination', 'CommonSubexpressionElimination')",
            },
            {"reshape": 8, "ahead full": 38, "ahead arange": 21, "ttcore.load_cached": 10},
            {},
            2.20,
        ),
        (
            "bert_base",
            {"fault": "skip(PASSES + 'ttir_erase_inverse_ops', 'TtirEraseInverseOps')"},
            {"reshape": 84, "permute": 12, "gelu": 12, "fused linear gelu": -12},
            {"l1 interleaved": 96, "l1 width_sharded": 12},
            5.89,
        ),
        (
            "gpt2_prefill",
            {"fault": "skip(PASSES + 'ttir_implicit_broadcast_fold', 'TtirImplicitBroadcastFold')"},
            {"repeat": 26, "ahead repeat": 37, "linear": -16, "layer_norm": -9, "scaled_dot_product_attention": -4},
            {},
            88.53,
        ),
        (
            "gpt2_prefill",
            {
                "fault": "import_module(PASSES + 'ttir_fusing.typecast').Typecasts.match_and_rewrite = lambda *_: None",
                "dtype": "bfloat16",
            },
            {"typecast": 44, "softmax": -4, "layer_norm": -9},
            {"casts": 44},
            37.67,
        ),
        (
            "mnist_mlp",
            {
                "fault": "import_module(PASSES + 'stablehlo_host_fallback')._needs_host = ("
                "lambda op, formats: op.name == 'stablehlo.maximum')",
                "unsupported_types": "fallback",
            },
            {"host_op": 2, "from_device": 4, "fused linear relu": -2, "to_layout": 6},
            {"on host": 6},
            3.39,
        ),
        (
            "mnist_mlp_train",
            {"fault": "skip(PASSES + 'ttnn_deallocate', 'TtnnDeallocate')"},
            {},
            {"peak of DRAM bytes": 1032192, "peak of L1 bytes of a core": 219136},
            0.0,
        ),
        ("bert_base", {"fault": EPSILON}, {}, {}, 0.0),
        ("llama_prefill", {"fault": "skip(PASSES + 'ttnn_fusing', 'TtnnFusing')"}, {"silu": 4}, {}, 0.83),
        ("llama_prefill", {"amp_level": 1}, {}, {}, -12.61),
    ],
    ids=[
        *("F8", "L1", "L2"),
        *(
            "silu",
            "relu",
            "batch-norm",
            "embedding",
            "rotary",
            "norm-by-sums",
            "all-in-dram",
            "products",
            "one-of-nine",
        ),
        *("no-const-eval", "control", "no-cse", "moves-that-undo-moves", "broadcasts", "casts", "on-the-host"),
        *("nothing-is-freed", "epsilon", "activation-of-a-product", "mixed-precision"),
    ],
)
def test_faults_of_other_kinds(
    place: Path, model: str, fault: dict[str, Any], named: dict[str, int], totals: dict[str, int], percent: float
) -> None:
    answer = gated(place, model, **fault)
    found = counts(answer)
    assert {name: found.get(name, 0) for name in named} == named
    [whole] = answer["models"]
    more = {name: new - old for name, (old, new) in whole["totals"].items()}
    assert {name: more.get(name, 0) for name in totals} == totals
    assert rise(answer) == pytest.approx(percent, rel=0.01, abs=0.005)
    prices = [change["places"][0]["cycles"] for change in answer["changes"]]
    assert sum(new - old for old, new in prices) == whole["cycles"][1] - whole["cycles"][0]
    if not named and not totals and not percent and "epsilon" not in fault["fault"]:
        assert (whole["equal"], answer["changes"], answer["worse"]) == (True, [], [])
    if "epsilon" in fault.get("fault", ""):
        assert [change["what"] for change in answer["changes"]] == ["epsilon of ttnn.layer_norm"]
        assert whole["numbers"] == "within"
    if "TtnnDeallocate')" in fault.get("fault", ""):
        assert (whole["equal"], len(answer["worse"])) == (True, 2)


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        ("llama_decode", {"left_out": ("written",)}),
        ("mnist_mlp_train", {"left_out": ("softmax",)}),
        ("bert_base", {"fault": f"import_module({OPTIMIZER}).LOCAL = frozenset(['eltwise'])"}),
    ],
    ids=["cache", "softmax", "norms"],
)
def test_a_fault_that_changes_no_program_is_no_alarm(place: Path, model: str, fault: dict[str, Any]) -> None:
    answer = gated(place, model, **fault)
    [whole] = answer["models"]
    assert (whole["equal"], whole["numbers"], answer["changes"], answer["worse"]) == (True, "equal bits", [], [])


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
