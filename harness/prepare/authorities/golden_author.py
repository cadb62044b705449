"""Who makes goldens: the XLA that is installed, or a release of it in an environment of its own (`--goldens-by`).

What splits a model and walks it is then a process of that environment, whatever JAX stands beside opscope.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata

from opscope.base.xla.xla_releases import FIRST, PACKAGES, number
from opscope.harness.cache import environments
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import backend_label

WHERE = "--goldens-by"


def environment(author: str | None) -> environments.Environment | None:
    """The environment of a release, made if it is not there yet; None without an author.

    Raises InputError for what is no release of XLA, and for one that cannot be had.
    """
    if not author:
        return None
    name, _, release = author.partition("@")
    if name != PACKAGES[1] or not release:
        raise InputError(WHERE, "a release of jaxlib", author, f"{PACKAGES[1]}@{FIRST}")
    if not release.endswith(".whl") and number(release) < number(FIRST):
        expected = f"{PACKAGES[1]} {FIRST} or newer, since it splits models and makes goldens"
        raise InputError(WHERE, expected, release, f"{PACKAGES[1]}@{FIRST}, or --backend xla@{release}, which tests it")
    return environments.find(f"{WHERE} {author}", " ".join(reversed(PACKAGES)), release)


def release(author: str | None) -> str:
    """The release of jaxlib that splits models and makes goldens. Raises as `environment` does."""
    its = environment(author)
    return metadata.version(PACKAGES[1]) if its is None else its.versions[PACKAGES[1]]


def variables(author: str | None) -> Mapping[str, str]:
    """What a process needs in its environment that makes goldens. Raises as `environment` does."""
    its = environment(author)
    return {} if its is None else its.variables()


def key(author: str | None) -> Mapping[str, str]:
    """What the key of an export has of the author. Raises as `environment` does."""
    its = environment(author)
    return {} if its is None else {"goldens_by": its.digest}


def words(author: str | None) -> str:
    """What the provenance of an op says of the author of its golden; empty if it is the installed one."""
    return f" by {backend_label(author)}" if author else ""
