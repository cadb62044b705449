"""Makes a release: `python -m ci.release 0.2.0`, or `make release VERSION=0.2.0`.

The changes of changelog.d become an edition of CHANGELOG.md, the version that of pyproject.toml; then wheel and source
distribution are built and checked. Nothing is committed, tagged or uploaded: the lines that do so are printed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_VERSION = re.compile(r'^version = "(.*)"$', re.MULTILINE)
_NUMBER = re.compile(r"\d+\.\d+\.\d+(rc\d+)?")


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Writes the edition and builds it. Exit code 2 for a version that is none, or a tag that there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="such as 0.2.0")
    version = parser.parse_args(arguments).version
    if problem := refusal(version, root):
        print(f"ci.release: {problem}", file=sys.stderr)
        return 2
    fragments = sorted(path for path in (root / "changelog.d").glob("*.md") if path.name != "README.md")
    page = root / "CHANGELOG.md"
    before = page.read_text(encoding="utf-8")
    head, mark, rest = before.partition("\n## ")
    texts = [path.read_text(encoding="utf-8") for path in fragments]
    date = datetime.now(UTC).date().isoformat()
    page.write_text(
        f"{head}\n## {version} ({date})\n\n{edition(texts, groups_of(before))}{mark}{rest}", encoding="utf-8"
    )
    for path in fragments:
        path.unlink()
    settings = root / "pyproject.toml"
    settings.write_text(_VERSION.sub(f'version = "{version}"', settings.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.rmtree(root / "dist", ignore_errors=True)
    if code := build(root, root / "dist"):
        return code
    print(f"git commit -am 'Release {version}' && git tag v{version}\ntwine upload dist/*")
    return 0


def build(source: Path, dist: Path) -> int:
    """Makes a source distribution and the wheel from that in an empty folder, and checks both. 0 if they are right.

    On Linux the wheel is named for the oldest C library that it runs on (`manylinux_2_17_x86_64`): an index takes no
    `linux_x86_64`.
    """
    if code := _tool("build", "--outdir", dist, source):
        return code
    for wheel in dist.glob("*-linux_*.whl"):
        if code := _tool("auditwheel", "repair", "--wheel-dir", dist, wheel):
            return code
        wheel.unlink()
    return _tool("twine", "check", "--strict", *sorted(dist.glob("*")))


def _tool(name: str, *words: str | Path) -> int:
    """The exit code of a module of this environment, which finds the programs of it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return subprocess.run(
        [sys.executable, "-m", name, *words], env={**os.environ, "PATH": path}, check=False
    ).returncode


def refusal(version: str, root: Path) -> str:
    """Why there can be no such release; empty if there can."""
    if not _NUMBER.fullmatch(version):
        return f"expected a version such as 0.2.0, got {version!r}"
    tags = subprocess.run(["git", "tag"], cwd=root, capture_output=True, text=True, check=True).stdout.split()
    if f"v{version}" in tags:
        return f"expected a version without a tag, got {version}; try the next one"
    if subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=root, check=False).returncode:
        return "expected a checkout without changes, got some; try git stash"
    return ""


def groups_of(page: str) -> list[str]:
    """The groups of a changelog, in their order."""
    return list(dict.fromkeys(line.removeprefix("### ") for line in page.splitlines() if line.startswith("### ")))


def edition(texts: Sequence[str], groups: Sequence[str]) -> str:
    """The changes of some fragments by group: `Runs: what is new` becomes a point below `### Runs`."""
    of_group = defaultdict[str, list[str]](list)
    for text in texts:
        group, _, words = " ".join(text.split()).partition(": ")
        of_group[group].append(f"- {words[:1].upper()}{words[1:]}")
    return "".join(f"### {group}\n{chr(10).join(of_group[group])}\n\n" for group in groups if of_group[group]).rstrip(
        "\n"
    )


if __name__ == "__main__":
    sys.exit(main())
