"""The files below assets/ as they are, read once: eight modules of tests look at them when they are collected."""

from __future__ import annotations

from opscope.dashboards import asset_files

ASSETS = asset_files.read()
