"""The one door for YAML: plain values of a text or a file, with limits on what a text may make of itself.

YAML of strangers can be small and become large: aliases multiply, nesting exhausts the stack, and PyYAML's errors for
dates that do not exist or numbers of many digits are no YAML errors. All of that ends in one `YamlError`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base import regular_file

if TYPE_CHECKING:
    from yaml.nodes import Node

DEEPEST = 100
"""Levels of nesting. What people write has fewer than twenty."""
MOST_NODES = 5_000_000
"""Nodes after aliases are followed. A netlist of 1,000 ops has some 100,000."""
MOST_BYTES = 256 << 20
"""Bytes of a file."""


class YamlError(ValueError):
    """A text that is no YAML, or none within the limits: a reason of one line, and the line where it is known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        self.reason, self.line = " ".join(reason.split()), line
        super().__init__(f"line {line}: {self.reason}" if line is not None else self.reason)


def read_yaml(path: Path) -> Any:
    """The values in a file. Raises YamlError, and OSError for what cannot be read or is no file (a pipe, a device)."""
    return parse_yaml(read_text(path))


def read_text(path: Path) -> str:
    """The text of a regular file in UTF-8. Raises YamlError for another encoding, OSError as `read_yaml`."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise YamlError(f"{size:,} bytes, more than {MOST_BYTES:,}")
    try:
        return regular_file.read_text(path)
    except UnicodeDecodeError as error:
        raise YamlError(f"no UTF-8: {error}") from error


def parse_yaml(text: str) -> Any:
    """The values in a text. Raises YamlError."""
    return parse_with_nodes(text)[0]


def parse_with_nodes(text: str) -> tuple[Any, Node | None]:
    """The values in a text and its root node, which knows the lines; None for an empty text. Raises YamlError."""
    import yaml
    from yaml.composer import Composer
    from yaml.cyaml import CSafeLoader

    # libyaml scans and parses four times as fast as Python; its composer cannot count, so ours is before it.
    class Limited(Composer, CSafeLoader):
        """Counts nodes and levels while the text is composed, before any value is made."""

        def __init__(self, stream: str) -> None:
            CSafeLoader.__init__(self, stream)
            Composer.__init__(self)
            self.level = 0
            self.sizes: dict[int, int] = {}

        def compose_node(self, parent: Any, index: Any) -> Any:
            """Composes a node. Its size is one and that of what it contains, also by an alias."""
            self.level += 1
            event: Any = self.peek_event()
            line = event.start_mark.line + 1 if event.start_mark else None
            if self.level > DEEPEST:
                raise YamlError(f"more than {DEEPEST} levels", line)
            node: Any = super().compose_node(parent, index)
            size = self.sizes.get(id(node))
            if size is None:
                children = node.value if isinstance(node.value, list) else ()
                if isinstance(event, yaml.AliasEvent):
                    raise YamlError("an alias inside of what it stands for", line)
                parts = (part for child in children for part in (child if isinstance(child, tuple) else (child,)))
                size = self.sizes[id(node)] = 1 + sum(self.sizes[id(part)] for part in parts)
            if size > MOST_NODES:
                raise YamlError(f"more than {MOST_NODES:,} nodes by its aliases", line)
            self.level -= 1
            return node

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            """Makes a value. What no file or database takes is refused here, where the line is known."""
            value = super().construct_object(node, deep)
            if isinstance(value, int) and value.bit_length() > 64:
                raise YamlError("a number of more than 64 bits", node.start_mark.line + 1)
            return value

    try:
        loader = Limited(text)
        root = loader.get_single_node()
        return (None if root is None else loader.construct_document(root)), root
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        reason = str(getattr(error, "problem", None) or error)
        raise YamlError(reason, None if mark is None else mark.line + 1) from error
    except YamlError:
        raise
    except (ValueError, OverflowError, RecursionError, TypeError, AttributeError, KeyError) as error:
        # What PyYAML does not check: dates that do not exist, numbers of 5,000 digits, `!!int` of a word.
        raise YamlError(str(error) or type(error).__name__) from error
