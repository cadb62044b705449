"""Sharded modules drawn from a seed, each beside the module of one device that computes the same.

Products split along K, rows, columns and both, even and uneven, replicated; shardings of arguments, results, values in
the middle and in loops of called functions; `sdy.manual_computation`, also one in another; in Shardy's words, GSPMD's
and as frontend attributes.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

MESHES = ({"x": 2, "y": 4}, {"x": 2, "y": 2}, {"x": 4}, {"x": 8}, {"x": 2}, {"x": 1, "y": 2})
EVEN, UNEVEN = (8, 16, 24), (5, 6, 7, 10, 13)
Split = tuple[tuple[str, ...], ...]
"""The axes that split each dim."""


@dataclass(frozen=True)
class Case:
    """One module for several devices."""

    kind: str
    mesh: str
    sharded: str
    whole: str
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of the arguments, all of f32."""


class Draw:
    """Draws the parts of one case."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.axes = rng.choice(MESHES)
        self.uneven = rng.random() < 0.4
        self.devices = math.prod(self.axes.values())

    def size(self) -> int:
        return self.rng.choice(UNEVEN if self.uneven else EVEN)

    def split(self, rank: int, *, wanted: int | None = None) -> Split:
        """Axes of the dims of a tensor, each axis once at most; the dim `wanted` gets one. Often some are left out."""
        dims: list[list[str]] = [[] for _ in range(rank)]
        axes = list(self.axes)
        self.rng.shuffle(axes)
        if wanted is not None:
            dims[wanted].append(axes.pop())
        for axis in axes:
            place = self.rng.randrange(rank + 1)
            if place < rank:
                dims[place].append(axis)
        return tuple(tuple(dim) for dim in dims)

    def head(self) -> str:
        return f"sdy.mesh @m = <[{self.sizes()}]>\n"

    def sizes(self) -> str:
        return ", ".join(f'"{axis}"={size}' for axis, size in self.axes.items())

    def mesh(self) -> str:
        return "x".join(str(size) for size in self.axes.values())

    def groups(self, axis: str) -> str:
        """`replica_groups` of the devices along an axis."""
        ids: dict[tuple[int, ...], list[int]] = {}
        places = itertools.product(*(range(size) for size in self.axes.values()))
        at = list(self.axes).index(axis)
        for device, place in enumerate(places):
            ids.setdefault(place[:at] + place[at + 1 :], []).append(device)
        rows = list(ids.values())
        return f"dense<{rows}> : tensor<{len(rows)}x{len(rows[0])}xi64>"


def tensor(shape: Sequence[int]) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


def dims(split: Split) -> str:
    return ", ".join("{" + ", ".join(f'"{axis}"' for axis in axes) + "}" for axes in split)


def shardy(split: Split) -> str:
    return f"sdy.sharding = #sdy.sharding<@m, [{dims(split)}]>"


def frontend(split: Split) -> str:
    text = f"#sdy.sharding<@m, [{dims(split)}]>".replace('"', "\\22")
    return f'mhlo.frontend_attributes = {{xla.sdy.sharding = "{text}"}}'


def gspmd(draw: Draw, split: Split) -> str:
    """The same in GSPMD's words: tiles over the mesh, in which the axes that are used come first."""
    names, sizes = list(draw.axes), list(draw.axes.values())
    used = [axis for axes in split for axis in axes]
    order = [names.index(axis) for axis in used] + [i for i, axis in enumerate(names) if axis not in used]
    tiles = [math.prod(draw.axes[axis] for axis in axes) for axes in split]
    rest = draw.devices // math.prod(tiles)
    last = f",{rest}] last_tile_dim_replicate" if rest > 1 else "]"
    numbers = ",".join(map(str, tiles)) + last.split("]")[0]
    iota = f"[{','.join(map(str, sizes))}]T({','.join(map(str, order))})" if order != sorted(order) else ""
    iota = iota or f"[{draw.devices}]"
    if math.prod(tiles) == 1:
        return 'mhlo.sharding = "{replicated}"'
    return f'mhlo.sharding = "{{devices=[{numbers}]<={iota}{last.split("]")[1]}}}"'


Mark = Callable[[Split], str]


def function(
    name: str, takes: Sequence[Sequence[int]], gives: Sequence[int], body: str, marks: Sequence[str], result: str = ""
) -> str:
    arguments = ", ".join(
        f"%a{i}: {tensor(shape)}{f' {{{mark}}}' if mark else ''}"
        for i, (shape, mark) in enumerate(itertools.zip_longest(takes, marks))
    )
    out = f"({tensor(gives)} {{{result}}})" if result else tensor(gives)
    visible = "" if name == "main" else "private "
    return f"func.func {visible}@{name}({arguments}) -> {out} {{\n{body}\n  return %r : {tensor(gives)}\n}}\n"


def case(
    kind: str,
    draw: Draw,
    takes: Sequence[Sequence[int]],
    gives: Sequence[int],
    body: str,
    splits: Sequence[Split],
    result: Split,
    plain: str = "",
    before: tuple[str, str] = ("", ""),
) -> Case:
    """A case whose arguments are marked in a spelling that is drawn; `plain` is the body for one device, where it
    differs, and `before` are the functions that either calls."""
    spelling = draw.rng.choice(("shardy", "shardy", "gspmd", "frontend")) if not plain else "shardy"
    mark: Mark = {"shardy": shardy, "frontend": frontend, "gspmd": lambda split: gspmd(draw, split)}[spelling]
    head = draw.head() if spelling == "shardy" else ""
    marked = function(
        "main", takes, gives, body, [mark(split) for split in splits], mark(result) if draw.rng.random() < 0.7 else ""
    )
    attributes = f"mhlo.num_partitions = {draw.devices} : i32, mhlo.num_replicas = 1 : i32"
    if spelling == "frontend":
        meshes = f"{{m = #sdy.mesh<[{draw.sizes()}]>}}".replace('"', "\\22")
        attributes += f', mhlo.frontend_attributes = {{xla.sdy.meshes = "{meshes}"}}'
    whole = before[1] + function("main", takes, gives, plain or body, [""] * len(takes))
    module = f"module attributes {{{attributes}}} {{\n{head}{before[0]}{marked}}}\n"
    return Case(f"{kind}, {spelling}", draw.mesh(), module, whole, tuple(tuple(shape) for shape in takes))


DOT = """  %{out} = stablehlo.dot_general {left}, {right}, contracting_dims = [1] x [0]
    : ({l}, {r}) -> {o}"""


def dot(out: str, left: str, right: str, n: int, k: int, m: int) -> str:
    return DOT.format(out=out, left=left, right=right, l=tensor((n, k)), r=tensor((k, m)), o=tensor((n, m)))


def product(draw: Draw) -> Case:
    """A product, its arguments split in any way: along K on one side or both, rows, columns, or not at all."""
    n, k, m = draw.size(), draw.size(), draw.size()
    along_k = draw.rng.random() < 0.6
    splits = [draw.split(2, wanted=1 if along_k else None), draw.split(2, wanted=0 if along_k else None)]
    return case("product", draw, [(n, k), (k, m)], (n, m), dot("r", "%a0", "%a1", n, k, m), splits, draw.split(2))


def replicated(draw: Draw) -> Case:
    n, k, m = draw.size(), draw.size(), draw.size()
    nothing: Split = ((), ())
    body = dot("r", "%a0", "%a1", n, k, m)
    return case("replicated", draw, [(n, k), (k, m)], (n, m), body, [nothing, nothing], draw.split(2, wanted=0))


def reduction(draw: Draw) -> Case:
    """A sum or a maximum along a split dim, of tanh of its argument."""
    n, m = draw.size(), draw.size()
    name, start = draw.rng.choice((("add", "0.0"), ("maximum", "0xFF800000")))
    t, o = tensor((n, m)), tensor((m,))
    body = f"""  %z = stablehlo.constant dense<{start}> : tensor<f32>
  %t = stablehlo.tanh %a0 : {t}
  %r = stablehlo.reduce(%t init: %z) applies stablehlo.{name} across dimensions = [0] : ({t}, tensor<f32>) -> {o}"""
    return case(f"reduce {name}", draw, [(n, m)], (m,), body, [draw.split(2, wanted=0)], draw.split(1))


def moved(draw: Draw) -> Case:
    """What only moves values across shards: slices, reversals, transposes, joins, pads."""
    n, m = draw.size(), draw.size()
    t, u = tensor((n, m)), tensor((m, n))
    kind, gives, body = draw.rng.choice(
        (
            ("slice", (n - 2, m), f"  %r = stablehlo.slice %a0 [1:{n - 1}, 0:{m}] : ({t}) -> {tensor((n - 2, m))}"),
            ("reverse", (n, m), f"  %r = stablehlo.reverse %a0, dims = [0] : {t}"),
            ("transpose", (m, n), f"  %r = stablehlo.transpose %a0, dims = [1, 0] : ({t}) -> {u}"),
            (
                "concatenate",
                (2 * n, m),
                f"  %r = stablehlo.concatenate %a0, %a0, dim = 0 : ({t}, {t}) -> {tensor((2 * n, m))}",
            ),
            (
                "pad",
                (n + 3, m),
                f"""  %z = stablehlo.constant dense<0.5> : tensor<f32>
  %r = stablehlo.pad %a0, %z, low = [1, 0], high = [2, 0], interior = [0, 0]
    : ({t}, tensor<f32>) -> {tensor((n + 3, m))}""",
            ),
            ("reshape", (n * m,), f"  %r = stablehlo.reshape %a0 : ({t}) -> {tensor((n * m,))}"),
        )
    )
    return case(kind, draw, [(n, m)], gives, body, [draw.split(2, wanted=0)], draw.split(len(gives)))


def convolution(draw: Draw) -> Case:
    """A convolution whose image is split along space, batch or channels."""
    c, d, h = draw.rng.choice((2, 3, 4)), draw.rng.choice((4, 8)), draw.size()
    image, kernel, out = (2, c, h, h), (d, c, 3, 3), (2, d, h, h)
    body = f"""  %r = stablehlo.convolution(%a0, %a1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : ({tensor(image)}, {tensor(kernel)}) -> {tensor(out)}"""
    splits = [draw.split(4, wanted=draw.rng.choice((1, 2, 3))), draw.split(4)]
    return case("convolution", draw, [image, kernel], out, body, splits, draw.split(4))


def middle(draw: Draw) -> Case:
    """A value in the middle is constrained."""
    n, k, m = draw.size(), draw.size(), draw.size()
    body = f"""{dot("d", "%a0", "%a1", n, k, m)}
  %c = sdy.sharding_constraint %d <@m, [{dims(draw.split(2, wanted=1))}]> : {tensor((n, m))}
  %r = stablehlo.tanh %c : {tensor((n, m))}"""
    plain = f"{dot('d', '%a0', '%a1', n, k, m)}\n  %r = stablehlo.tanh %d : {tensor((n, m))}"
    splits = [draw.split(2, wanted=1), draw.split(2)]
    return case("constraint", draw, [(n, k), (k, m)], (n, m), body, splits, draw.split(2), plain)


def nested(draw: Draw) -> Case:
    """A sharding in a loop of a called function."""
    n, k = draw.size(), draw.size()
    t, w = tensor((n, k)), tensor((k, k))
    split = dims(draw.split(2, wanted=draw.rng.randrange(2)))
    marked = draw.rng.choice(
        (
            f"%v = stablehlo.tanh %d {{sdy.sharding = #sdy.sharding_per_value<[<@m, [{split}]>]>}} : {t}",
            f"%s = sdy.sharding_constraint %d <@m, [{split}]> : {t}\n      %v = stablehlo.tanh %s : {t}",
        )
    )

    def called(value: str, marks: Sequence[str]) -> str:
        product = dot("d", "%c", "%a1", n, k, k).strip()
        body = f"""  %i = stablehlo.constant dense<0> : tensor<i32>
  %l:2 = stablehlo.while(%n = %i, %c = %a0) : tensor<i32>, {t}
    cond {{
      %two = stablehlo.constant dense<2> : tensor<i32>
      %p = stablehlo.compare LT, %n, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      %n1 = stablehlo.add %n, %one : tensor<i32>
      {product}
      {value}
      stablehlo.return %n1, %v : tensor<i32>, {t}
    }}
  %r = stablehlo.negate %l#1 : {t}"""
        return function("f", [(n, k), (k, k)], (n, k), body, marks)

    body = f"  %r = func.call @f(%a0, %a1) : ({t}, {w}) -> {t}"
    before = (called(marked, ["", ""]), called(f"%v = stablehlo.tanh %d : {t}", ["", ""]))
    splits = [draw.split(2), draw.split(2, wanted=0)]
    return case("nested", draw, [(n, k), (k, k)], (n, k), body, splits, draw.split(2), body, before)


def _psum(draw: Draw, axis: str, value: str, shape: Sequence[int]) -> str:
    return f"""    %r0 = "stablehlo.all_reduce"({value}) <{{replica_groups = {draw.groups(axis)},
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}}> ({{
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }}) : ({tensor(shape)}) -> {tensor(shape)}"""


def manual(draw: Draw) -> Case:
    """What `jax.shard_map` writes: each device's product along its part of K, and their sum."""
    axis = list(draw.axes)[-1]
    parts = draw.axes[axis]
    n, k, m = draw.size(), parts * draw.rng.choice((2, 3, 5)), draw.size()
    body = f"""  %r = sdy.manual_computation(%a0, %a1)
    in_shardings=[<@m, [{{}}, {{"{axis}"}}]>, <@m, [{{"{axis}"}}, {{}}]>] out_shardings=[<@m, [{{}}, {{}}]>]
    manual_axes={{"{axis}"}} (%u: {tensor((n, k // parts))}, %v: {tensor((k // parts, m))}) {{
  {dot("d", "%u", "%v", n, k // parts, m)}
{_psum(draw, axis, "%d", (n, m))}
    sdy.return %r0 : {tensor((n, m))}
  }} : ({tensor((n, k))}, {tensor((k, m))}) -> {tensor((n, m))}"""
    splits: list[Split] = [((), (axis,)), ((axis,), ())]
    plain = dot("r", "%a0", "%a1", n, k, m)
    return case("manual", draw, [(n, k), (k, m)], (n, m), body, splits, ((), ()), plain)


def manual_in_manual(draw: Draw) -> Case:
    """Rows over the first axis, and in each of them K over the second."""
    while len(draw.axes) == 1:
        draw = Draw(draw.rng)
    (x, rows), (y, parts) = draw.axes.items()
    n, k, m = rows * draw.rng.choice((2, 3)), parts * draw.rng.choice((2, 5)), draw.size()
    a, b = tensor((n // rows, k)), tensor((k, m))
    o = tensor((n // rows, m))
    body = f"""  %r = sdy.manual_computation(%a0, %a1)
    in_shardings=[<@m, [{{"{x}"}}, {{}}]>, <@m, [{{}}, {{}}]>] out_shardings=[<@m, [{{"{x}"}}, {{}}]>]
    manual_axes={{"{x}"}} (%g: {a}, %h: {b}) {{
    %inner = sdy.manual_computation(%g, %h)
      in_shardings=[<@m, [{{}}, {{"{y}"}}]>, <@m, [{{"{y}"}}, {{}}]>] out_shardings=[<@m, [{{}}, {{}}]>]
      manual_axes={{"{y}"}} (%u: {tensor((n // rows, k // parts))}, %v: {tensor((k // parts, m))}) {{
    {dot("d", "%u", "%v", n // rows, k // parts, m)}
  {_psum(draw, y, "%d", (n // rows, m))}
      sdy.return %r0 : {o}
    }} : ({a}, {b}) -> {o}
    sdy.return %inner : {o}
  }} : ({tensor((n, k))}, {b}) -> {tensor((n, m))}"""
    splits: list[Split] = [((x,), ()), ((), ())]
    plain = dot("r", "%a0", "%a1", n, k, m)
    return case("manual in manual", draw, [(n, k), (k, m)], (n, m), body, splits, ((x,), ()), plain)


KINDS = (
    product,
    product,
    product,
    replicated,
    reduction,
    moved,
    moved,
    convolution,
    middle,
    nested,
    nested,
    manual,
    manual_in_manual,
)


def cases(seed: int, count: int) -> Iterator[Case]:
    """`count` modules of a seed, the kinds in turn."""
    rng = random.Random(seed)
    for number in range(count):
        yield KINDS[number % len(KINDS)](Draw(rng))
