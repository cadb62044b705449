from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from harness import rooms

SCRIPT = """
import json, sys
from harness import rooms
import models, reports
theirs = [models.__file__, reports.__file__]
rooms.claim(); rooms.claim()
import models.registry, reports
print(json.dumps({
    "theirs": theirs,
    "ours": [models.__file__, models.registry.__file__, sys.modules["reports"].__file__],
    "finders": sum(type(f).__name__ == "RoomFinder" for f in sys.meta_path),
    "tools": __import__("tools").__file__,
}))
"""


def test_claim_takes_the_names_from_a_hostile_folder(tmp_path: Path) -> None:
    for name in ("models", "reports", "tools"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("HOSTILE = True\n")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{SCRIPT}"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    got = json.loads(done.stdout)
    assert all(place.startswith(str(tmp_path)) for place in got["theirs"])
    assert all(place.startswith(str(rooms.HOME)) for place in got["ours"])
    assert got["finders"] == 1
    assert got["tools"].startswith(str(tmp_path)), "only the names of rooms are claimed"


def test_finder_answers_for_rooms_only() -> None:
    finder = rooms.RoomFinder()
    assert finder.find_spec("json") is None
    assert finder.find_spec("models.registry", [str(rooms.HOME / "models")]) is None
    spec = finder.find_spec("models")
    assert spec is not None
    assert Path(str(spec.origin)).parent.parent == rooms.HOME
