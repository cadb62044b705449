"""Prints and parses MLIR text, including hexadecimal floats in dense literals, which xDSL's parser gets wrong."""

from __future__ import annotations

import io
import re
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from opscope.compiler.errors import CompilerInputError
from opscope.compiler.ir.context import context

_LAYOUT = "#ttnn.ttnn_layout<"
_DIALECT_PREFIX = re.compile(r"^( *)(?:builtin\.(?=module\b)|func\.(?=return\b))", re.MULTILINE)
"""What MLIR's tools leave out before two ops, which stand at the start of their lines."""


class BitParser(Parser):
    """xDSL's parser, except that hexadecimal literals of float type are bits: `dense<0xFF800000> : tensor<f32>` is
    -inf."""

    class _TensorLiteralElement(Parser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
        def to_type(self, parser: Any, type: Any) -> Any:
            """Returns the element's value in `type`; a literal spelled 0x... is its bit pattern."""
            spelled = self.span.text.lstrip("-")
            if isinstance(type, AnyFloat) and spelled[:2].lower() == "0x":
                return bits_to_float(int(spelled, 16), type)
            return super().to_type(parser, type)


def bits_to_float(bits: int, element: Any) -> float:
    """Returns the value of a bit pattern in a float type."""
    return element.unpack(bits.to_bytes(element.compile_time_size, "little"), 1)[0]


def parse(source: str, name: str = "<input>", ctx: Context | None = None) -> ModuleOp:
    """Parses a module in generic (or xDSL's) syntax. Raises CompilerInputError, in one line with line and column."""
    try:
        return BitParser(ctx or context(), source, name).parse_module()
    except ParseError as error:
        line, column = _position(source, error.span.start)
        message = str(error.args[-1]).strip().splitlines()[-1].strip()
        raise CompilerInputError(
            f"{name}:{line}:{column}: expected generic MLIR, got: {message}; try `mlir-opt --mlir-print-op-generic`"
        ) from error
    except VerifyException as error:
        raise CompilerInputError(f"{name}: expected valid IR, got: {str(error).splitlines()[0]}") from error


def parse_attribute(source: str) -> Attribute:
    """Parses one attribute."""
    return BitParser(context(), source).parse_attribute()


def to_text(module: Any, locations: bool = False, generic: bool = True) -> str:
    """Prints the module (or op) in generic syntax, which MLIR reads with unregistered dialects allowed.

    With `generic=False`, prints as MLIR's tools do: attributes sorted by name, and functions in the custom syntax of
    dialect func.
    """
    if not generic:
        _as_tools_do(module)
    stream = io.StringIO()
    Printer(stream=stream, print_generic_format=generic, print_debuginfo=locations).print_op(module)
    words = stream.getvalue() + "\n"
    return _with_aliases(words if generic else _DIALECT_PREFIX.sub(r"\1", words))


def _as_tools_do(module: Any) -> None:
    """Names unnamed arguments of functions `%arg0`, `%arg1`, ... and sorts attributes."""
    for op in module.walk():
        op.properties = dict(sorted(op.properties.items()))
        op.attributes = dict(sorted(op.attributes.items()))
        if isinstance(op, FuncOp):
            for number, value in enumerate(block.args if (block := op.body.first_block) else ()):
                value.name_hint = value.name_hint or f"arg{number}"


def _with_aliases(source: str) -> str:
    """Replaces layouts by aliases defined once at the top: `#ttnn_layout`, `#ttnn_layout1`, ... as tt-mlir does."""
    names: dict[str, str] = {}
    parts: list[str] = []
    done = 0
    while (start := source.find(_LAYOUT, done)) >= 0:
        end = _closing(source, start + len(_LAYOUT))
        name = names.setdefault(source[start:end], f"#ttnn_layout{len(names) or ''}")
        parts += [source[done:start], name]
        done = end
    definitions = "".join(f"{name} = {layout}\n" for layout, name in names.items())
    return definitions + "".join(parts) + source[done:]


def _closing(source: str, start: int) -> int:
    """Returns the end of the angle bracket that opens just before `start`; those of arrows do not count."""
    depth, at = 1, start
    while depth:
        at += 1
        if source[at - 1] == "<":
            depth += 1
        elif source[at - 1] == ">" and source[at - 2] != "-":
            depth -= 1
    return at


def _position(source: str, offset: int) -> tuple[int, int]:
    before = source[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
