"""What the child does that splits or walks one model (`prepare_child.make`), as its parent sends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opscope.base.slots import SlotAddress


@dataclass(frozen=True)
class ModelJob:
    """A model to split, or to walk; what is not split yet when it is to be walked is split too."""

    name: str
    path: str
    """The model's StableHLO file; not read where there is an exporter's folder."""
    entry: str
    folder: str
    """The export folder, which is complete once the model is walked."""
    request: Mapping[str, Any]
    """The `Preparation` as JSON."""
    exported: str
    """The exporter's folder; empty for a StableHLO file."""
    temporary: str
    """The export folder under construction."""
    kept: str = ""
    """The file in which a split is kept for the process that walks the model (`kept_split.py`), of a model whose ops
    are announced (`cache/growing_export.py`); empty for any other."""
    fatal_ops: Mapping[str, str] = field(default_factory=dict)
    """Ops that ended an earlier child, and how. They are not evaluated again."""
    limited: bool = False
    """Whether a limit, or somebody, has ended one of them: what the folder holds is of this run alone."""
    compile_threads: int = 0
    slots: SlotAddress | None = None
    """The slots that processes work in; the child works in one of them. With None, nothing else is at work."""
    only_split: bool = False
    """Whether to say which ops there are, and nothing else."""
    elsewhere: str = ""
    """Where the export folder is in the end, on the machine of a parent that knows the ops already; empty where that
    is this machine."""
    hand_over: bool = False
    """Whether other machines will walk the model, of which only the split is made here."""

    @property
    def handed_over(self) -> Path | None:
        """Where the module of a StableHLO file is left for other machines, in the form of an exporter's folder."""
        return handed_over(self.kept) if self.hand_over and not self.exported else None


def handed_over(kept: str) -> Path:
    """Where the split of a StableHLO file leaves the module for other machines, beside the file of the split."""
    return Path(f"{kept}.export")
