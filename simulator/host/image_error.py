"""The error of a device image that cannot be written, read or run."""

from __future__ import annotations


class ImageError(ValueError):
    """A device image that cannot be written, read or run; `<where>: expected X, got Y; try Z` on one line."""
