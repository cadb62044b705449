"""Prints and parses MLIR text, including hexadecimal floats in dense literals, which xDSL's parser gets wrong."""

from __future__ import annotations

import io
import re
from math import isfinite, prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, BytesAttr, DenseIntOrFPElementsAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from opscope.base.number_formats import SIGNIFICAND_BITS
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.ir.context import context

_LAYOUT = "#ttnn.ttnn_layout<"
_CUSTOM = re.compile(r'"(ttir\.(?:empty|tt_lang_op))"(\(.*?\))( <\{.*\}>)? : (\(.*?\) -> )?')
"""Two ops that tt-mlir prints without quotes."""
_FEW, _PADDING = 6, 3
"""Digits of the short form, and zeros after the point that the long one has before it is scientific."""
RESULTS = {
    "ttir.batch_norm_training": ("result", "batch_mean", "batch_variance"),
    "ttir.topk": ("values", "indices"),
    "ttir.sort": ("values", "indices"),
}
"""Names of results, as tt-mlir prints them."""
_DIALECT_PREFIX = re.compile(r"^( *)(?:builtin\.(?=module\b)|func\.(?=return\b))", re.MULTILINE)
"""What MLIR's tools leave out before two ops, which stand at the start of their lines."""
_RETURN_PREFIX = re.compile(r"^( *)func\.(?=return\b)", re.MULTILINE)
"""The same within an op whose ops are not of dialect builtin."""


class BitParser(Parser):
    """xDSL's parser, except that hexadecimal literals of float type are bits: `dense<0xFF800000> : tensor<f32>` is
    -inf."""

    class _TensorLiteralElement(Parser._TensorLiteralElement):
        def to_type(self, parser: Any, type: Any) -> Any:
            """Returns the element's value in `type`; a literal spelled 0x... is its bit pattern."""
            spelled = self.span.text.lstrip("-")
            if isinstance(type, AnyFloat) and spelled[:2].lower() == "0x":
                return bits_to_float(int(spelled, 16), type)
            return super().to_type(parser, type)

    _shape: list[int] | None = None
    _whole: Any = None

    def _parse_tensor_literal(self) -> Any:
        values, self._shape = super()._parse_tensor_literal()
        return values, self._shape

    def _parse_dense_literal_type(self) -> Any:
        """Returns a splat's type as that of one number, since xDSL packs every element of a list by itself."""
        kind = super()._parse_dense_literal_type()
        if self._shape == [] and isinstance(kind, TensorType):
            self._whole = kind
            return TensorType(kind.element_type, [])
        return kind

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> Any:
        """Returns a dense attribute; the elements of a splat are the bytes of its one number, repeated."""
        self._shape = self._whole = None
        made = super().parse_dense_int_or_fp_elements_attr(type)
        whole, self._whole = self._whole, None
        if whole is None:
            return made
        return DenseIntOrFPElementsAttr(whole, BytesAttr(made.data.data * prod(whole.get_shape())))


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


class SplatPrinter(Printer):
    """xDSL's printer, except that the elements of a splat are compared as bytes."""

    def print_attribute(self, attribute: Attribute) -> None:
        """Prints a constant of one number, a NaN too, as one element; xDSL makes a number of each and compares them."""
        if isinstance(attribute, DenseIntOrFPElementsAttr) and len(attribute) > 1:
            first = attribute.data.data[: len(attribute.data.data) // len(attribute)]
            if first * len(attribute) == attribute.data.data and isinstance(kind := attribute.type, TensorType):
                DenseIntOrFPElementsAttr(TensorType(kind.element_type, []), BytesAttr(first)).print_without_type(self)
                self.print_string(" : ")
                self.print_attribute(kind)
                return
        super().print_attribute(attribute)


class ToolPrinter(SplatPrinter):
    """xDSL's printer, except that floats are written as LLVM does: `1.000000e-03` if so few digits are the value, else
    as many as its type may need, without zeros at the end: `0.899999976`.
    """

    def _print_results(self, op: Any) -> None:
        """Prints results without names as one: `%0:2`, of which `%0#1` is the second."""
        if len(op.results) < 2 or any(value.name_hint for value in op.results):
            super()._print_results(op)
            return
        name = self._get_new_valid_name_id()
        for at, value in enumerate(op.results):
            self._ssa_values[value] = f"{name}#{at}"
        self.print_string(f"%{name}:{len(op.results)} = ")

    def print_float(self, value: float, type: AnyFloat) -> None:
        """Prints a float in its type's precision; infinities and NaN as their bits: `0x7F800000`."""
        if not isfinite(value):
            self.print_string(f"0x{type.pack((value,))[::-1].hex().upper()}")
            return
        (value,) = type.unpack(type.pack([value]), 1)  # an attribute may hold more digits than its type
        digits, exponent = _digits(value, _FEW)
        short = f"{float(f'{digits}e{exponent}') * (-1 if value < 0 else 1):.{_FEW}e}"
        self.print_string(short if _reads_as(short, type, value) else _long(value, str(type)))


def _reads_as(words: str, type: AnyFloat, value: float) -> bool:
    return type.unpack(type.pack([float(words)]), 1)[0] == value


def _digits(value: float, most: int) -> tuple[str, int]:
    """Returns digits and a power of ten, as LLVM's `APFloat::toString` finds them.

    The number is first cut off, by a whole power of ten that its bits surely allow, and then rounded to `most` digits.
    """
    numerator, denominator = abs(value).as_integer_ratio()
    texp = denominator.bit_length() - 1
    significand, exponent = numerator * 5**texp, -texp
    spare = (significand.bit_length() - (most * 196 + 58) // 59) * 59 // 196
    if spare > 0:
        significand, exponent = significand // 10**spare, exponent + spare
    extra = max(len(str(significand)) - most, 0)
    significand, exponent = (significand + 5 * 10**extra // 10) // 10**extra, exponent + extra
    digits = str(significand).rstrip("0") or "0"
    return digits, exponent + len(str(significand)) - len(digits) if significand else 0


def _long(value: float, kind: str) -> str:
    """Returns as many digits as a type may need, scientific if the number is far from 1."""
    most = 2 + SIGNIFICAND_BITS.get(kind, 53) * 59 // 196
    digits, exponent = _digits(value, most)
    first = exponent + len(digits) - 1
    if first < -_PADDING or first >= most:
        words = f"{digits[0]}.{digits[1:] or '0'}E{first:+d}"
    elif first < 0:
        words = f"0.{'0' * (-first - 1)}{digits}"
    else:
        line = digits.ljust(first + 1, "0")
        words = f"{line[: first + 1]}.{line[first + 1 :] or '0'}"
    return f"-{words}" if value < 0 else words


def to_text(module: Any, locations: bool = False, generic: bool = True, one_device: bool = False) -> str:
    """Prints the module (or op) in generic syntax, which MLIR reads with unregistered dialects allowed.

    With `generic=False`, prints as MLIR's tools do: attributes sorted by name, and functions in the custom syntax of
    dialect func. What `one_device` of several runs is `builtin.module` there, as inside tt-mlir's device module.
    """
    if not generic:
        _as_tools_do(module)
    stream = io.StringIO()
    printer = SplatPrinter if generic else ToolPrinter
    printer(stream=stream, print_generic_format=generic, print_debuginfo=locations).print_op(module)
    words = stream.getvalue() + "\n"
    if generic:
        return _with_aliases(words)
    short = _RETURN_PREFIX if one_device else _DIALECT_PREFIX
    return _with_aliases(_CUSTOM.sub(_unquoted, short.sub(r"\1", words)))


def _unquoted(match: re.Match[str]) -> str:
    name, operands, properties, types = match.groups()
    if name == "ttir.empty":
        return "ttir.empty() : "
    return f"{name}{operands}{(properties or '').replace('<{', '{').replace('}>', '}')} : {types or ''}"


def _as_tools_do(module: Any) -> None:
    """Names unnamed arguments of functions `%arg0`, `%arg1`, ... and sorts attributes."""
    for op in module.walk():
        op.properties = dict(sorted(op.properties.items()))
        op.attributes = dict(sorted(op.attributes.items()))
        for value, name in zip(op.results, RESULTS.get(op.name, ()), strict=False):
            value.name_hint = value.name_hint or name
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
