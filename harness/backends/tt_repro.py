"""What shows a failure of tt-mlir without opscope: a program with jaxlib and the plugin alone, and `ttmlir-opt`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from opscope.harness.backends.plugin_library import Library

if TYPE_CHECKING:
    from opscope.harness.prepare.pjrt.client import Option

PROGRAM = "with_jax.py"
"""The program's name in a repro folder. At most thirty lines: a maintainer reads all of them."""
_PROGRAM = '''\
"""Compiles module.mlirbc with {build}. Needs: {needs}"""
import os, re, struct, sys
from importlib import metadata
from pathlib import Path

from jaxlib import xla_client

here = Path(__file__).resolve().parent
if not os.path.exists("/dev/tenstorrent"):  # without a card it compiles for a description of one
    os.environ["TT_COMPILE_ONLY_SYSTEM_DESC"] = str(here / {descriptor!r})
plugin = sys.argv[1] if sys.argv[1:] else {plugin}
xla_client.load_pjrt_plugin_dynamically("tt", str(plugin))
xla_client.initialize_pjrt_plugin("tt")
client = xla_client.make_c_api_client("tt", {{}}, None)
options = xla_client.CompileOptions()
options.env_option_overrides = {options!r}
devices = xla_client.DeviceList((client.devices()[0],))
try:
    executable = client.compile_and_load((here / "module.mlirbc").read_bytes(), devices, options)
except Exception as error:
    sys.exit(f"refused: {{error}}")
data = executable.serialize()  # "TTSERv00", then offset and size of TTIR, TTNN and flatbuffer
base = data.index(b"TTSERv00") + 56
start, size = struct.unpack_from("<2Q", data, base - 32)
ttnn = data[base + start : base + start + size].decode().rstrip("\\0")
print("it compiles to:")
for name, types in re.findall(r'"(ttnn\\.(?!deallocate)\\w+)".* : (\\(.*) loc\\(', ttnn):
    print(" ", name, re.sub(", #ttnn_layout[0-9]*", "", types))
'''
PATCHED = "jax-tt-plugin"
"""A third party builds it from tt-mlir, tt-xla and tt-metal, with patches of its own (its release notes)."""
_ARCH_OF_MOCK = "mock-system-desc-arch"
"""The option with which tt-mlir's own tests compile without a description of a card."""


def program(library: Library, descriptor: str, options: Sequence[Option]) -> str:
    """The program that compiles the module beside it, for the descriptor of that name."""
    if library.distribution:
        build = f"{library.distribution} {library.version}"
        needs = f"pip install jaxlib {library.distribution}=={library.version}"
        name = repr(library.path.name)
        plugin = f"next(f.locate() for f in metadata.files({library.distribution!r}) if f.name == {name})"
    else:
        build, needs = library.path.name, "jaxlib, and the plugin's file as its argument"
        plugin = repr(str(library.path))
    return _PROGRAM.format(build=build, needs=needs, plugin=plugin, descriptor=descriptor, options=[*options])


def lines(arch: str, level: int) -> Sequence[str]:
    """Lines of a shell: the program, in a TMPDIR of its own where the plugin leaves 400 MB, then `ttmlir-opt`."""
    pipeline = f"--ttir-to-ttnn-backend-pipeline=optimization-level={level} {_ARCH_OF_MOCK}={arch}"
    command = f"ttmlir-opt --stablehlo-to-ttir-pipeline {shlex.quote(pipeline)} module.mlir -o /dev/null"
    return (
        "TMPDIR=$(mktemp -d) && export TMPDIR && trap 'rm -rf \"$TMPDIR\"' EXIT",
        f"${{PYTHON:-python3}} {PROGRAM}; code=$?",
        "# The same with tt-mlir's own tool, where it was built:",
        f"if command -v ttmlir-opt >/dev/null; then {command}; fi",
        "exit $code",
    )


def build_note(library: Library) -> str:
    """What a report says of the package that is not Tenstorrent's own; empty for any other build."""
    if library.distribution != PATCHED:
        return ""
    return (
        f"{PATCHED} {library.version} is a third party's build of tt-mlir, with patches of its own. "
        "Please confirm this on tt-mlir's own build, with the `ttmlir-opt` line above."
    )
