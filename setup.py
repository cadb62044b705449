"""The rooms lie beside the package `opscope` and are installed inside it; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

ROOMS = ("harness", "compiler", "simulator", "models", "reports", "dashboards")
PLACES = {"opscope": "opscope", **{f"opscope.{room}": room for room in ROOMS}}
TESTS = ("tests", "tests.*", "*.tests", "*.tests.*")

setup(
    package_dir=PLACES,
    packages=[
        name for top, place in PLACES.items() for name in (top, *(f"{top}.{p}" for p in find_packages(place, TESTS)))
    ],
)
