"""Values of a model's arguments that come from files in place of the seed: its own, and those that the user brings."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.export_folder import VALUES

if TYPE_CHECKING:
    from harness.export import Exported
    from harness.program import SplitModule


@dataclass(frozen=True)
class Given:
    """The value of one argument."""

    file: str
    """A .npy file, relative to the export folder (see `harness.element_types.save`)."""
    digest: str
    """SHA-256 of the file."""


def values(exported: Exported, split: SplitModule, folder: Path) -> dict[int, Given]:
    """The values that the model's own file brings, by argument, put into the export folder under construction."""
    found = {}
    for index, spec in enumerate(exported.arguments):
        if spec.name in exported.files:
            found[index] = _put(Path(exported.files[spec.name]), folder, index)
    return found


def _put(source: Path, folder: Path, index: int) -> Given:
    """Has `source` lie in the export folder, without a copy where the disk allows."""
    place = folder / VALUES / f"argument{index}.npy"
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    try:
        os.link(source, place)
    except OSError:
        shutil.copyfile(source, place)
    with place.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Given(place.relative_to(folder).as_posix(), digest)
