"""What a user's file imports and this interpreter lacks: all of it at once, with the command that installs it."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path

from opscope.base.installing import install_command
from opscope.base.plugins import version
from opscope.models import frontends
from opscope.models.frontends.base import Refused

PACKAGES = {
    "Crypto": "pycryptodome",
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "e3nn_jax": "e3nn-jax",
    "git": "GitPython",
    "haiku": "dm-haiku",
    "jax_md": "jax-md",
    "lightning_fabric": "lightning-fabric",
    "mpl_toolkits": "matplotlib",
    "open_clip": "open-clip-torch",
    "pkg_resources": "setuptools",
    "pytorch_lightning": "pytorch-lightning",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "tensorflow": "tensorflow-cpu",
    "tree": "dm-tree",
    "yaml": "PyYAML",
}
"""Module -> the package that has it, where that has another name."""


def refused(error: ModuleNotFoundError, path: Path) -> Refused:
    """The error of a file, `path`, of which one import raised `error`: a part that an installed package lacks, or all
    packages that are not installed."""
    module, where = str(error.name), f"--model {path}"
    top, _, rest = module.partition(".")
    place = _place(error)
    if rest and find_spec(top) is not None:
        package = PACKAGES.get(top, top)
        try:
            named = f"{package} {version(package)}"
        except PackageNotFoundError:
            named = top
        got = f"{named} has no module `{rest}`{place}"
        return Refused(
            where, "the modules that the file imports", got, f"the release of {package} that it was written for"
        )
    lacking = sorted({top, *not_installed(path, *(Path(frame.filename) for frame in _frames(error)))})
    words = ", ".join(map(repr, lacking))
    got = f"no module{'s' if len(lacking) > 1 else ''} {words}{place}"
    return Refused(where, "the modules that the file imports", got, command(lacking))


def command(modules: list[str]) -> str:
    """The line of pip that installs modules: with opscope's own extras where these have them."""
    extras = {
        package: frontend.extra
        for frontend in map(frontends.get, frontends.names())
        for package in (*frontend.packages, *frontend.libraries)
        if frontend.extra
    }
    own = sorted({extras[name] for name in modules if name in extras})
    others = [PACKAGES.get(name, name) for name in modules if name not in extras]
    return " ".join([install_command(",".join(own)) if own else "pip install", *others])


def not_installed(path: Path, *more: Path) -> set[str]:
    """The modules, by their first word, that a file needs when it is imported, or a file beside it that it imports.

    `more` are files that it is known to import: by a path that a package has made for itself, which its text does not
    tell."""
    todo, seen, lacking = [path, *more], set[Path](), set[str]()
    while todo:
        file = todo.pop()
        if file in seen:
            continue
        seen.add(file)
        try:
            tree = ast.parse(file.read_bytes())
        except (OSError, SyntaxError, ValueError):  # Python says so when it comes to it
            continue
        for name, level in _imported(tree.body):
            # `from . import x`: of the file's own folder, `from ..` of the one above it.
            found = list(_files(name, file.parents[level - 1] if level else path.parent))
            todo += found
            if not found and not level and _absent(top := name.partition(".")[0]):
                lacking.add(top)
    return lacking


def _absent(top: str) -> bool:
    try:
        return find_spec(top) is None
    except (ImportError, ValueError):
        return False


def _imported(statements: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    """The modules that statements import at once, neither in functions nor where a failure is provided for, each with
    how many dots stand before it."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = [node.module] if node.module else []
            yield from ((".".join([*module, alias.name]), node.level) for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from _imported([*node.body, *node.orelse])
        elif isinstance(node, ast.With | ast.ClassDef):
            yield from _imported(node.body)


def _files(name: str, folder: Path) -> Iterator[Path]:
    """The files below a folder that importing `name` runs."""
    place = folder
    for word in name.split("."):
        if (file := place / f"{word}.py").is_file():
            yield file
        place /= word
        if (file := place / "__init__.py").is_file():
            yield file


def _place(error: BaseException) -> str:
    """Where the import stands: ` (net.py:3)`."""
    frames = _frames(error)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """What an import ran until it failed, from without inwards."""
    return [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen importlib")]
