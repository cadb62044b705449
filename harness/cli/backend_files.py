"""The files that `opscope backend new` writes, from templates with comments."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from opscope.harness import backends
from opscope.harness.backends import registry
from opscope.harness.backends.commands.description import PLACEHOLDERS
from opscope.harness.record.errors import InputError
from opscope.harness.record.store import write_whole

TEMPLATES = Path(backends.__file__).parent / "templates"
NAME = re.compile(r"[a-z][a-z0-9_-]*")
STAGE = re.compile(r"([a-z][a-z0-9-]*)=(.+)", re.DOTALL)
SUFFIXES = (".py", ".yaml", ".yml")


def write(file: Path, stages: Sequence[str]) -> None:
    """Writes the file of a new backend. Raises InputError for another kind of file, one that is there, or a name or a
    stage that cannot be one."""
    if file.suffix not in SUFFIXES:
        raise InputError("opscope backend new", "a file FILE.yaml or FILE.py", str(file), f"{file.stem or 'mine'}.yaml")
    name = file.stem
    if not NAME.fullmatch(name) or (file.suffix == ".py" and "-" in name):
        latin = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        fitting = re.sub(r"[^a-z0-9_]+", "_", latin.lower()).strip("_0123456789") or "mine"
        raise InputError("opscope backend new", "small letters, digits and _", name, f"{fitting}{file.suffix}")
    if name in {*registry.own_names(), *registry.names_alone()}:
        raise InputError("opscope backend new", "a name that no backend has", name, f"my_{name}{file.suffix}")
    if file.exists() or file.is_symlink():
        raise InputError("opscope backend new", "a file that is not there yet", f"{file}", "another name")
    if stages and file.suffix == ".py":
        raise InputError("--stage", "a YAML file", str(file), f"{name}.yaml")
    if file.suffix == ".py":
        text = (TEMPLATES / "class.py.txt").read_text(encoding="utf-8")
        text = text.replace("{name}", name).replace("{class}", name.title().replace("_", ""))
    else:
        text = (TEMPLATES / "commands.yaml.txt").read_text(encoding="utf-8")
        text = text.replace("{stages}", "\n".join(_stage(word) for word in stages or _example(name)))
        text = text.replace("{name}", name).replace("{tool}", json.dumps(_tool(stages, name)))
        width = max(map(len, PLACEHOLDERS)) + 2
        placeholders = (f"#  {f'{{{each}}}':{width}}  {what}" for each, what in PLACEHOLDERS.items())
        text = text.replace("{placeholders}", "\n".join(placeholders))
    write_whole(file, text, "a writable folder")
    try:
        registry.check_name(str(file.absolute()))
    except InputError:
        file.unlink()
        raise


def _example(name: str) -> tuple[str, ...]:
    """Stages to begin with."""
    return (f"compile={name} {{input}} -o {{output}}",)


def _tool(stages: Sequence[str], name: str) -> str:
    """The program of the first stage."""
    match = STAGE.fullmatch(stages[0]) if stages else None
    return shlex.split(match[2])[0] if match else name


def _stage(word: str) -> str:
    """A stage in YAML. Raises InputError for a word that is none."""
    match = STAGE.fullmatch(word)
    try:
        command = shlex.split(match[2]) if match else []
    except ValueError:
        command = []
    if match is None or not command:
        raise InputError("--stage", "NAME=COMMAND", word, "--stage 'compile=mycc {input} -o {output}'")
    words = ", ".join(json.dumps(each, ensure_ascii=False) for each in command)
    return f"  - name: {match[1]}\n    command: [{words}]"
