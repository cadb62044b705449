"""Reads a Buda graph from a YAML file, or from one word for a single matmul.

    name: mlp
    data_format: Float16_b
    math_fidelity: HiFi3
    nodes:
      x: {input: [128, 1024]}
      w: {parameter: [1024, 4096], data_format: Bfp8_b}
      up: {op: matmul, inputs: [x, w]}
      act: {op: gelu, inputs: [up], approximate: true}
    outputs: [act]

Shapes are elements; an input may pass TMs: `gather | vslice(4) | hstack(4)`. The picker of a convolution is
`{convolution: {size: [h, w], kernel: [h, w], stride: [h, w], padding: [[top, bottom], [left, right]]}}`.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from opscope.base.yaml_text import YamlError, read_yaml
from opscope.compiler.buda.graph import BudaGraph, NodeKind, OpSpec, TensorShape
from opscope.compiler.buda.graph_builder import GraphBuilder, Operand
from opscope.compiler.buda.sparse_pattern import SparsePattern
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.formats import TILE, number_format

EXAMPLE = "nodes: {x: {input: [32, 64]}, y: {op: gelu, inputs: [x]}}"
"""The smallest file, for errors."""
SOURCES = {kind.value: kind for kind in (NodeKind.INPUT, NodeKind.PARAMETER, NodeKind.CONSTANT)}
OP_KEYS = frozenset(f.name for f in fields(OpSpec)) - {"type", "sparse", "slices"}
PICKER_FORMAT = "Bfp2_b"
"""The picker has only zeros and ones, which fit in two bits."""


def matmul_graph(text: str) -> BudaGraph:
    """Returns the graph of `matmul:MxKxN[:format[:fidelity]]`, in elements. Raises CompilerInputError."""
    _, sizes, *rest = text.split(":")
    try:
        m, k, n = (int(size) for size in sizes.split("x"))
        if min(m, k, n) < 1 or len(rest) > 2:
            raise ValueError
    except ValueError:
        raise CompilerInputError(f"matmul: expected matmul:MxKxN[:format[:fidelity]], got {text!r}") from None
    builder = GraphBuilder("matmul", _format(rest[0] if rest else "Float16_b"))
    x = builder.source("x", NodeKind.INPUT, TensorShape.of((m, k)))
    w = builder.source("w", NodeKind.PARAMETER, TensorShape.of((k, n)))
    builder.output("y", builder.op("matmul", OpSpec("matmul", rest[1] if len(rest) > 1 else "HiFi3"), [x, w]))
    return builder.graph()


def read_graph(path: Path) -> BudaGraph:
    """Reads the graph in a YAML file. Raises CompilerInputError."""
    try:
        raw = read_yaml(path)
    except OSError as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise CompilerInputError(f"{path}: expected a readable graph file, got: {reason}") from error
    except YamlError as error:
        raise CompilerInputError(f"{path}: expected YAML, got: {error}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("nodes"), dict):
        raise CompilerInputError(f"{path}: expected a mapping with `nodes`, got none; try {EXAMPLE}")
    try:
        return _graph(raw, path.stem)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        if isinstance(error, CompilerInputError):
            raise CompilerInputError(f"{path}: {error}") from error
        raise CompilerInputError(f"{path}: expected a graph, got: {error!r}; try {EXAMPLE}") from error


def _graph(raw: dict[str, Any], stem: str) -> BudaGraph:
    builder = GraphBuilder(str(raw.get("name", stem)), _format(raw.get("data_format", "Float16_b")))
    pickers: dict[str, SparsePattern] = {}
    for name, row in raw["nodes"].items():
        if not isinstance(row, dict):
            raise CompilerInputError(f"{name}: expected a mapping, such as {{input: [32, 64]}}, got {row!r}")
        fmt = _format(row["data_format"]) if "data_format" in row else ""
        if kind := next((SOURCES[key] for key in row if key in SOURCES), None):
            builder.source(name, kind, TensorShape.of(_sizes(f"{name}: {kind.value}", row[kind.value])), fmt)
        elif "convolution" in row:
            pickers[name] = pattern = _picker(row["convolution"])
            shape = TensorShape.of((pattern.rows * TILE, pattern.cols * TILE))
            builder.source(name, NodeKind.CONSTANT, shape, fmt or PICKER_FORMAT)
        elif "op" in row:
            operands = [Operand.parse(text) for text in _texts(f"{name}: inputs", row.get("inputs"))]
            builder.op(name, _spec(name, row, raw, pickers.get(operands[0].producer)), operands, fmt)
        else:
            raise CompilerInputError(f"{name}: expected input, parameter, constant, convolution or op, got {list(row)}")
    for text in _texts("outputs", raw.get("outputs", [])):
        operand = Operand.parse(text)
        builder.output(f"{operand.producer}.output", operand)
    return builder.graph()


def _sizes(where: str, value: object) -> list[int]:
    """A shape in elements. Raises CompilerInputError."""
    if isinstance(value, list) and value and all(type(size) is int and size > 0 for size in value):
        return value
    raise CompilerInputError(f"{where}: expected a list of positive sizes, such as [32, 64], got {value!r}")


def _texts(where: str, value: object) -> list[str]:
    """Names of nodes, TMs among them. Raises CompilerInputError."""
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return value
    raise CompilerInputError(f"{where}: expected a list of names, such as [x, w], got {value!r}")


def _spec(name: str, row: dict[str, Any], raw: dict[str, Any], picker: SparsePattern | None) -> OpSpec:
    options = {key: value for key, value in row.items() if key not in ("op", "inputs", "data_format")}
    if unknown := options.keys() - OP_KEYS:
        raise CompilerInputError(f"{name}: expected {', '.join(sorted(OP_KEYS))}, got {', '.join(sorted(unknown))}")
    defaults = {"math_fidelity": raw["math_fidelity"]} if "math_fidelity" in raw else {}
    return OpSpec(type=row["op"], sparse=picker if row["op"] == "sparse_matmul" else None, **{**defaults, **options})


def _picker(row: dict[str, Any]) -> SparsePattern:
    def pair(key: str, default: list[int]) -> tuple[int, int]:
        first, second = row.get(key, default)
        return int(first), int(second)

    (top, bottom), (left, right) = row.get("padding", [[0, 0], [0, 0]])
    return SparsePattern.of_convolution(
        pair("size", []),
        pair("kernel", []),
        pair("stride", [1, 1]),
        ((top, bottom), (left, right)),
        pair("dilation", [1, 1]),
    )


def _format(name: str) -> str:
    try:
        return number_format(str(name)).name
    except ValueError as error:
        raise CompilerInputError(str(error)) from error
