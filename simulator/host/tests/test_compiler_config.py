"""TT-Buda's compiler configuration, modules and environment variables as public programs use them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscope import pybuda
from opscope.compiler.api import NoEffect
from opscope.pybuda import aliases
from opscope.simulator.host.correlation import check_correlation
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.settings import environment, without_effect
from opscope.simulator.host.settings.compiler_config import ATTRIBUTES
from opscope.simulator.host.settings.options import configuration, option
from opscope.simulator.host.tests.layers import WORMHOLE, Layer, X, near


@pytest.fixture(autouse=True)
def _nothing_said_and_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(without_effect, "_said", set())
    for name in list(os.environ):
        if name.startswith(environment.PREFIXES):
            monkeypatch.delenv(name)


def config() -> Any:
    return pybuda.config._get_global_compiler_config()


def _call(*calls: Callable[[], object]) -> None:
    for call in calls:
        call()


def test_attributes_are_options() -> None:
    cfg = config()
    assert (cfg.balancer_policy, cfg.default_math_fidelity) == ("default", pybuda.MathFidelity.HiFi3)
    cfg.balancer_policy = "CNN"
    cfg.default_df_override = pybuda._C.Float16_b
    cfg.default_accumulate_df = pybuda.DataFormat.Float32
    cfg.enable_auto_fusing = False
    cfg.default_dram_parameters = False
    cfg.harvesting_mask = 2050
    cfg.op_intermediates_to_save.append("one.product")
    cfg.dont_fuse("one.tanh")
    cfg.place_on_new_epoch(["one.tanh"])
    cfg.enable_amp_light(3)
    cfg.balancer_op_override("one.product", "t_stream_shape", (1, 2))
    made = configuration()
    assert made.values == {
        "balancer_policy": "CNN",
        "default_df_override": "Float16_b",
        "accumulate_df": "Float32",
        "enable_auto_fusing": False,
        "default_dram_parameters": False,
        "harvested_rows": (1, 11),
        "op_intermediates_to_save": ("one.product",),
        "op_names_dont_fuse": ("one.tanh",),
    }
    assert (made.epoch_breaks, made.overrides["one.product"].stream_shape) == (["one.tanh"], (1, 2))
    assert (made.precisions[0].math_fidelity, made.precisions[0].input_df[1]) == ("LoFi", "Bfp4_b")
    assert cfg.default_df_override is pybuda.DataFormat.Float16_b
    assert cfg.harvesting_mask == 2050
    assert pybuda.CompilerConfig(amp_level=1).amp_level == 1
    pybuda.pybuda_reset()
    assert configuration().values == {}
    assert config() is cfg


@pytest.mark.parametrize("name", [name for name, one in ATTRIBUTES.items() if one.no_effect])
def test_one_without_effect_is_kept_and_says_why_once(name: str) -> None:
    value = ATTRIBUTES[name].default
    with pytest.warns(NoEffect, match=f"{name}: has no effect here: ") as said:
        _call(*[lambda: setattr(config(), name, value)] * 2)
    assert len(said) == 1
    assert getattr(config(), name) == value
    assert configuration().values == {}


def test_a_set_that_a_program_adds_to_is_its_own() -> None:
    with pytest.warns(NoEffect, match="cpu_fallback_ops"):
        config().cpu_fallback_ops.add("adv_index")
    assert config().cpu_fallback_ops == {"embedding", "adv_index"}
    pybuda.pybuda_reset()
    assert config().cpu_fallback_ops == {"embedding"}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("balancer_polic", "CNN", "expected an attribute of TT-Buda's, got 'balancer_polic'; try balancer_policy"),
        ("balancer_policy", "Best", "balancer_policy: expected MaximizeTMinimizeGrid"),
        ("enable_tvm_constant_prop", 1, "enable_tvm_constant_prop: expected a value of type bool, got 1"),
        ("harvesting_mask", -1, "expected a mask of rows, got -1"),
        ("harvesting_mask", 1, "expected rows 1-5 and 7-11"),
    ],
)
def test_an_invented_attribute_or_value_is_one_line(name: str, value: object, expected: str) -> None:
    with pytest.raises(PyBudaError, match=expected) as error:
        setattr(config(), name, value)
    assert "\n" not in str(error.value)
    assert not hasattr(config(), "frobnicate")


def test_every_module_and_name_is_there() -> None:
    from opscope.simulator.host.names import MODULES
    from opscope.simulator.host.submodules.alias_modules import alias_module

    aliases.install()
    for module, names in MODULES.items():
        for name in names if module not in ("torch_schedulers", "transformers.pipeline") else ():
            assert getattr(alias_module(module), name, None) is not None or name == "LAST_SUCCESSFUL_STAGE"
            assert name in dir(alias_module(module))
    assert pybuda._C.backend_api.BackendDevice is pybuda.BackendDevice
    assert pybuda._C.Bfp8_b is pybuda.DataFormat.Bfp8_b
    assert pybuda.tensor.TensorFromPytorch is pybuda.Tensor
    assert (pybuda.utils.align_up_tile(33), pybuda.pybudaglobal.TILE_DIM) == (64, 32)
    starred: dict[str, Any] = {}
    exec("from pybuda import *", starred)
    assert starred["TTDevice"] is pybuda.TTDevice
    with pytest.raises(AttributeError):
        _ = pybuda.config.frobnicate


def test_functions_of_the_config_module() -> None:
    functions = pybuda.config
    functions.override_t_stream_dir("one.product", "C")
    functions.override_u_kt("one.product", 2)
    functions.override_dram_parameters("one.product", True)
    functions.set_auto_transposing_placement(False)
    functions.override_op_placement("one.tanh", temporal_epoch_break=True)
    functions.override_op_placement("one.product", spatial_epoch_break=True)
    made = configuration()
    override = made.overrides["one.product"]
    assert (override.stream_dir, override.u_kt, override.dram_parameters) == ("c", 2, True)
    assert (made.epoch_breaks, made.chip_breaks) == (["one.tanh"], ["one.product"])
    assert made.get("enable_auto_transposing_placement") is False
    with pytest.warns(NoEffect) as said:
        _call(
            lambda: functions.override_op_placement("one.tanh", start=(0, 0)),
            lambda: functions.add_cpu_fallback_ops("add"),
            lambda: functions.insert_fracture_group([("w", pybuda.k_dim, 2)]),
            lambda: functions.add_schedule_constraint(["a", "b"]),
            lambda: pybuda.override_dram_queue_placement("e2e_a", channel=0),
            lambda: functions.override_input_buffer_multiplier("a", 0, multiplier=2),
        )
    assert len(said) == 6
    for bad in (lambda: pybuda.insert_nop("a", []), lambda: pybuda.insert_nop("a", "b", nop_count=0)):
        with pytest.raises(PyBudaError, match="insert_nop: expected names"):
            bad()
    other = pybuda.CompilerConfig(amp_level=1)
    functions._set_global_compiler_config(other)
    assert configuration().values == {"amp_level": 1}


def test_a_nop_and_parameters_in_l1_change_no_bit() -> None:
    device = pybuda.TTDevice("a", arch=WORMHOLE, module=Layer("one"))
    plain = pybuda.run_inference(inputs=[X], sequential=True).get()[0].value()
    pybuda.pybuda_reset()
    config().default_dram_parameters = False
    pybuda.insert_nop("act", "one.product")
    device = pybuda.TTDevice("a", arch=WORMHOLE, module=Layer("one"))
    with_nop = pybuda.run_inference(inputs=[X], sequential=True).get()[0].value()
    graph = device.compiled[0].compilation.graph
    assert graph is not None
    assert "buffer_0_act_one.product" in {node.name for node in graph.ops}
    np.testing.assert_array_equal(plain, with_nop)


def test_a_parameter_has_a_format_of_its_own() -> None:
    module = Layer("one")
    pybuda.TTDevice("a", arch=WORMHOLE, module=module)
    for parameter in module.get_parameters():
        parameter.set_data_format(pybuda.DataFormat.Float16)
    result = pybuda.run_inference(inputs=[X.astype(np.float16)], sequential=True).get()[0].value()
    assert near(result.astype(np.float32), np.asarray(module.compute([X])[0], np.float32))
    with pytest.raises(PyBudaError, match=r"expected a pybuda.DataFormat, got 'Float16'"):
        module.get_parameters()[0].set_data_format("Float16")  # type: ignore[arg-type]


def test_variables_are_options_where_a_program_sets_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, text in {
        "PYBUDA_DISABLE_OP_FUSING": "1",
        "PYBUDA_DEFAULT_DF": "Float16_b",
        "PYBUDA_DISABLE_STABLE_SOFTMAX": "1",
        "PYBUDA_BALANCER_POLICY_TYPE": "NLP",
        "PYBUDA_AMP_LEVEL": "2",
        "PYBUDA_AMP_LIGHT": "1",
        "PYBUDA_OVERRIDE_DEVICE_YAML": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, text)
    config().balancer_policy = "Ribbon"
    config().amp_level = 1
    with pytest.warns(NoEffect, match="PYBUDA_OVERRIDE_DEVICE_YAML: has no effect here: there is no file"):
        made = configuration()
    assert made.values == {
        "enable_auto_fusing": False,
        "default_df_override": "Float16_b",
        "enable_stable_softmax": False,
        "balancer_policy": "NLP",
        "amp_level": 1,
    }
    assert made.precisions[0].input_df == {1: "Bfp8_b", 2: "Bfp8_b"}
    assert option("enable_stable_softmax") is False
    monkeypatch.setenv("PYBUDA_DEFAULT_DRAM_PARAMETERS", "perhaps")
    with pytest.raises(PyBudaError, match="PYBUDA_DEFAULT_DRAM_PARAMETERS: expected 0 or 1, got 'perhaps'"):
        configuration()


def test_variables_without_effect_say_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYBUDA_RIBBON2_X", "TT_BACKEND_TIMEOUT", "PYBUDA_FROBNICATE", "PYBUDA_EXP_APPROX"):
        monkeypatch.setenv(name, "1")
    with pytest.warns(NoEffect) as said:
        _call(configuration, configuration)
    reasons = [str(warning.message).partition("has no effect here: ")[2] for warning in said]
    assert reasons == [
        "exponentials are as exact as the card's",
        "no variable of that name is known",
        "the planner here has no such choice",
        "there is no backend runtime",
    ]


def test_ops_of_another_compilers_names_stop_no_model_of_a_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    config().place_on_new_epoch("conv2d_14.dc.matmul.8")
    config().balancer_op_override("conv2d_14.dc.matmul.8", "grid_shape", (5, 3))
    module = Layer("one")
    device = pybuda.TTDevice("a", arch=WORMHOLE, module=module)
    with pytest.raises(PyBudaError, match=r"expected a node of one, got 'conv2d_14"):
        device.compile_modules([X])
    import jax

    jax_module = pybuda.JaxModule("two", jax.nn.relu)
    other = pybuda.TTDevice("b", arch=WORMHOLE, module=jax_module)
    with pytest.warns(NoEffect, match="conv2d_14"):
        other.compile_modules([X])
    assert other.compiled


def test_overrides_of_ops_are_fixed_when_and_after_they_are_written() -> None:
    override, cfg = pybuda._C.balancer.OpOverride(), config()
    override.t_stream_dir = "n"
    cfg.balancer_op_overrides["one.product"] = override
    override.grid_shape = (1, 2)
    assert cfg.balancer_op_overrides["one.product"] is override
    fixed = configuration().overrides["one.product"]
    assert (fixed.stream_dir, fixed.grid and (fixed.grid.r, fixed.grid.c)) == ("n", (1, 2))
    with pytest.raises(PyBudaError, match=r"balancer_op_override: t_stream_dir of one.product: expected n, r, c"):
        override.t_stream_dir = "up"
    with pytest.raises(PyBudaError, match=r"OpOverride: expected one of grid_shape, .*, got 'grid'"):
        override.grid = (1, 2)
    with pytest.raises(PyBudaError, match=r"balancer_op_overrides: expected an OpOverride, got \(1, 2\)"):
        cfg.balancer_op_overrides["one.product"] = (1, 2)
    other = pybuda.CompilerConfig(balancer_op_overrides={"two": override})
    other.take_over(cfg)
    assert list(other.balancer_op_overrides) == ["one.product"]
    pybuda.pybuda_reset()
    assert not configuration().overrides
    assert not config().balancer_op_overrides


def test_options_of_a_verification() -> None:
    kinds = pybuda.verify.TestKind
    assert kinds.get(True, recompute=True).is_recompute()
    assert not kinds.get(False).is_training()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not pybuda.VerifyConfig().compares
        asked = pybuda.VerifyConfig(verify_all=True, arch=WORMHOLE)
        assert asked.compares
        assert asked.least == 0.99
        assert not pybuda.VerifyConfig.disabled().compares
    with pytest.warns(NoEffect, match="VerifyConfig: run_net2pipe"):
        pybuda.VerifyConfig(run_net2pipe=True)
    with pytest.raises(PyBudaError, match=r"VerifyConfig: arch: expected a pybuda.BackendDevice, got 'n150'"):
        pybuda.VerifyConfig(arch="n150")  # type: ignore[arg-type]
    verify = pybuda.verify.verify_module
    verify(Layer("one"), [X.shape], pybuda.VerifyConfig(arch=WORMHOLE, verify_all=True), params_centered_on_zero=True)
    with pytest.raises(PyBudaError, match=r"verify: expected output 0 of the card to correlate"):
        verify(Layer("one"), [X.shape], pybuda.VerifyConfig(arch=WORMHOLE, pcc=1.1), params_centered_on_zero=True)
    loose = pybuda.VerifyConfig(arch=WORMHOLE, pcc=1.1, relative_atol=0.2)
    verify(Layer("one"), [X.shape], loose, params_centered_on_zero=True)


def test_tolerances_that_a_verification_states() -> None:
    wanted = np.linspace(1, 2, 64, dtype=np.float32)
    got = wanted[::-1].copy()  # at most 1 off, and correlated by -1
    stated: list[dict[str, Any]] = [
        {"relative_atol": 0.6},
        {"atol": {np.float32: 1.1}},
        {"atol": {"float16": 0.0, "float32": 1.1}},
        {"rtol": {np.dtype(np.float32): 1.0}, "atol": {np.float32: 0.01}},
    ]
    for options in stated:
        check_correlation("a", got, wanted, pybuda.VerifyConfig(**options))
        assert pybuda.VerifyConfig(**options).compares
    refused: list[dict[str, Any]] = [
        {},
        {"relative_atol": 0.4},
        {"atol": {np.float32: 0.9}},
        {"relative_atol": 0.6, "golden_compare_callback": lambda golden, result: False},
    ]
    for options in refused:
        with pytest.raises(PyBudaError, match=r"expected a to correlate with XLA's by 0.99, got -1"):
            check_correlation("a", got, wanted, pybuda.VerifyConfig(**options))


def test_what_is_no_finite_number_is_in_both_results() -> None:
    wanted = np.array([1, np.nan, np.inf, 2, 3], np.float32)
    check_correlation("a", wanted, wanted, pybuda.VerifyConfig())
    check_correlation("a", wanted * np.float32(1.01), wanted, pybuda.VerifyConfig())
    for at, value in ((0, np.nan), (1, 1), (2, -np.inf), (2, 3e38)):
        got = wanted.copy()
        got[at] = value
        with pytest.raises(PyBudaError, match=r"expected a to be finite where XLA's is, got \d NaN .* 1 of them"):
            check_correlation("a", got, wanted, pybuda.VerifyConfig(relative_atol=1e9))
