"""Regenerates the Python of `schema.fbs` into `generated/`: `python -m target.regenerate` (needs flatc).

The schema's SHA-256 is written beside the generated files; a test compares it, so that neither changes alone.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from opscope.base.digest import file_digest

HERE = Path(__file__).parent
SCHEMA = HERE / "schema.fbs"
GENERATED = HERE / "generated"
DIGEST = GENERATED / "SCHEMA.sha256"


def digest() -> str:
    """SHA-256 of schema.fbs, in hex."""
    return file_digest(SCHEMA)


def main() -> None:
    """Runs flatc and replaces `generated/`. Raises FileNotFoundError if flatc is missing."""
    flatc = shutil.which("flatc")
    if flatc is None:
        raise FileNotFoundError(
            "regenerate: expected flatc on the PATH, got none; try apt-get install flatbuffers-compiler"
        )
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([flatc, "--python", "--gen-object-api", "-o", folder, str(SCHEMA)], check=True)
        generated = Path(folder) / "opscope" / "compiler" / "target" / "generated"
        shutil.rmtree(GENERATED, ignore_errors=True)
        shutil.copytree(generated, GENERATED)
    DIGEST.write_text(digest() + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
