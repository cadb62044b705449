"""Modules that crash, stop or overfill what reads them: mutated text and bytecode, endless loops, calls of calls, deep
nesting, absurd shapes, resources that lie. Half go through `pytest --model GLOB --op-by-op`, fifty files a run and good
models among them, half through `opscope.split`.

Each must be a row of its model or one line, within the limit, and the good models must keep their verdict.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from ci.attacks._many_models import GOOD, run_models, split_models
from ci.attacks.attempt import Attempt
from ci.attacks.damage import spoiled

SAMPLE, FULL = 6, 600
PER_RUN = 50

BYTECODE = base64.b64decode(
    "TUzvUg1NTElSMjMuMC4wZ2l0AAEnBwEFCREBAw8DBQcTBQsXGx8jJwM/IQ8BHwsTCwsTExNPExMzExMTEwUDHwEPFwcXFxMbDwLjBRUXAQEB"
    "DQsFFxcBAwMXAQMjFwEDTyUJIQAAgD8AAABAAABAQAAAgEAXAQURFwEHESMNAxEBAAAAAAAAABcBCREXAQsRFwENERcBDwcLAQEDBQMBGwUh"
    "EQMLGwUhQQMbBUERAxsDEQMFBQUHAwEBAgQEjwUBUAMBBwR/AwEFA1AJAwcEawMPGwULCw8NAAdCEQUDCQlGEwcDAQUBAwtGFwkDAQMFDQYZ"
    "AwEFBwkPRhsLAwEDCwUEHQMNBgMBBQEA0RkLBQsJIxkTDw8VCxFidWlsdGluAGZ1bmMAc3RhYmxlaGxvAG1vZHVsZQByZXR1cm4AY29uc3Rh"
    "bnQAZG90X2dlbmVyYWwAYnJvYWRjYXN0X2luX2RpbQBhZGQAdGFuaAAtAG1haW4ACCsNBQEBDQEFAQEHAQMPBwEfAQMVAwE="
)
"""A product, a broadcast bias and a tanh as MLIR bytecode of jaxlib 0.10."""


def _mutated(data: bytes, draw: random.Random) -> bytes:
    """`data` with one to four changes of a few bytes."""
    for _ in range(draw.choice((1, 1, 2, 4))):
        data = spoiled(data, draw, ("flip", "bytes", "insert", "remove"))[1] or data
    return data


def _function(body: str, result: str = "tensor<4xf32>", arguments: str = "%a: tensor<4xf32>") -> str:
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n}}"


def _bytecode(draw: random.Random) -> bytes:
    return _mutated(BYTECODE, draw)


def _text(draw: random.Random) -> bytes:
    return _mutated(GOOD.encode(), draw)


def _truncated(draw: random.Random) -> bytes:
    return spoiled(draw.choice((BYTECODE, GOOD.encode())), draw, ("cut",))[1]


def _endless(draw: random.Random) -> bytes:
    op = draw.choice(("add", "multiply", "maximum"))
    return _function(
        f"""  %true = stablehlo.constant dense<true> : tensor<i1>
  %r = stablehlo.while(%x = %a) : tensor<4xf32>
    cond {{ stablehlo.return %true : tensor<i1> }}
    do {{ %y = stablehlo.{op} %x, %x : tensor<4xf32>
         stablehlo.return %y : tensor<4xf32> }}
  return %r : tensor<4xf32>"""
    ).encode()


def _calls(draw: random.Random) -> bytes:
    depth = draw.randint(30, 60)
    type_ = "(tensor<4xf32>) -> tensor<4xf32>"
    lines = [_function(f"  %0 = call @f{depth}(%a) : {type_}\n  return %0 : tensor<4xf32>")]
    for level in range(depth, 0, -1):
        lines.append(
            f"func.func private @f{level}(%a: tensor<4xf32>) -> tensor<4xf32> {{\n"
            f"  %0 = call @f{level - 1}(%a) : {type_}\n  %1 = call @f{level - 1}(%0) : {type_}\n"
            "  return %1 : tensor<4xf32> }"
        )
    lines.append("func.func private @f0(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }")
    return "\n".join(lines).encode()


def _deep(draw: random.Random) -> bytes:
    depth = draw.choice((100, 2_000, 20_000))
    head = "".join(f'%r{level} = "stablehlo.if"(%p) ({{\n' for level in range(depth))
    tail = "".join(
        "}, { stablehlo.return %a : tensor<4xf32> }) : (tensor<i1>) -> tensor<4xf32>\n"
        + (f"stablehlo.return %r{level} : tensor<4xf32>\n" if level else "return %r0 : tensor<4xf32>")
        for level in range(depth - 1, -1, -1)
    )
    body = f"{head}stablehlo.return %a : tensor<4xf32>\n{tail}"
    return _function(body, arguments="%p: tensor<i1>, %a: tensor<4xf32>").encode()


def _shapes(draw: random.Random) -> bytes:
    shape = draw.choice(
        (
            "9223372036854775807",
            "4294967296x4294967296",
            "9223372036854775807x9223372036854775807",
            "1099511627776",
            "0x9223372036854775807",
            "1" + "x1" * 5000,
            "-1",
            "99999999999999999999",
        )
    )
    kind = f"tensor<{shape}xf32>"
    body = draw.choice(
        (
            f"  %0 = stablehlo.tanh %a : {kind}\n  return %0 : {kind}",
            f"  %0 = stablehlo.constant dense<1.0> : {kind}\n  return %0 : {kind}",
            f"  %0 = stablehlo.iota dim = 0 : {kind}\n  return %0 : {kind}",
            f"  %0 = stablehlo.add %a, %a : {kind}\n  return %0 : {kind}",
        )
    )
    return _function(body, kind, f"%a: {kind}").encode()


def _resource(draw: random.Random) -> bytes:
    size = draw.choice((0, 1, 2, 3, 5, 8, 1000))
    data = "0x04000000" + "0000803F" * size
    resources = draw.choice(("", f'{{-# dialect_resources: {{ builtin: {{ w: "{data}" }} }} #-}}'))
    body = """  %0 = stablehlo.constant dense_resource<w> : tensor<4xf32>
  %1 = stablehlo.add %a, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>"""
    return f"{_function(body)}\n{resources}".encode()


def _attributes(draw: random.Random) -> bytes:
    count = draw.choice((1_000, 20_000))
    listed = ", ".join(f"a{number} = {number} : i64" for number in range(count))
    return _function(f"  %0 = stablehlo.tanh %a {{{listed}}} : tensor<4xf32>\n  return %0 : tensor<4xf32>").encode()


def _mains(draw: random.Random) -> bytes:
    one = _function("  return %a : tensor<4xf32>")
    return draw.choice(
        (
            f"{one}\n{one}",
            one.replace("@main", "@f") + one.replace("@main", "@g"),
            "module {}",
            "func.func private @main(tensor<4xf32>) -> tensor<4xf32>",
            f"module {{ module {{ {one} }} }}",
            "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { cf.br ^b\n^b:\n return %a : tensor<4xf32> }",
            _function("%0 = call @main(%a) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>"),
        )
    ).encode()


def _calls_of_nothing(draw: random.Random) -> bytes:
    target = draw.choice(("nobody", "lapack_sgesdd", "xla_buffer_python_cpu_callback", "\\00", "a" * 10_000))
    return _function(
        f'  %0 = "stablehlo.custom_call"(%a) {{call_target_name = "{target}", api_version = 4 : i32}} : '
        "(tensor<4xf32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>"
    ).encode()


def _bytes(draw: random.Random) -> bytes:
    return draw.choice(
        (b"", b"\0" * 4096, b"ML\xefR", b"\xff\xfe", draw.randbytes(500), b"ML\xefR" + draw.randbytes(99))
    )


KINDS: dict[str, tuple[int, Callable[[random.Random], bytes]]] = {
    "bytecode": (8, _bytecode),
    "text": (4, _text),
    "truncated": (2, _truncated),
    "calls": (1, _calls),
    "deep": (1, _deep),
    "shapes": (3, _shapes),
    "resource": (2, _resource),
    "attributes": (1, _attributes),
    "mains": (2, _mains),
    "custom_call": (1, _calls_of_nothing),
    "bytes": (1, _bytes),
}
"""Kind -> how often it is drawn, and what makes one. `endless` is made apart, since each costs its whole limit."""
ENDLESS_OF = 50
"""One module of so many does not end."""


def files(count: int, draw: random.Random, folder: Path) -> list[tuple[str, Path]]:
    """(kind, file) of `count` hostile modules, written to `folder`."""
    folder.mkdir()
    made = []
    for number in range(count):
        kind = draw.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
        kind = "endless" if number % ENDLESS_OF == ENDLESS_OF - 1 else kind
        path = folder / f"{kind}{number:04}.mlir"
        path.write_bytes(_endless(draw) if kind == "endless" else KINDS[kind][1](draw))
        made.append((kind, path))
    return made


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """Half of the modules through pytest, half through the Python API."""
    draw = random.Random(seed)
    rest, number = count, 0
    while rest:
        made = files(min(rest, PER_RUN), draw, folder / f"models{number}")
        run = run_models if number % 2 == 0 else split_models
        yield from run(made, folder / f"run{number}")
        rest, number = rest - len(made), number + 1
