from __future__ import annotations

import codecs
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opscope.base.places import HOME
from opscope.base.tests.each import each
from opscope.harness.prepare.mlir import context, load, to_bytecode
from opscope.harness.prepare.mlir.door import ir, stablehlo
from opscope.harness.prepare.mlir.locations import place_of, short_path
from opscope.harness.prepare.mlir.single_op import constant
from opscope.harness.prepare.mlir.values import DTYPES, ResourceError, constant_array, is_splat, parameter_text
from opscope.harness.prepare.split import split_module
from opscope.harness.record.errors import InputError

TEXT = """module @net {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %x : tensor<4xf32> loc("layer/add"("net.py":7:3))
    return %0 : tensor<4xf32>
  }
}"""


def artifact() -> bytes:
    return stablehlo.serialize_portable_artifact(load(TEXT), stablehlo.get_minimum_version())


def first_op(module: Any) -> Any:
    return module.body.operations[0].regions[0].blocks[0].operations[0].operation


def newer_artifact() -> bytes:
    """One of a StableHLO that has an op which this one lacks."""
    data = stablehlo.serialize_portable_artifact(load(TEXT), stablehlo.get_current_version())
    return re.sub(rb"StableHLO_v[\d.]+", b"StableHLO_v9.99.0", data).replace(b"add_v1", b"sum_v2")


def exported_by_jax() -> bytes:
    import jax

    return bytes(jax.export.export(jax.jit(lambda x: x + x))(jax.ShapeDtypeStruct((4,), np.float32)).serialize())


@pytest.mark.parametrize("form", ["text", "bytecode", "artifact", "path", "foreign", "jax"])
def test_every_form_of_a_module_is_read(form: str, tmp_path: Path) -> None:
    source: Any = TEXT
    if form == "bytecode":
        source = to_bytecode(load(TEXT))
    elif form == "artifact":
        source = artifact()
    elif form == "jax":
        source = exported_by_jax()
    elif form == "path":
        source = tmp_path / "net.mlir"
        source.write_text(TEXT)
    elif form == "foreign":
        other = ir.Context()
        stablehlo.register_dialect(other)
        source = ir.Module.parse(
            '"builtin.module"() ({%0 = stablehlo.constant dense<1> : tensor<i32>}) : () -> ()', other
        )
    module = load(source)
    assert module.context is context()
    if form == "foreign":
        assert "stablehlo.constant" in str(module)
    else:
        assert first_op(module).name == "stablehlo.add"


def test_bytecode_keeps_locations() -> None:
    again = load(to_bytecode(load(TEXT)))
    assert str(place_of(first_op(again).location)) == "layer/add (net.py:7)"


@pytest.mark.parametrize(
    ("source", "part"),
    [
        (b"", "got an empty text"),
        (b"  \n", "got blanks only"),
        (b"hello, world", "got a text that is no MLIR ('hello, world')"),
        (b"\x89PNG\r\n\x1a\n", "got bytes that begin 89 50 4e 47"),
        (b"ML\xefR\x0d", "got truncated or damaged bytecode"),
        (to_bytecode(load(TEXT))[:100], "got truncated or damaged bytecode"),
        (artifact()[:100], "got truncated or damaged bytecode"),
        (newer_artifact(), f"of StableHLO {stablehlo.get_current_version()} or older, got one of 9.99.0, and tru"),
        (b"ML\xefR\x63" + artifact()[5:], "got bytecode of a newer MLIR (bytecode version 49 is newer than"),
        (b"\x00\xffjunk" + artifact(), "a blob of jax.export that JAX 0."),
        ("module { foo.bar }", "net:1:10: expected StableHLO"),
        ("module { foo.bar }", "got the unknown dialect `foo`"),
        ('module { "foo.bar"() : () -> () }', "got the unknown dialect `foo`"),
        ("func.func @main(%x: tensor<4x!bar.uniform<3>>) { return }", "unknown dialect `bar`"),
        (TEXT.replace("%x, %x", "%x, %nope"), "use of undeclared SSA value name"),
        (TEXT.replace("-> tensor<4xf32> {", "-> tensor<5xf32> {"), "net:4:5: expected valid StableHLO"),
        (TEXT[:90], "net:"),
    ],
)
def test_bad_input_is_one_clear_line(source: bytes | str, part: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError) as error:
        load(source, "net")
    assert part in str(error.value)
    assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""


def test_a_blob_of_jax_without_the_package_that_reads_it_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    monkeypatch.delitem(sys.modules, "jax._src.export.serialization", raising=False)
    with pytest.raises(InputError, match=r"net: expected flatbuffers, .* got none; try pip install flatbuffers"):
        load(b"\x00\xffjunk" + artifact(), "net")


def test_quantised_types_are_known_from_the_start() -> None:
    code = (
        "from opscope.harness.prepare.mlir import load;"
        "print(load('func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.1:3>>) { return }'))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "!quant.uniform<i8:f32, 1.000000e-01:3>" in run.stdout


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.mlir: expected a readable file, got No such file"):
        load(tmp_path / "none.mlir")


def array_of(text: str) -> np.ndarray | None:
    type_ = text.split(" : ")[1].split("\n")[0]
    dictionary = text.partition("\n")[2]
    module = load(
        f"module {{ func.func @main() -> {type_} {{ %0 = stablehlo.constant {text.splitlines()[0]}\n"
        f"return %0 : {type_} }} }}\n{dictionary}"
    )  # kept in a variable: an op does not keep its module alive
    return constant_array(first_op(module))


NUMBERS = sorted(set(DTYPES) - {"index", "i1", "complex<f32>", "complex<f64>"})


@pytest.mark.crossed
@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("length", [3, 300])
def test_constants_are_read_as_ml_dtypes_writes_them(name: str, length: int) -> None:
    dtype = np.dtype(DTYPES[name])
    array = np.random.default_rng(0).integers(0, 2, length).astype(dtype)
    array[1] = array.dtype.type(1)
    array[0] = array.dtype.type(-1 if name[0] == "i" or name == "f32" else 0.5 if name[0] == "f" else 1)
    raw = array.view(np.uint8)
    if name.endswith(("i2", "i4")):
        raw = array.astype(np.int8 if name[0] == "i" else np.uint8).view(np.uint8)
    got = array_of(f'dense<"0x{raw.tobytes().hex().upper()}"> : tensor<{length}x{name}>')
    assert got is not None
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.astype(np.float64), array.astype(np.float64))


@each(
    ("text", "bits"),
    [
        ("dense<0xFF800000> : tensor<2xf32>", "000080ff" * 2),
        ("dense<-0.0> : tensor<bf16>", "0080"),
        ("dense<0xFFC1> : tensor<2xbf16>", "c1ff" * 2),
        ("dense<[0x7FA1, 1.0]> : tensor<2xbf16>", "a17f803f"),
        ("dense<[true, false, true]> : tensor<3xi1>", "010001"),
        ("dense<[18446744073709551615, 1]> : tensor<2xui64>", "ff" * 8 + "01" + "00" * 7),
        ("dense<(1.0, 0x7F800000)> : tensor<complex<f32>>", "0000803f0000807f"),
        ("dense<[(1.0, -0.0), (0.5, 2.0)]> : tensor<2xcomplex<f32>>", "0000803f000000800000003f00000040"),
        ("dense<[]> : tensor<0xf32>", ""),
        (
            "dense_resource<w> : tensor<2xf32>\n{-# dialect_resources: { builtin: "
            '{ w: "0x040000000000803F00000040" } } #-}',
            "0000803f00000040",
        ),
    ],
)
def test_constants_keep_their_bits(text: str, bits: str) -> None:
    array = array_of(text)
    assert array is not None
    assert array.tobytes().hex() == bits
    assert not array.flags.writeable


def test_a_resource_that_the_file_does_not_hold_is_refused() -> None:
    with pytest.raises(ResourceError, match=r"<gone>: expected the values of tensor<2xf32>, got no values"):
        array_of("dense_resource<gone> : tensor<2xf32>")


@each(
    ("element", "bits"),
    [
        ("f32", 0xFF800000),
        ("f32", 0x80000000),
        ("f32", 0x3DCCCCCD),
        ("bf16", 0x7FC0),
        ("bf16", 0x3E99),
        ("f16", 0x3555),
        ("f64", 0x3FB999999999999A),
        ("f8E4M3FN", 0x35),
        ("f4E2M1FN", 0x3),
        ("i4", 0xF),
        ("ui4", 0xF),
        ("i8", 0x80),
        ("ui64", 2**64 - 1),
        ("i1", 1),
        ("complex<f32>", 0x3F8000007F800000),
    ],
)
def test_embedded_splats_are_written_bit_for_bit(element: str, bits: int) -> None:
    dtype = np.dtype(DTYPES[element])
    raw = np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), np.uint8)
    array = np.array([-1], ml_dtypes.int4) if element == "i4" else raw.view(dtype)
    type_ = ir.Type.parse(f"tensor<3x2x{element}>", context())
    got = constant_array(constant(np.broadcast_to(array[0], (3, 2)), type_))
    assert got is not None
    assert is_splat(got)
    assert got.shape == (3, 2)
    assert got.reshape(-1)[:1].tobytes() == array.tobytes()


@each(
    ("location", "text", "framework_op"),
    [
        ('"jit(f)/layer/dot"("a.py":3:4)', "jit(f)/layer/dot (a.py:3)", "dot"),
        ('"jit(f)/dot"(callsite("inner"("a.py":3:4) at "outer"("b.py":9:1)))', "jit(f)/dot (a.py:3)", "dot"),
        ('callsite("inner"("a.py":3:4) at "b.py":9:1)', "inner (a.py:3)", "inner"),
        ('callsite("inner" at "b.py":9:1)', "inner (b.py:9)", "inner"),
        ('callsite(unknown at "outer"("b.py":9:1))', "outer (b.py:9)", "outer"),
        ('fused["x/add", "c.py":5:1]', "x/add (c.py:5)", "add"),
        ('fused<"meta">[unknown, "reduce:"("d.py":1:2 to :9)]', "reduce: (d.py:1)", "reduce"),
        ('"only/a/name"', "only/a/name", "name"),
        ('"e.py":8:1', "e.py:8", ""),
        ("unknown", "", ""),
    ],
)
def test_places_are_read_from_every_kind_of_location(location: str, text: str, framework_op: str) -> None:
    module = load(TEXT.replace('loc("layer/add"("net.py":7:3))', f"loc({location})"))
    place = place_of(first_op(module).location)
    assert (str(place), place.framework_op) == (text, framework_op)


@each(
    ("file", "text"),
    [
        (str(HOME / "models" / "jax" / "resnet50.py"), "models/jax/resnet50.py"),
        ("/usr/lib/python3.11/site-packages/flax/linen/linear.py", "flax/linen/linear.py"),
        (str(Path.cwd() / "mine" / "net.py"), "mine/net.py"),
        ("/elsewhere/net.py", "net.py"),
        ("mine/net.py", "mine/net.py"),
        ("/elsewhere/net.mlir", "net.mlir"),
        (str(Path.cwd() / ".opscope" / "runs" / "1" / "modules" / "module.mlir"), "module.mlir"),
        ("net.py", "net.py"),
        ("-", "-"),
    ],
)
def test_files_are_shown_without_what_is_this_machines_own(file: str, text: str) -> None:
    assert short_path(file) == text


def test_ops_of_a_text_come_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    path.write_text(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.abs %x : tensor<2xf32>\n"
        "  return %0 : tensor<2xf32>\n}\n"
    )
    module = load(path)
    assert str(place_of(first_op(module).location)) == "net.mlir:2"
    # And the module of a single op says so itself, without the rest of the path.
    [op] = split_module(to_bytecode(module), "net").ops.values()
    assert str(first_op(load(op.bytecode)).location) == 'loc("net.mlir":2:0)'
    assert [use.location for use in op.uses] == ["net.mlir:2"]


# quick: test_golden.py has a process that splits a smaller module, and looks at its threads and for jax
@pytest.mark.slow
def test_a_process_that_splits_does_not_import_jax_and_has_one_thread() -> None:
    code = (
        "import sys, threading; from opscope.harness.prepare.split import split_module;"
        f"split_module({TEXT!r});"
        "import os; print('jax' in sys.modules, len(os.listdir('/proc/self/task')))"
    )
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.split() == ["False", "1"]


@each(
    ("array", "splat"),
    [
        (np.ones(5, np.float32), True),
        (np.float32([1, 2, 1]), False),
        (np.float32([1, 1, 2]), False),
        (np.float32([1, 2, 2]), False),
        (np.float32([1, 1, 2, 1]), False),
        (np.float32([0.0, -0.0]), False),
        (np.ones((2, 3), np.int8)[:, ::2], True),
        (np.broadcast_to(np.float32(3), (4, 4)), True),
        (np.float32(3).reshape(()), True),
        (np.zeros(0), False),
    ],
)
def test_a_splat_has_the_same_bits_everywhere(array: np.ndarray, splat: bool) -> None:
    assert is_splat(array) is splat


def test_long_literals_are_shortened_to_their_type() -> None:
    with context():
        numbers = [ir.DenseI64ArrayAttr.get([1, 2])]
        numbers += [ir.DenseElementsAttr.get(np.arange(count, dtype=np.int32)) for count in (32, 33)]
        numbers += [ir.DenseElementsAttr.get(np.zeros(99, np.int32)), ir.DenseI64ArrayAttr.get(list(range(40)))]
        texts = [parameter_text(attribute) for attribute in numbers]
        assert texts[0] == "array<i64: 1, 2>"
        assert texts[1].startswith("dense<[0, 1, 2,")
        assert texts[2] == "dense<...> : tensor<33xi32>"
        assert texts[3] == "dense<0> : tensor<99xi32>"
        assert texts[4].endswith("38, 39>")
    assert parameter_text(None) == "dense<...>"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_a_text_may_begin_with_a_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    text = "module { func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> } }"
    mark = codecs.BOM_UTF16_LE if encoding == "utf-16-le" else b""
    (tmp_path / "a.mlir").write_bytes(mark + text.encode(encoding))
    assert "@main" in str(load(tmp_path / "a.mlir"))
