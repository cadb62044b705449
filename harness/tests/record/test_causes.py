"""The cause of a failure: equal for what has one reason, another for what is refused by its name."""

from __future__ import annotations

import pytest

from opscope.base.tests.each import each
from opscope.harness.record.causes import cause_of
from opscope.harness.record.signature import shorten


def wrong(op_name: str, hypothesis: str = "", dtype: str = "f32") -> str:
    return cause_of("wrong_result", "compare", op_name, dtype, "result 0: expected 1e-05, got 0.1", "", hypothesis)


def refused(error: str, op_name: str = "stablehlo.fft", stage: str = "ttir-to-ttnn") -> str:
    return cause_of("compile_failed", stage, op_name, "f32", error)


def test_wrong_numbers_are_one_cause_for_one_op_type_and_hypothesis() -> None:
    ops = ("stablehlo.rsqrt", "stablehlo.convolution", "stablehlo.exponential")
    assert len({wrong(name) for name in ops}) == len(ops)
    assert wrong(ops[0]) != wrong(ops[0], dtype="bf16")
    assert wrong(ops[0]) != wrong(ops[0], "clipped: 3 of 16 elements at 65504")
    assert wrong(ops[0], "clipped: 3 of 16 elements") == wrong(ops[0], "clipped: 7 of 9 elements")


LONG = "expected a layout that the kernel of this build of the runtime knows for each of its operands and results"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("fft: expected a flat program", "stablehlo.fft"), ("while: expected a flat program", "stablehlo.while")),
        (("ttir.fft: no kernel, got f64", "stablehlo.fft"), ("ttir.abs: no kernel, got f64", "stablehlo.abs")),
        (
            (shorten(f"stablehlo.dynamic_update_slice: {LONG} (tensor<16x128x1024xf32>) {LONG}"), "s.d"),
            (shorten(f"stablehlo.abs: {LONG} (tensor<f32>) {LONG}"), "stablehlo.abs"),
        ),
        (("out of L1 for op reduce", "stablehlo.reduce"), ("out of L1 for op add", "stablehlo.add")),
        (("unsupported dtype f64 for op add", "s.add"), ("unsupported dtype f64 for op reduce", "s.reduce")),
        (("failed to lower op add: out of L1", "s.add"), ("failed to lower op reduce: out of L1", "s.reduce")),
        (
            ("'ttnn.add' is not supported with layout TILE", "s.add"),
            ("'ttnn.mul' is not supported with layout TILE", "s.mul"),
        ),
    ],
    ids=["first", "another dialect", "cut", "no room", "type", "no room while lowering", "layout"],
)
def test_one_complaint_about_two_ops_is_one_cause(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert refused(*one) == refused(*other)


@each(
    ("one", "same", "other"),
    [
        ("failed to legalize operation 'stablehlo.fft'", "failed to legalize operation stablehlo.fft", "abs"),
        ("cannot legalize fft", "cannot legalize `fft`", "abs"),
        ("no lowering for fft", "no lowering for `fft`", "abs"),
        ("Unsupported op: fft", "Unsupported op: 'fft'", "abs"),
        ("kernel fft is not registered (op %12, 0xdeadbeef)", "kernel fft is not registered (op %9, 0xcafe)", "abs"),
        (
            "expected a kernel named `fft`, got none in this build",
            "expected a kernel named fft, got none in this build",
            "abs",
        ),
        ('"chlo.fft"(tensor<4xf32>) has no kernel', '"chlo.fft"(tensor<4xf32>, tensor<8x4xf32>) has no kernel', "abs"),
    ],
)
def test_an_op_that_is_refused_by_name_is_a_cause_of_its_own(one: str, same: str, other: str) -> None:
    cause = refused(one, "stablehlo.fft")
    assert refused(same, "stablehlo.reduce") == cause, "quoted or not, also in the body of another op"
    assert refused(one.replace("fft", other), f"stablehlo.{other}") != cause


REFUSALS = """
    stablehlo.fft cannot be lowered | stablehlo.fft can't be legalized | NotImplementedError: fft
    KeyError: 'stablehlo.fft'
    unhandled operation: stablehlo.fft | unrecognized op 'fft' | op fft isn't supported
    unsupported: fft | fft: not implemented
    fft has not been implemented | illegal op: stablehlo.fft | no rule for fft | kernel for fft not found
    could not find implementation for fft | No registered converter for fft | lowering of stablehlo.fft is missing
    MLIR translation rule for primitive 'fft' not found for platform tt | Op type not registered 'fft'
    Could not find an implementation for fft(17) node with name 'x' | No Op registered for fft with domain_version of 17
    The operator 'fft' is not currently implemented for the TT device | op 'fft' does not exist in the dialect
    LLVM ERROR: cannot select stablehlo.fft | failed to translate op fft | skipping stablehlo.fft: no lowering
    failed to legalize operation 'stablehlo.fft' that was explicitly marked illegal | backend does not implement fft
"""
REASONS = """
    out of L1 memory while running fft | fft requires tile layout | op fft: dtype f64 not supported | kernel fft failed
    'stablehlo.fft' op operand #0 must be ranked tensor of f32, got f64 | rank 5 is not supported by fft
    stablehlo.fft cannot be lowered in tile layout | stablehlo.fft cannot be lowered: out of L1 | failed to run fft
    NotImplementedError: fft with complex input | no implementation of fft for dtype f64 | unable to shard fft
    illegal memory access in fft | unknown error in fft | no device found for fft | fft does not fit in L1
    unsupported data type for operation fft | not enough cores for fft | assertion failed in fft: shape mismatch
"""


def of_fft_and_abs(texts: str) -> list[tuple[str, bool]]:
    """Each of the texts, and whether it is one cause where it speaks of `abs`."""
    each = [text.strip() for line in texts.strip().splitlines() for text in line.split(" | ")]
    return [(text, refused(text) == refused(text.replace("fft", "abs"), "stablehlo.abs")) for text in each]


def test_what_refuses_an_op_in_any_words_is_its_own_and_what_gives_a_reason_is_not() -> None:
    assert [text for text, one in of_fft_and_abs(REFUSALS) if one] == []
    assert [text for text, one in of_fft_and_abs(REASONS) if not one] == []


def test_two_complaints_are_two_causes() -> None:
    errors = [
        "failed to legalize operation 'stablehlo.fft'",
        "no kernel for stablehlo.fft",
        "torch.float32 is not supported",
        "torch.int64 is not supported",
        "",
    ]
    assert len({refused(error) for error in errors}) == len(errors)
    assert refused(errors[0]) != refused(errors[0], stage="ttnn-to-flatbuffer")
    assert refused("cannot broadcast f64") != refused("cannot transpose f64")
    assert refused("could not be lowered", "stablehlo.not") == refused("could not be lowered", "stablehlo.abs")


def test_a_hang_or_a_crash_without_a_message_is_its_op_s_own() -> None:
    ops = ("stablehlo.fft", "stablehlo.abs")

    def all_of(status: str, error: str, crash: str = "") -> set[str]:
        return {cause_of(status, "run", op, "f32", error, crash) for op in ops}

    assert len(all_of("timeout", "took longer than 10 s at run")) == 2
    assert len(all_of("crashed", "killed by SIGSEGV at run", "signal SIGSEGV")) == 2
    assert len(all_of("crashed", "LLVM ERROR: initValue_ must be a constant", "signal SIGABRT")) == 1
    assert len(all_of("no_golden", "the loop before it has no end")) == 1
    assert len(all_of("unsplittable", "")) == 2
    assert all_of("success", "") == all_of("stopped", "stopped after run") == {""}
