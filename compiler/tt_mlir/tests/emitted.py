"""Writes small TTNN modules in the form in which tt-mlir's executables hold them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from opscope.compiler.api import load_board
from opscope.compiler.target.program import TensorDesc
from opscope.compiler.tt_mlir.program import TtMlirProgram, tt_mlir_program

TILED = {"ui32": "u32", "ui16": "u16", "ui8": "u8"}
NO_FUNCTIONS = "activations = [], input_tensor_a_activations = [], input_tensor_b_activations = []"
NAMED = '"net/op"(#loc)'
"""A location as arguments have it: no alias stands for it, only for what is in it."""
HEAD = """#dram = #ttnn.buffer_type<dram>
#loc = loc("net.py":3:7)
#loc2 = loc("net/op"(#loc))
"""
OPEN = """module attributes {ttcore.meshes = #ttcore.meshes<[<"mesh" = 1x1>]>} {
  ttcore.device_module {
    builtin.module {
      ttcore.device @default_device = <workerGrid = #ttcore.grid<8x8>, chipIds = [0]> loc(#loc2)
"""
CLOSE = """    } loc(#loc2)
  } loc(#loc2)
} loc(#loc2)
#loc1 = loc(unknown)
#loc3 = loc("net/op_reshape"(#loc2))
#loc4 = loc(callsite(#loc2 at #loc))
"""


class Text:
    """A module that is being written: layouts get aliases, functions are added in order."""

    def __init__(self) -> None:
        self.layouts: dict[str, str] = {}
        self.functions: list[str] = []

    def kind(self, shape: Sequence[int], element: str, tile: bool = True, memory: str = "#dram") -> str:
        """A tensor type, such as `tensor<2x3xf32, #ttnn_layout1>`."""
        dims = ", ".join(f"d{n}" for n in range(len(shape)))
        element_type = TILED.get(element, element)
        inner = (
            f"1x1x!ttcore.tile<32x32, {element_type}>" if tile else f"{prod(shape[:-1])}x{prod(shape[-1:])}x{element}"
        )
        spread = ", <interleaved>" if memory == "#dram" else ""
        layout = f"#ttnn.ttnn_layout<({dims}) -> (0, 0), <1x1>, memref<{inner}, {memory}>{spread}>"
        name = self.layouts.setdefault(layout, f"#ttnn_layout{len(self.layouts) or ''}")
        return f"tensor<{''.join(f'{n}x' for n in shape)}{element}, {name}>"

    def function(
        self,
        lines: Sequence[str],
        arguments: Sequence[str],
        results: Sequence[str],
        returned: str,
        *,
        name: str = "main",
        before: Sequence[str] = (),
    ) -> None:
        """Adds a function; `before` are the element types that arguments, then results, had."""
        old = [*before, *[""] * (len(arguments) + len(results) - len(before))]
        typed = [
            f"%arg{n}: {kind}{_before(kind, was)} loc({'unknown' if n else NAMED})"
            for n, (kind, was) in enumerate(zip(arguments, old, strict=False))
        ]
        made = [f"{kind}{_before(kind, was)}" for kind, was in zip(results, old[len(arguments) :], strict=True)]
        arrow = made[0] if len(made) == 1 and "{" not in made[0] else f"({', '.join(made)})"
        private = "private " if name != "main" else ""
        head = f"      func.func {private}@{name}({', '.join(typed)}) -> {arrow} {{\n"
        body = "".join(f"        {line} loc(#loc2)\n" for line in lines)
        end = f"        return {returned} : {', '.join(results)} loc(#loc1)\n      }} loc(#loc2)\n"
        self.functions.append(f"{head}{body}{end}")

    def written(self) -> str:
        """The whole text."""
        layouts = "".join(f"{name} = {layout}\n" for layout, name in self.layouts.items())
        return f"{HEAD}{layouts}{OPEN}{''.join(self.functions)}{CLOSE}"


def _before(kind: str, element: str) -> str:
    if not element:
        return ""
    sizes = kind[kind.index("<") + 1 : kind.index(",")]
    sizes = sizes[: sizes.rfind("x") + 1]
    return f" {{ttcore.local_shape = #ttcore<local_shape local_shape = tensor<{sizes}{element}>>}}"


def one_op(
    name: str,
    attributes: str,
    operands: Sequence[tuple[Sequence[int], str]],
    result: tuple[Sequence[int], str],
    before: Sequence[str] = (),
) -> str:
    """A module of one op between moves to tiles."""
    text = Text()
    rows = [text.kind(shape, element, tile=False) for shape, element in operands]
    tiles = [text.kind(shape, element) for shape, element in operands]
    target = text.kind(*result)
    lines = [
        f'%{n} = "ttnn.to_layout"(%arg{n}) : ({a}) -> {b}' for n, (a, b) in enumerate(zip(rows, tiles, strict=True))
    ]
    arguments, count = ", ".join(f"%{n}" for n in range(len(rows))), len(rows)
    dictionary = f" <{{{attributes}}}>" if attributes else ""
    lines.append(f'%{count} = "{name}"({arguments}){dictionary} : ({", ".join(tiles)}) -> {target}')
    text.function(lines, rows, [target], f"%{count}", before=before)
    return text.written()


def program(text: str, board: str = "n150") -> TtMlirProgram:
    """The program of a text."""
    return tt_mlir_program(text, load_board(board))


def entry_output(made: TtMlirProgram) -> TensorDesc:
    """The description of the entry's first result."""
    entry = made.binary.programs[0]
    return entry.tensors[entry.outputs[0]]


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 8 - 1
