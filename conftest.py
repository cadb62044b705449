"""Tests leave the user alone: they have a home folder, an environment and a working folder of their own.

Whoever runs the tests has runs in this checkout's `.opscope`, caches, and a shell with settings. Pointing the tests
elsewhere is not enough: a forgotten path goes unnoticed until somebody has files there. So a test that touches the
user's folders fails, and so does a test that starts a process which could.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs
import pytest

from opscope.base import damage, gc_pause, jax_plugins
from opscope.base.tests import crossed
from opscope.base.xla import xla_releases

# As in lanes: threads of two workers on two cores only wait for each other. NumPy reads it when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What `jax.jit` compiles here runs once, on small inputs. Goldens have options of their own.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Tests that compute with JAX do so on the processor: a plugin that happens to be installed would be loaded beside it.
jax_plugins.keep_out()
# Without stored bytecode each worker rewrites the assertions of all tests again, each child compiles our sources again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# pytest imports readline, which puts the size of a terminal that is not there into the environment of xdist's workers.
for _size in ("COLUMNS", "LINES"):
    os.environ.pop(_size, None)

CHECKOUT = Path(__file__).resolve().parent

SEED = 1
"""What shuffles the tests where `--randomly-seed` does not say otherwise: two runs fail alike."""

KEEPING = {"MALLOC_MMAP_THRESHOLD_": 32 << 20, "MALLOC_TRIM_THRESHOLD_": 256 << 20, "MALLOC_TOP_PAD_": 4 << 20}
"""By these glibc keeps what a worker of xdist frees for its next arrays: some hundredths of its time. Children, whose
memory tests look at, do without."""

VARIABLES = ("OPSCOPE_", "XDG_", "PYTEST_", "GITHUB_")
"""How variables begin that decide what a run does, where its files lie or which page it writes to."""

SELDOM = (150_000, 20, 100)
"""When garbage is collected while tests run. At Python's own thresholds it takes a thirtieth of their time."""

KNOBS = frozenset(
    {
        "OPSCOPE_COLLECT_DATA",
        "OPSCOPE_KILLS",
        "OPSCOPE_MEASURE_POSTGRES",
        "OPSCOPE_NETLISTS",
        "OPSCOPE_PICTURES",
        "OPSCOPE_RECORDS",
    }
)
"""Variables that the tests themselves read; no setting has one of these names."""

PATHS_OF = {
    "open": 1,
    "os.chdir": 1,
    "os.link": 2,
    "os.listdir": 1,
    "os.mkdir": 1,
    "os.remove": 1,
    "os.rename": 2,
    "os.rmdir": 1,
    "os.scandir": 1,
    "os.symlink": 2,
    "os.truncate": 1,
    "os.utime": 1,
    "sqlite3.connect": 1,
}
"""Audit event -> how many of its first arguments are paths."""

WATCHED = frozenset({*PATHS_OF, "subprocess.Popen"})
"""Audit events that the guard looks at."""


class User(NamedTuple):
    """What belongs to whoever runs the tests."""

    home: str
    folders: tuple[str, ...]
    """Where their runs, caches, state and configuration lie; absolute."""


USER = pytest.StashKey[User]()


def end_at_once() -> None:
    """Ends a worker of xdist, whose exit code nobody reads, once all that others have registered has been called.

    To take apart what all tests have imported and computed took a worker more than 4 s of processor time.
    """
    atexit.unregister(end_at_once)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError, OSError):  # closed
            stream.flush()
    os._exit(0)


def expect_the_end() -> None:
    """Has `end_at_once` called before all that others have registered for the end."""
    atexit.register(end_at_once)


def the_user() -> User:
    """The user as the environment has them before the tests change it."""
    named = (os.environ.get(f"OPSCOPE_{name}", "") for name in ("CACHE_DIR", "DASHBOARD_HOME"))
    of_opscope = [getattr(platformdirs, f"user_{kind}_dir")("opscope") for kind in ("cache", "state", "config", "data")]
    folders = {absolute(path) for path in (CHECKOUT / ".opscope", *filter(None, named), *of_opscope)}
    return User(str(Path.home()), tuple(sorted(folders)))


def absolute(path: str | Path) -> str:
    """`path` from the root on. Path.resolve() would ask the disk, and each file that a test opens comes here."""
    return os.path.abspath(path)  # noqa: PTH100


class Guard:
    """Fails the test that touches a folder of the user, or starts a process that could."""

    def __init__(self, user: User) -> None:
        self._user = user
        self.on = True

        # Each `id()` of a library is an event: 0.14 us of a function that lets it pass, 0.6 of a bound method.
        def watch(event: str, arguments: tuple[Any, ...], watched: frozenset[str] = WATCHED) -> None:
            if event in watched and self.on:
                self._check(event, arguments)

        sys.addaudithook(watch)  # nothing removes it: it stays, switched off, until the process ends

    def _check(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in PATHS_OF:
            for argument in arguments[: PATHS_OF[event]]:
                if isinstance(argument, str | bytes | os.PathLike):
                    self._check_path(os.fsdecode(argument))
        else:
            _, words, folder, environment = arguments
            self._check_process(words, Path(os.fsdecode(folder or ".")), environment)

    def _check_path(self, text: str) -> None:
        path = absolute(text.removeprefix("file:").partition("?")[0])  # SQLite takes URIs
        for folder in self._user.folders:
            if path == folder or path.startswith(folder + os.sep):
                pytest.fail(f"{path}: expected a file of the tests, got one of the user; try tmp_path")

    def _check_process(self, words: object, folder: Path, environment: Mapping[str, str] | None) -> None:
        if folder.resolve().is_relative_to(CHECKOUT):
            pytest.fail(f"{words}: expected a process outside of the checkout, got one in {folder}; try cwd=tmp_path")
        home = (os.environ if environment is None else environment).get("HOME", self._user.home)
        if home == self._user.home:
            hint = "env=os.environ | {...}"
            pytest.fail(f"{words}: expected a process with the tests' home, got the user's {home}; try {hint}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Gives this process, and all that it starts, another home and an environment without the user's settings."""
    if getattr(config.option, "randomly_seed", None) == "default":
        config.option.randomly_seed = SEED
    config.add_cleanup(gc_pause.restorer())  # of what pytest_collection sets aside
    config.add_cleanup(partial(gc.set_threshold, *gc.get_threshold()))
    gc.set_threshold(*SELDOM)
    if hasattr(config, "workerinput"):  # of xdist, whose controller has done so
        config.add_cleanup(expect_the_end)
        for name in KEEPING:
            os.environ.pop(name, None)
        home, folders = config.workerinput["user"]  # type: ignore[attr-defined]
        config.stash[USER] = User(home, tuple(folders))
        return
    config.stash[USER] = the_user()
    home = tempfile.TemporaryDirectory(prefix="opscope-tests-", ignore_cleanup_errors=True)
    config.add_cleanup(home.cleanup)
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setenv("HOME", home.name)
    for name in list(os.environ):
        if name.startswith(VARIABLES) and name not in KNOBS:
            patch.delenv(name)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Has the workers, which are started next, keep the memory that they free."""
    os.environ |= {name: str(size) for name, size in KEEPING.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker of xdist who the user is: its environment no longer says so."""
    node.workerinput["user"] = tuple(node.config.stash[USER])


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(report: pytest.TestReport | pytest.CollectReport) -> Iterator[None]:
    """Leaves the names that a test goes by out of what a worker says of it where it passed: nobody reads them."""
    data: Any = yield
    if report.passed:
        data["keywords"] = {}
    return data


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keeps what the tests import out of garbage collection, which would walk it a hundred times."""
    with gc_pause.paused():
        collected = yield
    gc_pause.set_aside()
    compile_quickly()
    return collected


def compile_quickly() -> None:
    """Has `jax.jit`, and ops that the simulator leaves to the host, compile in half the time, as goldens of quick tests
    do: where a module of tests has imported them.

    JAX has no setting for it. Children, and what compiles with XLA alone, have options of their own.
    """
    quick = xla_releases.quick_options() if {"jax", "opscope.simulator"} & {*sys.modules} else {}
    compiler: Any = sys.modules.get("jax._src.compiler")
    if (of_jax := getattr(compiler, "get_compile_options", None)) is not None:

        def jax_options(*words: Any, env_options_overrides: dict[str, Any] | None = None, **more: Any) -> Any:
            return of_jax(*words, env_options_overrides=quick | (env_options_overrides or {}), **more)

        compiler.get_compile_options = jax_options
    if "opscope.simulator" in sys.modules:
        from opscope.simulator import host_ops

        of_host = host_ops._options

        def host_options() -> Any:
            options = of_host()
            options.executable_build_options.debug_options.xla_backend_optimization_level = 0
            options.env_option_overrides = list(quick.items())
            return options

        host_ops._options = host_options


SLOW_AS_A_WHOLE = re.compile(rb"^pytestmark = .*pytest\.mark\.slow", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out the links to rooms, whose tests are collected in their folders, and files of slow tests alone.

    The latter only where no slow test is asked for: each worker would import what they need.
    """
    if collection_path.is_symlink():
        return True
    if config.option.markexpr != "not slow" or not collection_path.match("test_*.py"):
        return None
    named = any(Path(word.partition("::")[0]).absolute() == collection_path for word in config.args)
    return None if named or not SLOW_AS_A_WHOLE.search(collection_path.read_bytes()) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Makes slow tests, before slow ones are left out, of the pairs that the quick ones do without."""
    crossed.mark_slow(items)
    draw_the_same()


def draw_the_same() -> None:
    """Has hypothesis draw no numbers from the sources of what is imported by then: that depends on the tests before,
    and to read them all took each worker seconds."""
    if "hypothesis" in sys.modules:
        from hypothesis.internal.conjecture import providers

        providers._get_local_constants = lambda: providers._local_constants


_BEGINNINGS: dict[str, Any] = {}
"""Module -> the state of its generator before its first test."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Has a test draw the same numbers from its module's generator RANDOM whatever has run before it."""
    module: Any = getattr(item, "module", None)
    generator = getattr(getattr(module, "RANDOM", None), "bit_generator", None)
    if generator is not None:
        generator.state = _BEGINNINGS.setdefault(module.__name__, generator.state)


@pytest.fixture(scope="session", autouse=True)
def working_folder(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Path]:
    """The current folder of all tests, and of fixtures that outlive a test; outside of the checkout, and guarded."""
    folder, before = tmp_path_factory.mktemp("working-folder"), Path.cwd()
    os.chdir(folder)
    guard = Guard(pytestconfig.stash[USER])
    yield folder
    guard.on = False
    os.chdir(before)


@pytest.fixture(autouse=True)
def stays_empty(working_folder: Path) -> Iterator[None]:
    """Starts a test in the working folder; fails it where it leaves something for the next one to stumble over."""
    os.chdir(working_folder)
    yield
    os.chdir(working_folder)
    damage.forget()  # what a test's process has said, and to whom
    left = sorted(working_folder.iterdir())
    for path in left:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if left:
        names = ", ".join(path.name for path in left)
        pytest.fail(f"expected an empty folder after the test, got {names}; try monkeypatch.chdir(tmp_path)")
