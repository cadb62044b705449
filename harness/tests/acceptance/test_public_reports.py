"""Small inputs of public reports (`shared/cases/public_bugs_2`), each with the right value that its report names."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.without_plugins import WITHOUT_PLUGINS

CASES = Path(__file__).parents[4] / "shared" / "cases"
REPORTS = CASES / "public_bugs_2"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not REPORTS.is_dir(), reason=f"{REPORTS} is not here"),
]


def statuses(place: Place, file: Path, *words: str, backend: str = "reference") -> dict[str, dict[str, int]]:
    """How often each backend's ops ended in each status, in a sweep of `file`."""
    done = place.run(
        *("pytest", *WITHOUT_PLUGINS, "--op-by-op", "--no-report", "-q", "--backend", backend),
        *("--model", str(file), *words),
        timeout=400,
    )
    assert done.code in (0, 1), done.out + done.err
    assert "internal error" not in done.out + done.err
    counts: dict[str, Counter[str]] = {}
    for row in place.records():
        counts.setdefault(row["backend"], Counter())[row["status"]] += 1
    return {name: dict(count) for name, count in counts.items()}


def test_ordered_effects_run_on_every_backend(place: Place) -> None:
    """jax#26783, #17783: tokens are at the edge of the program; the result is 2 sin x."""
    found = statuses(place, REPORTS / "b64_jax_ordered_effects.py", backend="reference,xla")
    assert found == {"reference": {"success": 3}, "xla": {"success": 3}}


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        # stablehlo#2601: the order is Python's `sorted` by the canonical key, which the interpreter does not keep.
        ("b13_sort_canonical", "reference,xla", "stablehlo-interpreter"),
        # stablehlo#1283: is_stable, so that -0 stays behind 0; IREE exchanges them.
        ("b86_stable_zeros", "reference,xla", "iree"),
    ],
)
def test_a_sort_has_one_right_order(place: Place, name: str, right: str, wrong: str) -> None:
    """The accused does not speak for itself, and no doubt stays behind for the next run."""
    inputs = ("--inputs", str(REPORTS / f"{name.split('_')[0]}.npz"))
    if wrong == "iree":
        pytest.importorskip("iree.compiler", reason="pip install -e '.[iree]'")
    expected = {backend: {"success": 1} for backend in right.split(",")}
    for backends in (f"{right},{wrong}", right):
        found = statuses(place, REPORTS / f"{name}.mlir", *inputs, backend=backends)
        assert found == expected | ({wrong: {"wrong_result": 1}} if wrong in backends else {})


@pytest.mark.parametrize(
    ("name", "right", "refused"),
    [
        ("b20_pad_crop", 2, 1),  # iree#19935: negative pads crop
        ("b21_pad_reflect_opset6", 4, 0),  # torch-mlir#3442: numpy.pad(mode="reflect")
        ("b22_loop_scan_output", 4, 0),  # torch-mlir#3136
        ("b24_grid_sample", 33, 10),  # torch-mlir#2947
        ("b26_qlinear_conv", 18, 0),  # iree#18124
        ("b33_scatter_elements_mul", 3, 5),
    ],
)
def test_onnx_files_are_what_their_standard_computes(place: Place, name: str, right: int, refused: int) -> None:
    """The import agrees with onnx's reference, or with ONNX Runtime where that has none. Refused is 64-bit work, for
    which the default card has no types."""
    pytest.importorskip("onnx", reason="pip install -e '.[onnx]'")
    inputs = REPORTS / f"{name.split('_')[0]}.npz"
    found = statuses(place, REPORTS / f"{name}.onnx", *(("--inputs", str(inputs)) if inputs.exists() else ()))
    assert found == {"reference": {"success": right} | ({"compile_failed": refused} if refused else {})}
    (run,) = place.runs()
    (check,) = json.loads((run / "manifest.jsonl").read_text().splitlines()[0])["imports"]
    assert check["status"] == "agrees", check


def test_bounds_of_random_numbers_are_drawn_inside_the_domain(place: Place) -> None:
    """tt-mlir#4770: drawn bounds are in order; given ones that are not have no right answer."""
    assert statuses(place, REPORTS / "b53_rng.mlir") == {"reference": {"success": 3}}
    given = statuses(place, REPORTS / "b53_rng.mlir", "--inputs", str(REPORTS / "b53_reversed.npz"))
    assert given == {"reference": {"success": 2, "no_golden": 1}}


def test_a_byte_order_mark_and_a_name_with_a_slash(place: Place) -> None:
    """tt-xla#5659 names a model as its hub does."""
    file = REPORTS / "b74_crlf_bom.mlir"
    assert statuses(place, file) == {"reference": {"success": 1}}
    shutil.copy(file, place.folder / "net.mlir")
    assert statuses(place, Path("Qwen/Qwen3-0.6B=net.mlir")) == {"reference": {"success": 1}}


def test_newer_chlo_as_text(place: Place) -> None:
    """`chlo.ragged_dot` is right by a loop over its groups; jaxlib's own code for processors has no such op."""
    found = statuses(place, REPORTS / "b84_modern_chlo.mlir", backend="reference,xla")
    assert found == {"reference": {"success": 5}, "xla": {"success": 4, "compile_failed": 1}}


def test_a_gather_at_one_scalar_index(place: Place) -> None:
    found = statuses(place, CASES / "verdict_holes" / "take.mlir", backend="reference,xla")
    assert found == {"reference": {"success": 1}, "xla": {"success": 1}}
