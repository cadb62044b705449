"""Any PJRT plugin as a backend: what is refused, what is recorded, and that plugins agree with jaxlib's own XLA."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from opscope.harness.backends import registry
from opscope.harness.backends.base import BackendError, Job, StageError
from opscope.harness.backends.pjrt import Pjrt
from opscope.harness.prepare import golden
from opscope.harness.prepare.pjrt import client as pjrt_client
from opscope.harness.prepare.pjrt.c_interface import PluginError, read_api
from opscope.harness.prepare.pjrt.client import ClientError
from opscope.harness.prepare.pjrt.compile_only import CompileOnlyClient
from opscope.harness.record.records import TensorDesc
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import Target

PLUGIN = "xla_cpu_pjrt"
"""The name by which its package registers it; without the words around it, `cpu`."""
FILE_PACKAGE = "lammps_jax_pjrt_cpu"
"""A package that registers nothing: its plugin is a file."""

STUB = """
#include <stddef.h>
struct version { size_t size; void *extension; int major; int minor; };
static struct { size_t size; void *extension; struct version version; void *functions[200]; } table = {
    SIZE, 0, { sizeof(struct version), 0, MAJOR, MINOR } };
const void *ENTRY(void) { return &table; }
"""
"""A table that holds nothing but its size and version."""

PRODUCT = b"""func.func @main(%a: tensor<8x16xf32>, %b: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}"""
TWO = b"""func.func @main(%a: tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xi1>) {
  %0 = stablehlo.negate %a : tensor<4xbf16>
  %1 = stablehlo.compare LT, %a, %0 : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xi1>
  return %0, %1 : tensor<4xbf16>, tensor<4xi1>
}"""


def needs(package: str, module: str) -> pytest.MarkDecorator:
    try:
        missing = util.find_spec(module) is None
    except ImportError:
        missing = True
    return pytest.mark.skipif(missing, reason=f"{package} is not installed (pip install 'opscope[pjrt]')")


needs_plugin = needs("xla-cpu-pjrt", f"xla_plugins.{PLUGIN}")
needs_file = needs("lammps-jax-pjrt-cpu", FILE_PACKAGE)
needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


def plugin_file() -> str:
    spec = util.find_spec(FILE_PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    [path] = Path(spec.origin).parent.glob("*.so")
    return str(path)


def stub(folder: Path, *, size: int = 1640, major: int = 0, minor: int = 100, entry: str = "GetPjrtApi") -> Path:
    """A library of a few lines of C."""
    source, library = folder / "stub.c", folder / "stub.so"
    source.write_text(STUB)
    defined = [f"-DSIZE={size}", f"-DMAJOR={major}", f"-DMINOR={minor}", f"-DENTRY={entry}"]
    subprocess.run(["gcc", "-shared", "-fPIC", *defined, str(source), "-o", str(library)], check=True)
    return library


# --- what is no plugin


@needs_compiler
@pytest.mark.parametrize(
    ("made", "got"),
    [
        ({"major": 1, "minor": 0}, "version 1.0"),
        ({"minor": 5}, "version 0.5 without PJRT_Error_Message"),
        ({}, "version 0.100 without PJRT_Error_Message"),
        ({"size": 8}, "one of 8 bytes, too few for its version"),
        ({"entry": "Another"}, "a library without GetPjrtApi"),
    ],
)
def test_a_library_of_another_interface_is_refused_before_it_is_called(
    tmp_path: Path, made: dict[str, Any], got: str
) -> None:
    with pytest.raises(PluginError) as refused:
        read_api(stub(tmp_path, **made))
    assert refused.value.got == got


@needs_compiler
def test_a_plugins_refusal_is_one_line_with_a_way_out(tmp_path: Path) -> None:
    backend = registry.load(f"pjrt:{stub(tmp_path, major=2)}")
    with pytest.raises(BackendError) as refused:
        backend.load()
    assert (refused.value.expected, refused.value.got) == ("PJRT API 0.x", f"version 2.100 ({tmp_path}/stub.so)")
    assert "another jaxlib" in refused.value.hint


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.so"
    text.write_text("no library\n")
    with pytest.raises(BackendError, match=r"text\.so") as refused:
        registry.load(f"pjrt:{text}").load()
    assert refused.value.expected == "a shared library that can be loaded"


# --- what a plugin does


@pytest.fixture(params=[pytest.param("name", marks=needs_plugin), pytest.param("file", marks=needs_file)])
def plugin(request: pytest.FixtureRequest) -> Iterator[Pjrt]:
    backend = registry.load("pjrt:cpu" if request.param == "name" else f"pjrt:{plugin_file()}")
    assert isinstance(backend, Pjrt)
    assert backend.available() is None
    backend.load()
    backend.open(ResultOptions())
    yield backend
    backend.close()


def climbed(backend: Pjrt, module: bytes, inputs: list[np.ndarray], results: tuple[TensorDesc, ...] = ()) -> Job:
    job = Job("op", module, inputs, ResultOptions(), results)
    for stage in backend.stages:
        backend.climb(stage, job)
    return job


def test_a_plugin_computes_what_jaxlibs_xla_does(plugin: Pjrt) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((8, 16), (16, 4))]
    job = climbed(plugin, PRODUCT, inputs, (TensorDesc(shape=(8, 4), data_type="f32"),))
    [got], [expected] = job.outputs, golden.compile_module(PRODUCT)(inputs)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    assert job.ran_on == "host"
    assert job.run_ns is not None
    assert 0 < job.run_ns < 1e9
    assert job.run_spread_ns is not None
    assert job.dram_peak_bytes is not None
    assert job.dram_peak_bytes >= 4 * (8 * 16 + 16 * 4 + 8 * 4)


def test_several_results_of_types_that_numpy_lacks(plugin: Pjrt) -> None:
    import ml_dtypes

    x = np.array([1.0, -2.0, 0.0, 3.0], ml_dtypes.bfloat16)
    descs = (TensorDesc(shape=(4,), data_type="bf16"), TensorDesc(shape=(4,), data_type="i1"))
    for results in (descs, ()):
        negated, less = climbed(plugin, TWO, [x], results).outputs
        assert negated.dtype == ml_dtypes.bfloat16
        assert negated.tolist() == [-1.0, 2.0, 0.0, -3.0]
        assert less.tolist() == [False, True, False, False]


def test_a_constant_that_torch_mlir_leaves_in_its_own_dialect_is_compiled(plugin: Pjrt) -> None:
    module = b"""func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %0 = stablehlo.add %a, %c : tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    [got] = climbed(plugin, module, [np.ones(2, np.float32)], (TensorDesc(shape=(2,), data_type="f32"),)).outputs
    assert got.tolist() == [2.0, 3.0]


def test_a_refused_op_has_the_plugins_own_words(plugin: Pjrt) -> None:
    job = Job("op", b"func.func @main() -> tensor<f32> { unknown }", [], ResultOptions())
    with pytest.raises(StageError, match=r"error: .*unknown") as refused:
        plugin.climb(Stage.COMPILE, job)
    assert len(refused.value.message) <= 200
    assert "\n" in refused.value.diagnostic, "the full text is kept"


def test_a_client_that_only_compiles_makes_the_program_that_jaxlibs_own_client_runs(plugin: Pjrt) -> None:
    client = CompileOnlyClient(plugin.library().path)
    theirs = plugin.client(ResultOptions())
    assert (client.platform, client.device_kind) == (theirs.platform, theirs.device_kind)
    assert theirs.platform_version.endswith(client.platform_version)
    options = pjrt_client.compile_options()
    compiled, inputs = client.compile(PRODUCT, options), [np.full(shape, 2, np.float32) for shape in ((8, 16), (16, 4))]
    own = theirs.compile(PRODUCT, options)
    front, end, _ = own.serialise().partition(b"mainJ\0")  # what jaxlib's client writes before the plugin's own bytes
    [again] = theirs.deserialise(front + end + compiled.serialise(), options)(inputs)
    np.testing.assert_array_equal(again, own(inputs)[0])
    for refused in (lambda: client.put(inputs[0]), lambda: client.take(None), lambda: compiled([])):
        with pytest.raises(ClientError, match="only compiles"):
            refused()
    messages = []
    for each in (client, theirs):
        with pytest.raises(ClientError) as error:
            each.compile(b"func.func @main() -> tensor<f32> { unknown }", options)
        messages.append(error.value.full)
    assert messages[0].splitlines()[-1] == messages[1].splitlines()[-1]


def test_a_plugins_program_and_its_costs_are_kept_with_the_ir(plugin: Pjrt, tmp_path: Path) -> None:
    job = Job("op", PRODUCT, [], ResultOptions(), ir_dir=tmp_path)
    plugin.climb(Stage.COMPILE, job)
    assert "HloModule" in (tmp_path / "optimised.hlo").read_text()
    costs = json.loads((tmp_path / "costs.json").read_text())
    assert costs["memory"]["argument_size_in_bytes"] == 4 * (8 * 16 + 16 * 4)
    if plugin.plugin == "cpu":  # the other does not implement it
        assert job.dram_bytes == costs["costs"]["bytes accessed"] > 0
    else:
        assert (job.dram_bytes, costs["costs"]) == (None, {})


def test_the_fingerprint_names_library_interface_and_jaxlib(plugin: Pjrt) -> None:
    library = plugin.library()
    fingerprint, versions = plugin.fingerprint(ResultOptions()), plugin.versions()
    assert versions[library.path.name] == f"sha256 {library.digest()}"
    assert versions["PJRT API"] == ("0.81" if plugin.plugin == "cpu" else "0.115")
    assert ("xla_cpu_pjrt" in versions) == (plugin.plugin == "cpu"), "a file is of no package"
    assert all(fact in fingerprint for fact in versions.values())


def test_formats_of_a_board_are_refused(plugin: Pjrt) -> None:
    assert plugin.target(ResultOptions()).card_type == "host"
    with pytest.raises(ValueError, match="--data-format: expected none with --backend pjrt, got 'Bfp8_b'"):
        plugin.target(ResultOptions(data_format="Bfp8_b"))


def test_the_lines_for_a_report_show_it_with_jaxlib_alone(plugin: Pjrt, tmp_path: Path) -> None:
    def run_lines(module: bytes) -> subprocess.CompletedProcess[str]:
        (tmp_path / "module.mlirbc").write_bytes(module)
        lines = plugin.repro_lines(Job("op", module, [], ResultOptions()))
        script = "\n".join(lines).replace("python3 -", f"{sys.executable} -", 1)
        return subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)

    assert run_lines(PRODUCT).stdout == "it compiles\n"
    refused = run_lines(b"func.func @main() -> tensor<f32> { unknown }")
    assert refused.returncode == 1
    assert "error: " in refused.stderr
    assert not any("import opscope" in line for line in plugin.repro_lines(Job("op", PRODUCT, [], ResultOptions())))


# --- other platforms


def lent(platform: str, kind: str, version: str = "") -> Pjrt:
    """A backend with the client of another platform, of which only the names are looked at."""
    device = SimpleNamespace(device_kind=kind)
    raw = SimpleNamespace(platform=platform, platform_version=version, devices=lambda: [device])
    backend = Pjrt("some")
    backend._client = pjrt_client.Client(raw)
    return backend


def test_a_gpu_multiplies_in_tf32_and_another_platform_in_each_tensors_type() -> None:
    # What jaxlib 0.11.2 says of an NVIDIA GPU.
    gpu = lent("gpu", "NVIDIA H100 80GB HBM3", "cuda 13000").target(ResultOptions())
    assert (gpu.card_type, gpu.math_fidelity, gpu.tf32_products) == ("nvidia-h100-80gb-hbm3", "exact", True)
    assert not lent("gpu", "AMD Instinct MI300X", "rocm 60300").target(ResultOptions()).tf32_products
    assert lent("odd", "").target(ResultOptions()) == Target("odd", None, "exact", rounds_steps=True)


def test_a_product_in_tf32_is_right_there_and_one_in_bfloat16_is_not() -> None:
    rng = np.random.default_rng(0)
    left = rng.standard_normal((64, 512)).astype(np.float32)
    right = rng.standard_normal((512, 64)).astype(np.float32)

    def kept(x: np.ndarray, bits: int) -> np.ndarray:
        mask = np.uint32((0xFFFFFFFF << (23 - bits)) & 0xFFFFFFFF)
        return (x.view(np.uint32) & mask).view(np.float32).astype(np.float64)

    exact = (left.astype(np.float64) @ right).astype(np.float32)
    descs = [TensorDesc(shape=x.shape, data_type="f32") for x in (left, right, exact)]
    params = {"dot_dimension_numbers": "#stablehlo.dot<lhs_contracting_dimensions = [1]>"}
    module = PRODUCT.replace(b"8x16x", b"64x512x").replace(b"16x4x", b"512x64x").replace(b"8x4x", b"64x64x")
    operands = Operands("stablehlo.dot_general", module, lambda: [left, right])

    def passes(got: np.ndarray, target: Target) -> bool:
        [check] = compare(
            [exact],
            [got.astype(np.float32)],
            operands.op_name,
            target,
            inputs=descs[:2],
            outputs=descs[2:],
            params=params,
            operands=operands,
        )
        return check.passed

    host, gpu = Target("host", None, "exact"), Target("gpu", None, "exact", tf32_products=True)
    in_tf32, in_bf16 = (kept(left, bits) @ kept(right, bits) for bits in (10, 7))
    assert [passes(in_tf32, gpu), passes(in_bf16, gpu), passes(in_tf32, host)] == [True, False, False]


def test_a_gpu_is_shared_by_lanes_and_other_plugins_get_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    from opscope.harness.backends.plugin_library import Library

    monkeypatch.setattr(Pjrt, "library", lambda self: Library("xla_cuda13", Path("xla_cuda_plugin.so")))
    assert Pjrt("cuda").client_options(ResultOptions())["preallocate"] is False
    monkeypatch.setattr(Pjrt, "library", lambda self: Library("libodd", Path("libodd.so")))
    assert Pjrt("odd").client_options(ResultOptions()) == {}


# --- whole runs


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:benchmark", "--op-by-op", "-q", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800)


def records(folder: Path) -> list[dict[str, Any]]:
    lines = (line for path in folder.glob(".opscope/runs/*/journal/*.jsonl") for line in path.read_text().splitlines())
    return [json.loads(line[line.index("{") :]) for line in lines]


@pytest.mark.slow
@needs_compiler
def test_a_run_on_what_is_no_plugin_ends_with_one_line_and_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "product.mlir").write_bytes(PRODUCT)
    ended = run(tmp_path, "--model", "product.mlir", "--backend", f"pjrt:{stub(tmp_path, major=3)}")
    assert ended.returncode == 2
    assert "expected PJRT API 0.x, got version 3.100" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
    assert records(tmp_path) == []


@pytest.mark.slow
@needs_plugin
@needs_file
def test_two_plugins_in_one_run_have_records_and_artifacts_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "product.mlir").write_bytes(PRODUCT)
    (tmp_path / "other.so").symlink_to(plugin_file())
    words = ("--model", "product.mlir", "--backend", f"pjrt:{PLUGIN},pjrt:./other.so", "--keep-ir")
    ended = run(tmp_path, *words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    by_backend = {record["backend"]: record for record in records(tmp_path)}
    assert set(by_backend) == {f"pjrt-{PLUGIN}", "pjrt-other"}
    for record in by_backend.values():
        assert (record["status"], record["ran_on"], record["run_ns"] > 0) == ("success", "host", True)
    kept = {path.parent.name for path in tmp_path.rglob("optimised.hlo")}
    assert kept == {f"ir-pjrt-{PLUGIN}", "ir-pjrt-other"}
    assert by_backend["pjrt-other"]["repro"].endswith("--backend pjrt-other"), "by its label, which the run knows"


KNOWN = {
    # 1.8 units in the last place at 0.519: expected 0.41797, got 0.41846; jaxlib's own is within half of one.
    "pjrt-cpu": {("stablehlo.log_plus_one", "f16")},
    # The arc tangent of small float16 numbers is about 0.48 there: expected 0.0044, got 0.4822.
    "pjrt-other": {("chlo.atan", "f16")},
}
"""The ops of the suite on which a plugin disagrees with jaxlib's own XLA."""


@pytest.mark.slow
@needs_plugin
@needs_file
def test_plugins_agree_with_jaxlibs_xla_on_all_ops_but_those_that_are_known(tmp_path: Path) -> None:
    (tmp_path / "other.so").symlink_to(plugin_file())
    run(tmp_path, "--model", "suite:ops", "--backend", "xla,pjrt:cpu,pjrt:./other.so", "-n", "2", "--reruns", "0")
    by_op: dict[str, dict[str, dict[str, Any]]] = {}
    for record in records(tmp_path):
        by_op.setdefault(record["op_id"], {})[record["backend"]] = record
    assert len(by_op) > 900
    for backend, known in KNOWN.items():
        differ = {
            (found[backend]["op_name"], found[backend]["inputs"][0]["data_type"])
            for found in by_op.values()
            if found[backend]["status"] != found["xla"]["status"]
        }
        assert differ == known, backend
