"""The models: published sizes, what their ops are, and outputs that are not degenerate."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from opscope.compiler.tests import programs
from opscope.models import frontends, registry
from opscope.models.arguments import Built
from opscope.models.seeding import draw

PARAMETERS = {
    "resnet50": 25_557_032,
    "bert_base": 109_482_240,
    "vit_base": 86_567_656,
    "gpt2_small": 124_439_808,
    "mnist_mlp": 784 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10,
    "smollm_135m": 134_515_008,
    "t5_small": 60_506_624,
    "mobilenet_v2": 3_504_872,
    "gcn_cora": 23_063,
    "whisper_tiny_encoder": 8_208_384,
    "resnet50_flax": 25_557_032,
    "mixer_s16_flax": 18_528_264,
    "lstm_ptb": 10_000 * 200 + 2 * 4 * (400 * 200 + 200) + 200 * 10_000 + 10_000,
}
"""As published (torchvision, checkpoints, papers); batch norm's running statistics are no parameters."""
OTHER_FRAMEWORKS = ["bert_base_flax", "seq2seq_flax", "encoder_equinox", "autoencoder_equinox"]
REDUCED = ["moe_decoder", "mamba_reduced", "dlrm_reduced", "diffusion_unet"]
QUICK = ["mnist_mlp", "gcn_cora"]
BIG = [n for n in (*PARAMETERS, *REDUCED, *OTHER_FRAMEWORKS, "tcn") if n not in QUICK]
QUICK_AND_SLOW = [*QUICK, *(pytest.param(n, marks=pytest.mark.slow) for n in BIG)]


def built_or_skipped(name: str, dtype: str = "float32") -> Built:
    """The model; skips where its framework is not installed."""
    model = registry.get(name)
    if absent := frontends.missing(model.framework, model.path):
        pytest.skip(absent)
    return model.build(dtype)


@pytest.mark.parametrize("name", PARAMETERS)
def test_published_parameter_count(name: str) -> None:
    assert built_or_skipped(name).parameters == PARAMETERS[name]


def test_resnet50_has_53_convolutions_and_their_published_work() -> None:
    jax = pytest.importorskip("jax")
    built = registry.get("resnet50").build("float32")
    structs = {s.name: jax.ShapeDtypeStruct(s.shape, s.dtype) for s in built.arguments}
    equations = jax.make_jaxpr(built.forward)(structs).jaxpr.eqns
    kinds = Counter(str(e.primitive) for e in equations)
    assert kinds["conv_general_dilated"] == 53
    assert kinds["reduce_window"] + kinds["reduce_window_max"] == 1
    work = 2048 * 1000
    for equation in equations:
        if str(equation.primitive) == "conv_general_dilated":
            result, weight = equation.outvars[0].aval.shape, equation.invars[1].aval.shape
            work += math.prod(result) * math.prod(weight[:3])
    # 4.09 G multiply-adds: torchvision's figure for this variant.
    assert round(work / 1e9, 2) == 4.09


@pytest.mark.crossed
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", QUICK_AND_SLOW)
def test_outputs_are_not_degenerate(name: str, dtype: str) -> None:
    jax = pytest.importorskip("jax")
    built = built_or_skipped(name, dtype)
    values = {s.name: draw(s.law, s.shape, s.dtype, 0, i) for i, s in enumerate(built.arguments)}
    for result in jax.tree.leaves(jax.jit(built.forward)(values)):
        assert str(result.dtype) == dtype
        out = np.asarray(result).astype(np.float32)
        assert np.isfinite(out).all()
        assert 0.2 < out.std() < 20
        # Not one value repeated: the rows (or the classes) differ.
        assert len(np.unique(out)) > min(out.size, 2000) // 10


def test_arguments_have_distinct_names_and_known_distributions() -> None:
    names = (*PARAMETERS, *REDUCED, "tcn", "mnist_mlp_train")
    for name in (name for name in names if not frontends.missing(registry.get(name).framework)):
        for spec in registry.get(name).build("bfloat16").arguments:
            assert draw(spec.law, (2,), spec.dtype, 0, 0).shape == (2,)


def test_sizes_say_what_was_reduced() -> None:
    # Whisper's encoder has all its weights and less audio.
    assert {m.name for m in registry.match("all") if m.size == "reduced"} >= {*REDUCED, "whisper_tiny_encoder"}


def test_a_training_step_is_what_finite_differences_say() -> None:
    pytest.importorskip("jax")
    built = registry.get("mnist_mlp_train").build("float32")
    values = {s.name: draw(s.law, s.shape, s.dtype, 0, i) for i, s in enumerate(built.arguments)}
    step = programs.jit(built.forward)
    loss, trained = step(values)
    scores = np.asarray(programs.jit(registry.get("mnist_mlp").build("float32").forward)(values))
    assert float(loss) == pytest.approx(-scores[np.arange(8), values["label"]].mean(), rel=1e-5)
    changed = np.asarray(trained["dense2.bias"]) - values["dense2.bias"]
    for place in range(3):
        moved = dict(values)
        moved["dense2.bias"] = values["dense2.bias"] + np.float32(0.05) * (np.arange(10) == place)
        above = float(step(moved)[0])
        moved["dense2.bias"] = values["dense2.bias"] - np.float32(0.05) * (np.arange(10) == place)
        slope = (above - float(step(moved)[0])) / 0.1
        assert changed[place] == pytest.approx(-0.1 * slope, rel=2e-2, abs=1e-4)
    assert float(step(values | trained)[0]) < float(loss)
