"""Backends: found by name, entry point or path; adding one is adding one file."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.backends import registry
from opscope.harness.backends.base import Job, StageError
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage
from opscope.harness.tests.ops import FAULTY
from opscope.harness.verdict.tolerance import tolerance

OWN = (
    "buda",
    "inductor",
    "iree",
    "null",
    "onnxruntime",
    "openvino",
    "reference",
    "stablehlo-interpreter",
    "tt",
    "tvm",
    "xla",
)
MATMUL = b"""func.func @main(%a: tensor<64x96xf32>, %b: tensor<96x32xf32>) -> tensor<64x32xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<64x96xf32>, tensor<96x32xf32>)
    -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"""


def climb_all(backend, module, inputs, **options):
    job = Job("op", module, inputs, ResultOptions(**options))
    for stage in backend.stages:
        backend.climb(stage, job)
    return job


@pytest.fixture
def operands():
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape, dtype=np.float32) for shape in ((64, 96), (96, 32))]


@pytest.mark.parametrize("name", OWN)
def test_each_backend_describes_itself(name):
    backend = registry.load(name)
    assert backend.name == name
    if backend.available():
        pytest.skip(backend.available())
    if "load" not in registry.declarations_of(name).methods:  # a library would stay in the tests' process
        assert backend.fingerprint() == backend.fingerprint() != ""
    assert Stage.SPLIT not in backend.stages
    assert backend.stages[-1] is Stage.RUN
    assert backend.target(ResultOptions()).card_type != "n150"


def test_entry_points_and_files_agree():
    points = {point.name: point for point in entry_points(group=registry.GROUP)}
    assert set(OWN) <= set(registry.names())
    assert registry.own_names() == sorted((*OWN, "pjrt")), "which is none without an argument"
    assert registry.own_commands() == ["ttmlir"]
    for name in OWN:
        assert points[name].load() is type(registry.load(name))


def test_xla_computes_exactly_and_in_its_own_types(operands):
    job = climb_all(registry.load("xla"), MATMUL, operands)
    assert job.ran_on == "host"
    np.testing.assert_allclose(job.outputs[0], operands[0].astype(np.float64) @ operands[1], rtol=1e-4, atol=1e-5)
    half = MATMUL.replace(b"xf32", b"xbf16")
    job = climb_all(registry.load("xla"), half, [x.astype(ml_dtypes.bfloat16) for x in operands])
    assert job.outputs[0].dtype == ml_dtypes.bfloat16


def test_reference_computes_in_the_devices_types(operands):
    reference = registry.load("reference")
    exact = operands[0].astype(np.float64) @ operands[1]
    errors = {}
    for fidelity in ("LoFi", "HiFi2", "HiFi4"):
        job = climb_all(reference, MATMUL, operands, math_fidelity=fidelity)
        errors[fidelity] = np.linalg.norm(job.outputs[0] - exact) / np.linalg.norm(exact)
    assert errors["LoFi"] > errors["HiFi2"] > errors["HiFi4"] > 1e-5
    assert job.ran_on == "simulator"
    assert job.cycles > 0
    assert job.device_ns > 0
    assert job.l1_peak_bytes > 0
    assert [desc.buffer_type for desc in job.output_descs] == ["dram"]
    assert job.pipeline.startswith("legalize-stablehlo-composite-to-ttir,inline,stablehlo-to-ttir")


def test_a_refusal_keeps_the_compilers_words():
    module = b"""func.func @main(%a: tensor<4xf64>) -> tensor<4xf64> {
      %0 = stablehlo.abs %a : tensor<4xf64>
      return %0 : tensor<4xf64>
    }"""
    with pytest.raises(StageError) as refusal:
        climb_all(registry.load("reference"), module, [np.ones(4)])
    assert "64" in refusal.value.message
    with pytest.raises(StageError, match="not_an_op"):
        climb_all(registry.load("xla"), b"func.func @main() { %0 = stablehlo.not_an_op : tensor<2xf32> return }", [])


def test_an_op_that_does_not_fit_is_refused_by_the_device():
    side = 70_000
    kind = f"tensor<{side}x{side}xf32>"
    module = f"func.func @main(%a: {kind}) -> {kind} {{ %0 = stablehlo.abs %a : {kind} return %0 : {kind} }}"
    with pytest.raises(StageError, match="OutOfMemory") as caught:
        climb_all(registry.load("reference"), module.encode(), [])
    assert "bytes for tensor 2, Float32 70000x70000 (to_device" in caught.value.diagnostic
    assert caught.value.files[".memory.svg"].startswith("<svg")


@each(
    ("options", "line"),
    [
        ({"arch": "n15"}, "--arch: expected a board or an arch, got 'n15'; try n150"),
        ({"data_format": "Bfp8c"}, "--data-format: expected a float format of n150, got 'Bfp8c'; try Bfp8"),
    ],
)
def test_bad_options_are_one_line_with_the_closest_names(options, line):
    with pytest.raises(InputError) as refusal:
        registry.load("reference").target(ResultOptions(**options))
    assert str(refusal.value).startswith(line)


def test_options_are_taken_in_any_case():
    target = registry.load("reference").target(
        ResultOptions(arch="wormhole_b0", data_format="bfp8_b", math_fidelity="lofi")
    )
    assert (target.card_type, target.float_format, target.math_fidelity) == ("sim-n150", "Bfp8_b", "LoFi")


@each(("level", "floats", "products"), [(0, None, None), (1, None, "Bfp8_b"), (2, "Float16", "Bfp8")])
def test_mixed_precision_is_part_of_what_the_target_computes_in(level, floats, products):
    target = registry.load("reference").target(ResultOptions(amp_level=level))
    assert (target.float_format, target.product_format) == (floats, products)
    loose = tolerance(target, "matmul", "f32", op_name="stablehlo.dot_general").relative_l2
    assert (loose > 1e-2) is bool(level)
    assert (tolerance(target, "eltwise", "f32", op_name="stablehlo.add").relative_l2 > 1e-3) is (level == 2)


def test_the_target_says_what_its_functions_and_its_dst_can_do():
    target = registry.load("reference").target(ResultOptions(arch="n150"))
    assert target.error_bound is not None
    names = ("add", "tanh", "negate", "maximum", "dot_general", "clamp", "no_such_op")
    assert [target.error_bound(f"stablehlo.{name}") for name in names] == [0.5, 4, 0, 0, None, None, None]
    assert target.error_bound("chlo.erf") == 4
    assert target.error_bound("chlo.lgamma") is None  # many ops once it is legalised
    assert target.cuts_result is not None
    cuts = ("chlo.erf", "stablehlo.log", "stablehlo.tanh", "stablehlo.abs", "stablehlo.add", "stablehlo.clamp")
    assert [target.cuts_result(name) for name in cuts] == [True, False, False, False, False, False]
    assert registry.load("xla").target(ResultOptions()).cuts_result is None
    assert registry.load("iree").target(ResultOptions()).sums_in_own_type
    assert not registry.load("xla").target(ResultOptions()).sums_in_own_type
    assert not target.narrow_dst
    assert registry.load("reference").target(ResultOptions(arch="e150")).narrow_dst
    assert registry.load("xla").target(ResultOptions()).error_bound is None


def test_xla_has_no_device_formats():
    with pytest.raises(InputError, match="--data-format: expected none with --backend xla"):
        registry.load("xla").target(ResultOptions(data_format="Bfp8_b"))


@each("name", ["xla", "iree", "stablehlo-interpreter", "buda"])
def test_mixed_precision_is_refused_where_there_is_none(name: str):
    with pytest.raises(InputError, match=f"--amp-level: expected 0 with --backend {name}, got 1; try --backend ref"):
        registry.load(name).target(ResultOptions(amp_level=1))


BF16_PRODUCT = b"""func.func @main(%a: tensor<32x256xbf16>, %b: tensor<256x32xbf16>) -> tensor<32x32xbf16> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] :
    (tensor<32x256xbf16>, tensor<256x32xbf16>) -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}"""


@pytest.mark.parametrize(
    ("options", "fidelity", "narrow"),
    [
        ({}, "HiFi4", False),
        ({"numerics": "ttnn"}, "HiFi2", True),
        ({"numerics": "ttnn", "math_fidelity": "LoFi"}, "LoFi", True),
    ],
    ids=["hifi4", "ttnn", "ttnn with a fidelity"],
)
def test_numerics_decide_how_a_product_is_computed_and_judged(options: dict[str, str], fidelity: str, narrow: bool):
    random = np.random.default_rng(3)
    operands = [random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((32, 256), (256, 32))]
    jobs = [
        climb_all(registry.load("reference"), BF16_PRODUCT, operands, arch="p150", exact_order=exact, **options)
        for exact in (False, True)
    ]
    true = np.matmul(*(x.astype(np.float64) for x in operands))
    most = {"HiFi4": 0.003, "HiFi2": 0.02, "LoFi": 0.06}[fidelity]
    for job, exact in zip(jobs, (False, True), strict=True):
        target = job.target or registry.load("reference").target(job.options)
        assert (target.math_fidelity, target.narrow_dst, target.exact_order) == (fidelity, narrow, exact)
        error = np.linalg.norm(job.outputs[0].astype(np.float64) - true) / np.linalg.norm(true)
        assert most / 4 < error < most
    assert not np.array_equal(*(job.outputs[0] for job in jobs))


def test_what_only_a_simulated_device_of_ours_does_is_refused_elsewhere():
    for name in ("xla", "iree"):
        for options, refusal in (
            (ResultOptions(numerics="ttnn"), f"--numerics: expected .* with --backend {name}"),
            (
                ResultOptions(exact_order=True),
                f"--exact-order: expected a backend that has it, got {name}; try --backend",
            ),
        ):
            with pytest.raises(InputError, match=refusal):
                registry.load(name).target(options)


def test_unsupported_types_run_on_the_host_on_request(operands):
    module = MATMUL.replace(b"xf32", b"xf64")
    operands = [array.astype(np.float64) / 3 for array in operands]
    with pytest.raises(StageError, match=r"f64.*try --unsupported-types=fallback"):
        climb_all(registry.load("reference"), module, operands)
    job = climb_all(registry.load("reference"), module, operands, unsupported_types="fallback")
    assert job.ran_on == "host"
    np.testing.assert_allclose(job.outputs[0], operands[0] @ operands[1], rtol=1e-13)


def test_several_backends_are_named_in_one_word():
    assert registry.split_names("xla, iree") == ("xla", "iree")
    assert registry.split_names("command:a/mine.yaml,xla") == ("a/mine.yaml", "xla")
    for word in ("xla,xla", "a/mine.yaml,b/mine.py"):
        with pytest.raises(InputError, match=r"--backend: expected each backend once, got '.*' twice"):
            registry.split_names(word)
    with pytest.raises(InputError, match="--backend: expected a backend, got ','"):
        registry.split_names(",")


def test_unknown_backends_offer_the_closest():
    with pytest.raises(InputError, match="--backend: expected a backend, got 'refrence'; try reference"):
        registry.load("refrence")
    with pytest.raises(InputError, match=r"no file nowhere/xla\.py; try xla"):
        registry.load("nowhere/xla.py")
    with pytest.raises(InputError, match=r"no file nowhere/my one\.py; try opscope backend new 'nowhere/my one\.py'"):
        registry.load("nowhere/my one.py")


def test_a_backend_is_one_file(tmp_path, monkeypatch):
    assert registry.load(FAULTY).name == "faulty"
    text = Path(FAULTY).read_text().replace('name = "faulty"', 'name = "mine"')
    (tmp_path / "mine.py").write_text(text)
    assert registry.load(str(tmp_path / "mine.py")).name == "mine"
    # An installed distribution that announces one.
    info = tmp_path / "mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[opscope.backends]\nmine = mine:Faulty\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "mine" in registry.names()
    assert registry.load("mine").name == "mine"
    sys.modules.pop("mine")


def test_an_incomplete_backend_is_refused(tmp_path):
    (tmp_path / "half.py").write_text("class Half:\n    name = 'half'\n    stages = ()\n")
    with pytest.raises(InputError, match="a class without target, climb, available"):
        registry.load(str(tmp_path / "half.py"))
    (tmp_path / "other.py").write_text("x = 1\n")
    with pytest.raises(InputError, match="expected a class with name = 'other'"):
        registry.load(str(tmp_path / "other.py"))
