"""Where the caches are, for a user who may not read or write all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opscope.base import stored
from opscope.base.cache_folder import NoCacheError, cache_folder, read_only
from opscope.base.damage import Damaged
from opscope.base.tests.another_user import as_another_user, open_folder


@pytest.fixture
def cache() -> Iterator[Path]:
    """A cache with a sealed export, of the user whose tests run."""
    with open_folder() as folder:
        export = folder / "cache" / "exports" / "key"
        export.mkdir(parents=True)
        (export / "manifest.jsonl").write_text("{}\n")
        stored.seal(export, "key")
        yield folder / "cache"


def test_a_cache_that_may_be_read_is_usable(cache: Path) -> None:
    (cache / "lost+found").mkdir(0o700)
    with as_another_user():
        assert cache_folder(str(cache)) == cache
    assert not read_only(cache)


@pytest.mark.parametrize("closed", [".", "exports"])
def test_a_cache_of_which_a_part_may_not_be_read_is_none(cache: Path, closed: str) -> None:
    (cache / closed).chmod(0)
    try:
        with as_another_user(), pytest.raises(NoCacheError, match=rf"{closed.strip('.')} \(Permission denied\)"):
            cache_folder(str(cache))
    finally:
        (cache / closed).chmod(0o755)


@pytest.mark.parametrize("closed", [".", "exports"])
def test_a_cache_of_which_a_part_may_not_be_written_is_read_only(cache: Path, closed: str) -> None:
    for folder in (cache, cache / "exports"):
        folder.chmod(0o777)
    (cache / closed).chmod(0o555)
    try:
        with as_another_user():
            assert read_only(cache)
    finally:
        (cache / closed).chmod(0o755)


def test_an_export_of_another_user_is_unreadable_and_not_damaged(cache: Path) -> None:
    export = cache / "exports" / "key"
    export.chmod(0)
    try:
        with as_another_user():
            assert stored.is_sealed_folder(export)
            with pytest.raises(Damaged) as caught:
                stored.check_sizes(export)
    finally:
        export.chmod(0o755)
    assert caught.value.state == "unreadable (Permission denied)"
