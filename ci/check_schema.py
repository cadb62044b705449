"""Checks that the Python generated from the flatbuffer schema is up to date, by the digest of schema.fbs beside it.

Run as `python ci/check_schema.py [ROOT]`; the exit code is 1 if the generated files do not match the schema. If the
right flatc is installed, they are also generated again and compared byte for byte.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SCHEMA = Path("compiler/target/schema.fbs")
GENERATED = Path("compiler/target/generated")
HINT = "try make flatc"
FLATC = "2.0.8"
"""The version that generated the files; other versions write different text for the same schema."""


def check(root: Path) -> list[str]:
    """Returns the problems below `root`, one line each."""
    try:
        digest = hashlib.sha256((root / SCHEMA).read_bytes()).hexdigest()
        stored = (root / GENERATED / "SCHEMA.sha256").read_text(encoding="ascii").strip()
    except FileNotFoundError as error:
        return [f"{Path(error.filename).relative_to(root)}: expected a file, got none; {HINT}"]
    if stored != digest:
        return [f"{GENERATED}: expected the Python of schema {digest[:12]}, got that of {stored[:12]}; {HINT}"]
    return _differences(root) if has_flatc() else []


def has_flatc() -> bool:
    """Whether the flatc of `FLATC` is on the PATH."""
    if shutil.which("flatc") is None:
        return False
    return FLATC in subprocess.run(["flatc", "--version"], capture_output=True, text=True).stdout.split()


def _differences(root: Path) -> list[str]:
    """The files that differ from what flatc generates."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["flatc", "--python", "--gen-object-api", "-o", folder, str(root / SCHEMA)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        made = {
            path.relative_to(f"{folder}/opscope"): path.read_bytes() for path in Path(folder, "opscope").rglob("*.py")
        }
    stored = {path.relative_to(root): path.read_bytes() for path in (root / GENERATED).rglob("*.py")}
    names = sorted(name for name in made.keys() | stored.keys() if made.get(name) != stored.get(name))
    # Some versions of flatc write an empty package marker in the folders above ours.
    names = [name for name in names if made.get(name) or stored.get(name)]
    return [f"{name}: expected what flatc makes of {SCHEMA.name}, got something else; {HINT}" for name in names]


def main(root: Path) -> int:
    """Prints the problems; returns 0 if there are none, else 1."""
    problems = check(root)
    print("\n".join(problems) or f"schema: {GENERATED} belongs to {SCHEMA}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent))
