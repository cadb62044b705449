"""Which schema hash a build of tt-mlir takes: a build refuses descriptors with another one.

The hash is the SHA-256 of the binary schema (`flatc --schema` of system_desc.fbs with what it includes); a build has it
as a string. Those of `jax-tt-plugin` were read from its wheels, that of tt-mlir 464a5f34 from the four descriptors of
tt-xla's repository.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass


@dataclass(frozen=True)
class Build:
    """A build, its hash, and what it says of the tt-mlir in it."""

    distribution: str
    version: str
    schema_hash: str
    other_layout: str = ""
    """In what its tables differ from `fields.py`; no descriptor can be written then."""
    ttmlir_version: tuple[int, int, int] = (0, 0, 0)
    ttmlir_git_hash: str = "unknown"


BUILDS = (
    Build(
        "jax-tt-plugin",
        "0.1.0",
        "38882bf3c157629e029334c0770b9b7055709cfaee405b090ba8312063fa8df8",
        other_layout="its table of a chip lacks fields",
    ),
    Build("jax-tt-plugin", "0.1.1", "581145f4d9f6add291f4b93d5086ab607966956083183969294417dd67e7e041"),
    Build("jax-tt-plugin", "0.1.2", "50a866cfc4035ea6997811f1843ea9e280b30ace418072780875fa86d90fc1e6"),
    Build("jax-tt-plugin", "0.1.3", "f0b54f1568f8f39c9910f4e652cd40fa551fdb1bf4172fab3710429031c23159"),
    Build(
        "tt-mlir",
        "464a5f34",
        "7f252e8a9f2f1850b406e7c18440842ccf8d0c51c47b8747c297e5b6bb8a966f",
        ttmlir_version=(0, 0, 3758),
        ttmlir_git_hash="464a5f341908d5a3f790e697be5ffa6fd3fb6f32",
    ),
)
"""One row for each build that is known."""
NEWEST = "jax-tt-plugin==0.1.3"
"""The build that is meant where none is named or installed."""
PLUGINS = ("jax-tt-plugin", "pjrt-plugin-tt")
"""Distributions with a build in them."""


class UnknownBuildError(ValueError):
    """No descriptor can be written for a build: it is not known, or its tables are others."""


def schema_hash_of(distribution: str, version: str) -> str:
    """Returns the schema hash of a build. Raises UnknownBuildError, which says what to do instead."""
    where = f"{distribution} {version}"
    for build in BUILDS:
        if (build.distribution, build.version) == (distribution, version):
            if build.other_layout:
                raise UnknownBuildError(
                    f"{where}: expected a build with the tables of 0.1.1 and later, got one with others "
                    f"({build.other_layout}); try a later version, or for a run --system-desc FILE with a descriptor "
                    "made for this build"
                )
            return build.schema_hash
    known = [f"{build.distribution} {build.version}" for build in BUILDS if not build.other_layout]
    near = difflib.get_close_matches(where, known, n=1, cutoff=0.7)
    of_it = [name for name in known if name.startswith(f"{distribution} ")]
    raise UnknownBuildError(
        f"{where}: expected a build whose descriptor schema is known ({', '.join(of_it or known)}), got another; try "
        f"{f'{near[0]}, or ' if near else ''}for a run --system-desc FILE with a descriptor made for this build"
    )


def build_of(schema_hash: str) -> Build | None:
    """Returns the build with a schema hash, None if it is not known."""
    return next((build for build in BUILDS if build.schema_hash == schema_hash), None)
