from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import pytest

from opscope.compiler.target import binary, program, schema
from opscope.compiler.target.flatbuffer_reader import FlatbufferReader, Plans, Slot
from opscope.compiler.target.flatbuffer_writer import FlatbufferWriter
from opscope.compiler.target.program import (
    Binary,
    ControlParams,
    Conv2dParams,
    EltwiseParams,
    LayoutParams,
    Numerics,
    Operation,
    Program,
    TensorDesc,
)


def sample() -> Binary:
    """A binary with every class of parameters, every field set to something of its type."""

    def value(hint: object, seed: int) -> object:
        if hint is int:
            return -seed
        if hint is float:
            return seed + 0.5
        if hint is bool:
            return True
        if hint is str:
            return f"s{seed}"
        if hint is bytes:
            return bytes(range(seed))
        args = typing.get_args(hint)
        if args[0] is str:
            return ("callee", "empty")
        size = 3 if args[-1] is Ellipsis else len(args)
        return tuple(value(args[0], seed + i) for i in range(size))

    ops = []
    for seed, cls in enumerate(binary.PARAMS, start=1):
        fields = {k: value(v, seed) for k, v in typing.get_type_hints(cls).items()}
        ops.append(Operation("add", (0, 1), (1,), cls(**fields), Numerics("LoFi", k_block=seed), "layer (a.py:3)"))
    tensors = (
        TensorDesc((), "i1", "UInt8", "row_major", "system_memory"),
        TensorDesc((2, 3), "bf16", "Bfp8_b", "tile", "l1", "height_sharded", (2, 4)),
    )
    main = Program("main", tensors, (0,), (1,), tuple(ops))
    callees = (Program(name, (), (), (), ()) for name in ("empty", "callee"))
    return Binary("n150", "wormhole_b0", (main, *callees), "opscope 0.1")


def test_round_trip_of_every_class() -> None:
    assert set(binary.PARAMS) == set(typing.get_args(program.Params))
    data = binary.write(sample())
    assert binary.read(data) == sample()
    assert repr(binary.read(data)) == repr(sample()), "types are kept too"
    assert binary.write(sample()) == data, "the same program gives the same bytes"


def equal(table: object, value: object) -> None:
    """Compares a table as the generated classes decode it with the object that was written."""
    for field in binary._fields(type(value)):
        got, expected = getattr(table, field.attribute), getattr(value, field.name)
        if field.kind in ("table", "union"):
            equal(got, expected)
            if field.kind == "union":
                assert type(got).__name__ == f"{type(expected).__name__}T"
        elif field.kind == "tables":
            assert len(got or ()) == len(expected)
            for part, other in zip(got or (), expected, strict=True):
                equal(part, other)
        elif field.kind in ("numbers", "names"):
            decode = bytes.decode if field.kind == "names" else field.of
            assert tuple(decode(part) for part in (() if got is None else got)) == expected
        elif field.kind == "bytes":
            assert bytes(() if got is None else bytearray(got)) == expected
        else:
            assert (got.decode() if isinstance(got, bytes) else got) == expected


@pytest.fixture(scope="module")
def flatc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """Returns the modules of the classes that flatc makes of the schema, by their names."""
    if shutil.which("flatc") is None:
        pytest.skip("flatc is not installed (flatbuffers-compiler): its classes are what ours are compared with")
    folder = tmp_path_factory.mktemp("flatc")
    subprocess.run(
        ["flatc", "--python", "--gen-object-api", "-o", folder, schema.SCHEMA], check=True, capture_output=True
    )
    sys.path.insert(0, str(folder))
    yield lambda name: importlib.import_module(f"opscope_device.{name}")
    sys.path.remove(str(folder))


def classes_below(cls: type) -> set[type]:
    """A class and those of all that its fields lead to."""
    below = {cls}
    for field in binary._fields(cls):
        if field.kind in ("table", "tables"):
            below |= classes_below(field.of)
        elif field.kind == "union":
            below |= {each for params in binary.PARAMS for each in classes_below(params)}
    return below


def test_numbers_that_a_table_leaves_out_are_those_of_flatc(flatc: Callable[[str], Any]) -> None:
    of_fields = 0
    for cls in classes_below(Binary):
        defaults = getattr(flatc(cls.__name__), f"{cls.__name__}T")()
        for field, slot in zip(binary._fields(cls), binary._slots(cls), strict=True):
            if field.kind in ("int", "float", "bool"):
                assert slot.absent == getattr(defaults, field.attribute), (cls, field.name)
                assert type(slot.absent).__name__ == field.kind
                of_fields += 1
    assert of_fields > 60


@pytest.mark.parametrize("made", [sample(), Binary("n150", "wormhole_b0")], ids=["every class", "defaults"])
def test_flatbuffers_own_classes_read_what_is_written_and_write_what_is_read(
    made: Binary, flatc: Callable[[str], Any]
) -> None:
    body = bytearray(binary.unframe(binary.write(made)))
    assert flatc("Binary").Binary.BinaryBufferHasIdentifier(body, 0)
    decoded = flatc("Binary").BinaryT.InitFromBuf(body, flatbuffers.encode.Get(flatbuffers.packer.uoffset, body, 0))
    equal(decoded, made)
    builder = flatbuffers.Builder()
    builder.Finish(decoded.Pack(builder), file_identifier=binary.IDENTIFIER)
    assert binary.read(binary.frame(bytes(builder.Output()))) == made


def test_numbers_lie_where_they_are_aligned() -> None:
    """Readers in C++ load them where they lie."""
    params = program.PermuteParams((1, 2, 3))
    made = Binary("n150", "b", (Program("m", (), (), (), (Operation("odd", (), (), params, Numerics("x")),)),), "c")
    body = binary.unframe(binary.write(made))
    assert body.index(bytes((1, *[0] * 7, 2, *[0] * 7, 3))) % 8 == 0


@pytest.mark.parametrize("fix_checksum", [False, True])
def test_damage_is_always_one_typed_error(fix_checksum: bool) -> None:
    data = binary.write(sample())
    body = binary.unframe(data)
    random = np.random.default_rng(11)
    refused = 0
    for _ in range(200):
        damaged = bytearray(body if fix_checksum else data)
        if random.random() < 0.3:
            damaged = damaged[: random.integers(0, len(damaged))]
        else:
            for place in random.integers(0, len(damaged), random.integers(1, 4)):
                damaged[place] ^= int(random.integers(1, 256))
        raw = binary.frame(bytes(damaged)) if fix_checksum else bytes(damaged)
        try:
            binary.read(raw)
        except binary.BinaryError:
            refused += 1
    assert refused == 200 if not fix_checksum else refused > 50


def test_what_was_read_and_written_before_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal tables are written and read once; a damaged one is read as if it were the first."""
    tensors = tuple(TensorDesc((n, 1), "f32", "Float32", "tile", "dram") for n in (1, 2, 1))
    ops = tuple(Operation(name, (0,), (1,), LayoutParams(), location="here") for name in ("to_layout", "to_device"))
    made = Binary("n150", "b", (Program("main", tensors, (0,), (2,), ops),), "c")

    def fresh() -> None:
        monkeypatch.setattr(binary, "_PLANS", Plans(binary._slots))
        monkeypatch.setattr(binary, "_WRITER", FlatbufferWriter(binary._slots, binary._CODE))

    def read(body: bytes) -> Binary | None:
        try:
            return binary.read(binary.frame(body))
        except binary.BinaryError:
            return None

    fresh()
    data = binary.write(made)
    assert binary.write(made) == data
    assert binary.write(sample()) + binary.write(made) == binary.write(sample()) + data
    assert binary.read(data) == binary.read(data) == made
    body, random, answers = binary.unframe(data), np.random.default_rng(5), []
    for _ in range(60):
        damaged = bytearray(body)
        for place in random.integers(0, len(body), 2):
            damaged[place] ^= int(random.integers(1, 256))
        warm = read(bytes(damaged))
        kept = binary._PLANS
        fresh()
        assert read(bytes(damaged)) == warm
        monkeypatch.setattr(binary, "_PLANS", kept)
        answers.append(warm is None)
    assert 5 < sum(answers) < 55


def test_a_table_that_points_past_its_end_is_read_each_time() -> None:
    @dataclass(frozen=True)
    class Pair:
        first: str
        second: str

    slots = (Slot("first", 4, "str", None, None), Slot("second", 6, "str", None, None))
    plans = Plans(lambda cls: slots)
    body = FlatbufferWriter(lambda cls: slots, {}).bytes_of(Pair("aa", "bb"), b"TEST")
    assert FlatbufferReader(body, plans, {}).root(Pair) == Pair("aa", "bb")
    at = int.from_bytes(body[:4], "little")
    far = bytearray(body + bytes(-len(body) % 4))
    far[at + 4 : at + 8] = (len(far) - at - 4).to_bytes(4, "little")
    for word in (b"xx", b"yy"):
        data = bytes(far) + (2).to_bytes(4, "little") + word
        assert FlatbufferReader(data, plans, {}).root(Pair) == Pair(word.decode(), "bb")


def test_zeros_of_both_signs_stay_apart() -> None:
    for zero in (0.0, -0.0, 0.0):
        op = Operation("clamp_scalar", (), (), EltwiseParams((zero,)))
        data = binary.write(Binary("n150", "b", (Program("main", (), (), (), (op,)),)))
        (value,) = binary.read(data).programs[0].operations[0].params.scalars
        assert np.signbit(value) == np.signbit(zero)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "at least"),
        (b"#loc = loc(unknown)\nmodule {}", "that starts with"),
        (binary.write(sample())[:-3], "bytes after the header"),
    ],
)
def test_other_bytes_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(binary.BinaryError, match=message):
        binary.read(data)


def test_a_tensor_id_outside_the_table_is_refused() -> None:
    bad = Program("main", (), (), (), (Operation("add", (0,), (), EltwiseParams()),))
    with pytest.raises(binary.BinaryError, match="tensor ids"):
        binary.read(binary.write(Binary("n150", "wormhole_b0", (bad,))))


def test_a_grid_has_two_numbers() -> None:
    """A plan's grid of three ended in a ValueError of whoever unpacked it."""
    spoiled = TensorDesc((2,), "f32", "Float32", "tile", "dram", "interleaved", (1, 1, 1))
    made = Binary("n150", "wormhole_b0", (Program("main", (spoiled,), (), (), ()),), "opscope 0.1")
    with pytest.raises(binary.BinaryError, match="grid: expected 2 numbers, got 3"):
        binary.read(binary.write(made))


def test_a_call_points_forward_to_a_program_that_is_there() -> None:
    def calling(name: str) -> Binary:
        call = Operation("while", (), (), ControlParams((name,)))
        first = Program("first", (), (), (), ())
        return Binary(
            "n150", "wormhole_b0", (first, Program("main", (), (), (), (call,)), Program("last", (), (), (), ()))
        )

    assert binary.read(binary.write(calling("last"))) == calling("last")
    for name in ("nowhere", "main", "first"):
        with pytest.raises(binary.BinaryError, match="expected calls of programs after it"):
            binary.read(binary.write(calling(name)))


def test_large_constants_are_quick_and_exact() -> None:
    data = np.arange(2_000_000, dtype=np.uint8).tobytes()
    op = Operation("constant", (), (0,), program.ConstantParams((2_000_000,), data))
    desc = TensorDesc((2_000_000,), "ui8", "UInt8", "tile", "dram")
    made = Binary("n150", "wormhole_b0", (Program("main", (desc,), (), (0,), (op,)),))
    assert binary.read(binary.write(made)) == made


def test_negative_padding_survives() -> None:
    params = Conv2dParams((2, 2), (-1, 2, -3, 4), (1, 1), (2, 2))
    op = Operation("conv2d", (), (), params)
    layout = Operation("deallocate", (), (), LayoutParams())
    made = Binary("n150", "wormhole_b0", (Program("main", (), (), (), (op, layout)),))
    assert binary.read(binary.write(made)).programs[0].operations[0].params == params
