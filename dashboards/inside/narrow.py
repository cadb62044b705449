"""Lays a dashboard out for a narrow window: its charts below each other, small numbers in pairs.

Charts that have more columns or bars than such a window can show are left out.

Superset's grid has twelve columns at any width, of 25 pixels each on a telephone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

BELOW = 700
"""Windows narrower than this number of pixels are narrow."""
WIDTH = 12
TILE = {"width": 3, "height": 30}
"""A chart of at most this size is a number, and two of them share a row."""
PAIRED = 26
"""The least height of a number that has half the width: its words take three lines."""
HIGHER = {"MARKDOWN": 2.2, "CHART": 1.4}
"""How much higher a text is that has a third of the width, and a chart of a sentence."""
LEFT_OUT = "\n\nA wider window also shows {}. What broke, and since when, is on [Night](/night/)."
LINE, LETTERS = 2, 34
"""How much higher each further line of a text is, and how many letters it has."""

Node = dict[str, Any]


def narrow(position: dict[str, Any], wide: Collection[str] = ()) -> dict[str, Any]:
    """Returns the layout tree with one chart, text, or pair of numbers per row.

    Charts whose names are in `wide` are left out, and the text says so.
    """
    tree = {key: node for key, node in position.items() if not (isinstance(node, dict) and node.get("type") == "ROW")}
    rows: list[str] = []
    left_out: list[str] = []
    for name in position["GRID_ID"]["children"]:
        row = position[name]
        kept = []
        for cell in (position[child] for child in row["children"]):
            if (title := cell["meta"].get("sliceName")) in wide:
                left_out.append(title)
                del tree[cell["id"]]
            else:
                kept.append(cell)
        for number, cells in enumerate(_rows(kept)):
            new = f"{name}-{number}"
            rows.append(new)
            tree[new] = row | {"id": new, "children": [cell["id"] for cell in cells]}
            for cell in cells:
                tree[cell["id"]] = _widened(cell, WIDTH // len(cells), [*row["parents"], new])
    tree["GRID_ID"] = position["GRID_ID"] | {"children": rows}
    text = next((node for node in tree.values() if isinstance(node, dict) and node.get("type") == "MARKDOWN"), None)
    if left_out and text is not None:
        said, meta = LEFT_OUT.format(", ".join(f"*{title}*" for title in left_out)), text["meta"]
        more = {"code": meta["code"] + said, "height": meta["height"] + LINE * (2 + len(said) // LETTERS)}
        tree[text["id"]] = text | {"meta": meta | more}
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
    if short:
        height = int(height * HIGHER[cell["type"]])
    elif width < WIDTH:
        height = max(height, PAIRED)
    meta = cell["meta"] | {"width": width, "height": height}
    return cell | {"parents": parents, "meta": meta}
