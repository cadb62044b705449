"""Lays a dashboard out for a narrow window: its charts below each other, small numbers in pairs.

Superset's grid has twelve columns at any width, of 25 pixels each on a telephone.
"""

from __future__ import annotations

from typing import Any

BELOW = 700
"""Windows narrower than this number of pixels are narrow."""
WIDTH = 12
TILE = {"width": 3, "height": 30}
"""A chart of at most this size is a number, and two of them share a row."""
HIGHER = {"MARKDOWN": 2.2, "CHART": 1.4}
"""How much higher a text is that has a third of the width, and a chart of a sentence."""

Node = dict[str, Any]


def narrow(position: dict[str, Any]) -> dict[str, Any]:
    """Returns the layout tree with one chart, text, or pair of numbers per row."""
    tree = {key: node for key, node in position.items() if not (isinstance(node, dict) and node.get("type") == "ROW")}
    rows: list[str] = []
    for name in position["GRID_ID"]["children"]:
        row = position[name]
        for number, cells in enumerate(_rows([position[child] for child in row["children"]])):
            new = f"{name}-{number}"
            rows.append(new)
            tree[new] = row | {"id": new, "children": [cell["id"] for cell in cells]}
            for cell in cells:
                tree[cell["id"]] = _widened(cell, WIDTH // len(cells), [*row["parents"], new])
    tree["GRID_ID"] = position["GRID_ID"] | {"children": rows}
    return tree


def _is_tile(cell: Node) -> bool:
    return cell["type"] == "CHART" and all(cell["meta"][key] <= most for key, most in TILE.items())


def _rows(cells: list[Node]) -> list[list[Node]]:
    """The cells of one row in rows of their own; a last number without a partner has the whole width."""
    rows: list[list[Node]] = []
    for cell in cells:
        if rows and len(rows[-1]) == 1 and _is_tile(rows[-1][0]) and _is_tile(cell):
            rows[-1].append(cell)
        else:
            rows.append([cell])
    return rows


def _widened(cell: Node, width: int, parents: list[str]) -> Node:
    height = cell["meta"]["height"]
    short = cell["type"] == "MARKDOWN" or (cell["meta"]["width"] == WIDTH and height <= TILE["height"])
    meta = cell["meta"] | {"width": width, "height": int(height * HIGHER[cell["type"]]) if short else height}
    return cell | {"parents": parents, "meta": meta}
