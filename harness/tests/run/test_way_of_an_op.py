"""Who reads a run as docs/architecture.md says finds each file, and few of them."""

from __future__ import annotations

import re

from opscope.base.places import HOME, room

MOST = 9


def test_the_files_from_the_plugin_to_the_child_of_an_op_are_there_and_few() -> None:
    text = (HOME / "docs" / "architecture.md").read_text(encoding="utf-8")
    way, rest = (
        text.partition("The way of an op from the command line")[2].partition("\n\n")[0].split("The way of a model", 1)
    )
    way = re.sub(r"\(or [^)]*\)", "", way.partition(", from where")[0])
    for part, most in ((way, MOST), (rest, MOST)):
        files, folder = [], ""
        for name in re.findall(r"`([\w/]+\.py)`", part):
            folder = name.rpartition("/")[0] or folder
            files.append(room("harness") / folder / name.rpartition("/")[2])
        assert [file for file in files if not file.is_file()] == []
        assert 3 < len(files) <= most
