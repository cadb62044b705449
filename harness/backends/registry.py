"""Finds backends: files in this folder, entry points of the group `opscope.backends`, or the path of a file.

To add a backend, add one file: a subclass of `base.Backend` whose `name` is the file's name, or a YAML file of stage
commands (docs/backends.md). `a,b` names several backends, `NAME:WHAT` one that takes an argument, as `pjrt` takes a
plugin. Only `load` imports a backend. Everything else here is also called in pytest processes, and reads only the names
and sources of files.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import re
import shlex
import sys
from datetime import datetime
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opscope.base.plugins import plugins
from opscope.base.visible_text import cut
from opscope.base.xla.xla_releases import number
from opscope.harness.backends import declarations, plugin_libraries, plugin_library, plugin_releases
from opscope.harness.backends.declarations import Declarations
from opscope.harness.cache import environments
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.optest import backend_label, release_in

if TYPE_CHECKING:
    from opscope.harness.backends.base import Backend

GROUP = "opscope.backends"
_NAMED = re.compile(r'^    name = "([\w-]+)"$', re.MULTILINE)
"""The line of a class body that makes a file of this folder a backend."""
FILES = (".py", ".yaml", ".yml")
"""Suffixes of a backend's file: Python with a class, or YAML with stage commands."""
RANGE = ".."
"""Stands between the first release and the last, where a history is asked for."""
COMMAND = "command"
"""The name of the backend for stage commands; `command:FILE.yaml` means the same as `FILE.yaml`."""


def own_names() -> list[str]:
    """The backends that are Python files of this folder; imports none of them."""
    return sorted(_own_files())


def own_commands() -> list[str]:
    """The backends that are YAML files of this folder."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.yaml"))


@cache
def _own_files() -> dict[str, str]:
    """Name of each backend of this folder -> its module."""
    named = (
        (_NAMED.search(path.read_text(encoding="utf-8")), path.stem) for path in Path(__file__).parent.glob("*.py")
    )
    return {match[1]: stem for match, stem in named if match is not None}


def names() -> list[str]:
    """Every backend that has a name; imports none of them. Of one that needs an argument, those that it may have."""
    files = [
        f"{name}:{plugin}"
        for name in own_names()
        if declares(name, "needs_argument")
        for plugin in plugin_libraries.names()
    ]
    return sorted([*names_alone(), *files])


def names_alone() -> list[str]:
    """The backends that have a name of their own, without an argument. Does not look for plugins, which takes time."""
    alone = {name for name in own_names() if not declares(name, "needs_argument")}
    return sorted({*alone, *own_commands(), *(_entry_points().keys() - set(own_names()))})


def is_alone(name: str) -> bool:
    """Whether `names_alone` has a name; of a backend of this tree only its own source is read for that."""
    if name in own_names():
        return not declares(name, "needs_argument")
    return name in own_commands() or name in _entry_points()


def is_label_with_argument(label: str) -> bool:
    """Whether records may call a backend so that was given an argument, as `pjrt-cuda`, here or elsewhere."""
    return any(
        (declares(name, "takes_argument") and label.startswith((f"{name}-", f"{name}@")))
        or (_constant(name, "packages") and label.startswith(f"{name}@"))
        for name in own_names()
    )


def parts(backend: str) -> tuple[str, str]:
    """The name of a backend and its argument: what stands behind its colon, if it takes one; empty if there is none.

    Of one at a release without a colon, `tt@0.1.2`, it is that of its own package: `jax-tt-plugin@0.1.2`. Of one that
    has an environment for each release, `xla@0.10.1`, it is the release alone: `@0.10.1`.
    """
    name, _, argument = backend.partition(":")
    if (release := release_in(backend)) and (not argument or "@" in name):
        name = backend.removesuffix(f"@{release}")
        if name in own_names() and _constant(name, "packages"):
            return name, f"@{release}"
        package = _constant(name, "distribution") if name in own_names() else ""
        argument = f"{package}@{release}" if package else ""
    takes = bool(argument) and not _is_path(backend) and name in own_names() and declares(name, "takes_argument")
    return (name, argument) if takes else (backend, "")


def distribution(backend: str) -> str:
    """The package whose releases a backend can be had at, `jax-tt-plugin` of `tt`; empty if there is none."""
    name, _, word = backend.partition(":")
    if word and name in own_names() and declares(name, "takes_argument"):
        return plugin_releases.distribution_of(word)
    if name not in own_names():
        return ""
    return _constant(name, "distribution") or _constant(name, "packages").partition(" ")[0]


def kept_releases(backend: str) -> list[str]:
    """The releases of a backend that are in the cache, the oldest first."""
    if backend in own_names() and (packages := _constant(backend, "packages")):
        return sorted(environments.kept(packages), key=number)
    return sorted(plugin_releases.kept(distribution(backend)), key=number)


def names_with_releases() -> list[str]:
    """The backends of which releases can be had, without plugins that are only named."""
    return [name for name in own_names() if _constant(name, "distribution") or _constant(name, "packages")]


def release_date(backend: str, release: str) -> datetime | None:
    """When a release of a backend that is in the cache was made; None if that is not known."""
    if backend in own_names() and (packages := _constant(backend, "packages")):
        return environments.release_date(packages, release)
    return plugin_releases.release_date(distribution(backend), release)


def _constant(name: str, constant: str) -> str:
    """A text that the class of a backend of this tree declares, as the packages whose releases can be had beside
    others; empty for one that has none."""
    return str(declarations_of(name).constants.get(constant) or "")


def split_names(backends: str) -> tuple[str, ...]:
    """Splits `xla` or `xla,iree` into backends. Raises InputError if one is named twice, or if there is none."""
    backend_names = tuple(word.strip().removeprefix(COMMAND + ":") for word in backends.split(",") if word.strip())
    if not backend_names:
        raise InputError("--backend", "a backend", repr(backends), closest("", names()))
    labels = [backend_label(word) for word in backend_names]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        meant = [word for word, label in zip(backend_names, labels, strict=True) if label == twice]
        way_out = f"--backend {meant[-1]}" if len(set(meant)) == 1 else f"a link of another name to {meant[-1]}"
        raise InputError("--backend", "each backend once", f"'{twice}' twice", way_out)
    return backend_names


def check_name(backend: str) -> None:
    """Raises InputError if there is no such backend (the closest names are listed) or if its YAML file is wrong."""
    if backend == COMMAND:
        raise InputError("--backend command", "a YAML file with stage commands", "none", "--backend FILE.yaml")
    name, argument = parts(backend)
    release = release_in(backend)
    if release and not argument and (own := backend.removesuffix(f"@{release}")) in own_names():
        able = [f"{each}@{release}" for each in names_with_releases()]
        hint = " or ".join([*able, f"pjrt:NAME@{release}"])
        raise InputError(f"--backend {backend}", "a backend of which a release can be had beside others", own, hint)
    if RANGE in release and not release.endswith(".whl"):
        hint = f"opscope history --backend {backend}, or each release by itself, separated by commas"
        raise InputError(f"--backend {backend}", "one release", f"the range {release}", hint)
    if argument.startswith("@"):
        environments.find(f"--backend {backend}", _constant(name, "packages"), release, _constant(name, "beside"))
    elif argument:
        plugin_libraries.check(f"--backend {backend}", argument)
    elif name.removesuffix(":") in own_names() and declares(name.removesuffix(":"), "needs_argument"):
        name = name.removesuffix(":")
        choices = [f"--backend {name}:{plugin}" for plugin in plugin_libraries.names()]
        raise InputError(
            f"--backend {name}", "a plugin after a colon", "none", ", ".join([*choices, f"{name}:FILE.so"])
        )
    elif _is_path(backend):
        if not Path(backend).is_file():
            near = difflib.get_close_matches(Path(backend).stem, names(), n=3)
            hint = ", ".join(near) or f"opscope backend new {shlex.quote(backend)}"
            raise InputError("--backend", "the path of a backend's file", f"no file {backend}", hint)
        if backend.endswith(FILES[1:]):
            importlib.import_module("opscope.harness.backends.commands.description").read(
                Path(backend)
            )  # only for the errors that it raises
    elif not is_alone(backend):
        raise InputError("--backend", "a backend", f"'{backend}'", _MEANT.get(backend) or closest(backend, names()))


def load(backend: str) -> Backend:
    """The backend of that name, or in that file. Raises InputError if there is none or it is incomplete."""
    check_name(backend)
    if (file := command_file(backend)) is not None:
        return _commands()(file)
    if _is_path(backend):
        return _class_in(_import_file(Path(backend)), Path(backend).stem)()
    name, argument = parts(backend)
    if name in own_names():
        loaded = _class_in(importlib.import_module(f"opscope.harness.backends.{_own_files()[name]}"), name)
        if argument.startswith("@"):
            environment = environments.find(
                f"--backend {backend}", loaded.packages, release_in(argument), loaded.beside
            )
            elsewhere = importlib.import_module("opscope.harness.backends.elsewhere").Elsewhere
            return elsewhere(loaded(), backend_label(backend), environment)
        return loaded(argument) if argument else loaded()
    return _completed(_entry_points()[backend].load(), backend)()


def mentions(backend: str, word: str) -> bool:
    """Whether the source of a backend contains `word`. Does not import it; True if there is no source."""
    try:
        text = _source(backend).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return True
    return re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w.-])", text) is not None


def declares(backend: str, flag: str) -> bool:
    """Whether the class of a backend sets a flag of `base.Backend` to True. Does not import it."""
    return declarations_of(backend).constants.get(flag) is True


def declarations_of(backend: str) -> Declarations:
    """What the class of a backend declares in its source; nothing if that cannot be found. Does not import it."""
    try:
        name = parts(backend)[0]
        return declarations.read(_source(backend), backend_label(name))
    except (OSError, ValueError):
        return declarations.NOTHING


def absolute(backend: str, folder: Path | None = None) -> str:
    """The backend as it is found from any folder: a file by its whole path, any other by its name. It is looked for
    from `folder`, or from where this process works."""
    name, argument = parts(backend)
    release = release_in(argument)
    if release.endswith(".whl"):
        return f"{backend.removesuffix(release)}{Path(folder or '', release).absolute()}"
    if argument and plugin_libraries.is_file_name(argument):
        return f"{name}:{Path(folder or '', argument).absolute()}"
    return str(Path(folder or "", backend).absolute()) if _is_path(backend) else backend


def mark(backend: str) -> str:
    """A text that changes with a plugin's file, and with a device that comes or goes; empty for a backend that has
    neither. Reads no content."""
    name, argument = parts(backend)
    device = declarations_of(backend).constants.get("device_path")
    with_device = f"with {device}" if isinstance(device, str) and device and Path(device).exists() else ""
    if not argument:
        return with_device
    try:
        if release := release_in(argument):  # nothing is fetched for this; a version stays what it is, a wheel may not
            return plugin_library.mark_of(Path(release), release) + with_device if release.endswith(".whl") else release
        return plugin_libraries.find(f"--backend {name}", argument).mark() + with_device
    except (InputError, OSError):
        return with_device


def command_file(backend: str) -> Path | None:
    """The YAML file of a backend that is stage commands; None for any other."""
    if backend.endswith(FILES[1:]):
        return Path(backend.removeprefix(COMMAND + ":"))
    return Path(__file__).parent / f"{backend}.yaml" if backend in own_commands() else None


def is_own(backend: str) -> bool:
    """Whether a backend is one of this folder, by its name."""
    return parts(backend)[0] in own_names() or backend in own_commands()


def is_users(backend: str) -> bool:
    """Whether a backend is a user's: a file, or one of a distribution other than this."""
    point = _entry_points().get(parts(backend)[0])
    return bool(file_of(backend)) or (point is not None and not point.value.startswith(f"{__package__}."))


def file_of(backend: str) -> str:
    """The file of a user's backend; empty for one of ours, and for one of a distribution."""
    return str(Path(backend.removeprefix(COMMAND + ":")).absolute()) if _is_path(backend) else ""


def _source(backend: str) -> Path:
    """The file of a backend. Raises FileNotFoundError."""
    folder = Path(__file__).parent
    backend = parts(backend)[0]
    if backend in own_names():
        return folder / f"{_own_files()[backend]}.py"
    if backend in own_commands():
        return folder / f"{backend}.yaml"
    if backend in _entry_points():
        spec = importlib.util.find_spec(_entry_points()[backend].module)
        backend = (spec.origin if spec is not None else None) or ""
    return Path(backend.removeprefix(COMMAND + ":")).resolve(strict=True)


def _commands() -> Any:
    """The class of backends that are stage commands."""
    return importlib.import_module("opscope.harness.backends.command").Command


def _is_path(backend: str) -> bool:
    return backend.endswith(FILES)


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in plugins(GROUP)}


_MEANT = {"tt-mlir": "tt (a plugin that needs no card) or ttmlir (the tools of a built tree)"}
"""A name that is no backend's, but that people use -> what may be meant."""


def _import_file(path: Path) -> ModuleType:
    name = f"opscope_backend_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError("--backend", "a Python file", str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _class_in(module: ModuleType, name: str) -> Any:
    for value in vars(module).values():
        if isinstance(value, type) and value.__dict__.get("name") == name:
            return _completed(value, name)
    raise InputError(f"backend {name}", f"a class with name = '{name}'", f"none in {module.__file__}")


def _completed(backend: Any, name: str) -> Any:
    """Returns the class of a backend; one that does not inherit from `Backend` gets the defaults. Raises InputError."""
    from opscope.harness.backends.base import Backend

    if not isinstance(backend, type):
        raise InputError(
            f"backend {name}", "a class", cut(repr(backend), 80), "a subclass of opscope.harness.backends.base.Backend"
        )
    if not issubclass(backend, Backend):
        backend = type(backend.__name__, (backend, Backend), {})
    missing = [part for part in _MEMBERS if part in backend.__abstractmethods__ or not hasattr(backend, part)]
    if missing:
        raise InputError(
            f"backend {name}",
            "the members of opscope.harness.backends.base.Backend",
            f"a class without {', '.join(missing)}",
        )
    return backend


_MEMBERS = ("name", "stages", "target", "fingerprint", "climb", "available")
