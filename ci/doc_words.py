"""Words of the documentation, those that `make` writes apart: `python -m ci.doc_words`.

A word has a letter or a digit: bars and rules of tables are none. The pages are README.md, CONTRIBUTING.md and docs/.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 55_000
"""Words that people write, at most."""
WRITTEN = frozenset({"conformance.md", "measurements.md", "metrics.md", "ops.md", "pybuda_programs.md", "tt_mlir.md"})
"""Pages of docs/ that commands write as a whole."""
PARTS = re.compile(r"<!-- `make [^>]*everything below.*|<!-- (\w+): generated.*?<!-- end of \1 -->", re.DOTALL)
"""What commands write of the other pages: all below a line, or what stands between two comments."""


def pages() -> list[Path]:
    """Every page that people write, or parts of it."""
    docs = ROOT / "docs"
    by_hand = [page for page in sorted(docs.rglob("*.md")) if page.parent != docs or page.name not in WRITTEN]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *by_hand]


def words(text: str) -> int:
    """Words of a page that people wrote."""
    return sum(bool(re.search(r"\w", word)) for word in PARTS.sub("", text).split())


def main() -> int:
    """Prints the words of each page, most first, and their sum; 1 if these are too many."""
    counted = {page: words(page.read_text(encoding="utf-8")) for page in pages()}
    for page, count in sorted(counted.items(), key=lambda row: -row[1]):
        print(f"{count:>6,} {page.relative_to(ROOT)}")
    total = sum(counted.values())
    print(f"{total:>6,} in all (at most {MOST:,})")
    return int(total > MOST)


if __name__ == "__main__":
    sys.exit(main())
