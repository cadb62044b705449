"""Links of a page to files of the repository lead there from the site, or are texts; one to nothing is an error."""

from __future__ import annotations

import pytest

from ci.site_links import DOCS, replaced

PAGE = DOCS / "guide" / "ci_owner.md"


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("https://example.org/o", "see [the way](https://example.org/o/blob/main/Makefile#L1), ![p](../img/night.png)"),
        ("", "see the way, ![p](../img/night.png)"),
    ],
)
def test_a_file_of_the_repository(address: str, text: str) -> None:
    assert replaced("see [the way](../../Makefile#L1), ![p](../img/night.png)", PAGE, address) == text
    assert replaced("[a](../models.md)", PAGE, address) == "[a](../models.md)"


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError, match=r"expected a file, got .*nosuch"):
        replaced("[a](../../nosuch)", PAGE, "")
