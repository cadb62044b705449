"""What of a page in a file does not fit a telephone: `python -m ci.on_telephones report.html ...`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from opscope.dashboards.tests.browser import chromium, window
from opscope.dashboards.tests.whole_words import cut_words

PHONES = ("iPhone 13", "Pixel 7")
WORDS = "h1, h2, h3, :is(p, li, th, summary, button, table:not(.origin) td):not(:has(code))"
"""Where words have to be whole: paths and commands are broken anywhere."""
BEYOND = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
"""Not `innerWidth`: a telephone zooms out until the whole page fits, and then it is as wide as the page."""
SPARE = 1
"""Pixels by which rounding may make a page wider than its window."""


def problems(pages: Sequence[Path]) -> Iterator[str]:
    """Opens each page on each telephone: what is cut, and whether it scrolls sideways."""
    with chromium() as browser:
        for phone in PHONES:
            with window(browser, "", phone) as one:
                for path in pages:
                    one.page.goto(path.absolute().as_uri())
                    beyond = one.page.evaluate(BEYOND)
                    if beyond > SPARE:
                        yield f"{path} on {phone}: expected to fit the window, got {beyond} pixels beyond it"
                    for text in cut_words(one.page.locator("body"), WORDS):
                        yield f"{path} on {phone}: {text}"


if __name__ == "__main__":
    wrong = list(problems([Path(name) for name in sys.argv[1:]]))
    print(*wrong, sep="\n")
    raise SystemExit(1 if wrong else 0)
