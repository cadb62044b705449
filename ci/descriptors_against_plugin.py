"""Compiles ops with a PJRT plugin of tt-mlir under our system descriptors and under published ones: equal bytes?

`python -m ci.descriptors_against_plugin --plugin FILE.so --modules LIST --published FOLDER --for jax-tt-plugin==0.1.3`
draws ops by a seed from a list of files with single-op modules. For each board, whose `<name>_system_desc.ttsys` is in
the folder, every op is compiled twice; executables have to be equal from `TTSERv00` on, where tt-mlir's own part
begins, and refusals too. The hash of a published file is replaced by that of the build. Needs jaxlib, no `jax`.

With `--damaged N` it also compiles one op under so many damaged descriptors that our reader accepts: none may end the
process. With `--own BOARD|FILE.yaml ...` the ops are compiled under descriptors that nobody publishes, and those that
compile are counted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from opscope.compiler import api

MARK = b"TTSERv00"
PUBLISHED = {"n150": "n150", "n300": "n300", "t3000": "n300-llmbox", "p150": "p150"}
"""Board of ours -> what its published file is called after."""
SCHEMA_HASH = re.compile(rb"[0-9a-f]{64}")


def main() -> int:
    """Runs the comparison; 1 if an executable differs, or a descriptor ends the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", type=Path, required=True)
    parser.add_argument("--modules", type=Path, required=True)
    parser.add_argument("--published", type=Path, required=True)
    parser.add_argument("--for", dest="build", required=True)
    parser.add_argument("--boards", nargs="*", default=[*PUBLISHED])
    parser.add_argument("--own", nargs="*", default=[])
    parser.add_argument("--damaged", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    files = random.Random(options.seed).sample(sorted(options.modules.read_text().split()), options.count)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        _load(options.plugin)
        wrong = sum([_compared(board, options, files, work) for board in options.boards])
        for own in options.own:
            results = _compiled(_ours(own, options.build), files, work)
            print(f"{own}: {_counts(results)}")
            wrong += any(result.startswith("ended") for result in results)
        if options.damaged:
            wrong += _damaged(options, files, work)
    return 1 if wrong else 0


def _load(plugin: Path) -> None:
    """Loads the plugin by jaxlib alone; every child is a fork of this process and makes a client of its own."""
    from jaxlib import xla_client

    start = time.perf_counter()
    xla_client.load_pjrt_plugin_dynamically("tt", str(plugin))
    xla_client.initialize_pjrt_plugin("tt")
    print(f"loaded in {time.perf_counter() - start:.1f} s")


def _ours(board: str, build: str) -> bytes:
    """Returns our descriptor of a board or of a board file."""
    desc = api.load_board_file(Path(board)) if board.endswith(".yaml") else api.load_board(board)
    distribution, _, version = build.partition("==")
    return api.system_desc_file(desc, api.schema_hash_of(distribution, version))


def _compared(board: str, options: argparse.Namespace, files: list[str], work: Path) -> int:
    """Prints how many ops compile to equal bytes for a board; how many do not."""
    ours = _ours(board, options.build)
    published = (options.published / f"{PUBLISHED[board]}_system_desc.ttsys").read_bytes()
    schema_hash = SCHEMA_HASH.search(ours)
    assert schema_hash is not None
    published = SCHEMA_HASH.sub(schema_hash[0], published, count=1)
    start = time.perf_counter()
    pairs = list(zip(_compiled(ours, files, work), _compiled(published, files, work), strict=True))
    equal = sum(a == b for a, b in pairs)
    print(
        f"{board}: {equal} of {len(files)} equal ({_counts([a for a, _ in pairs])}), "
        f"{time.perf_counter() - start:.0f} s"
    )
    for file, (a, b) in zip(files, pairs, strict=True):
        if a != b:
            print(f"  {file}: {a[:80]} against {b[:80]}")
    return len(files) - equal


def _counts(results: list[str]) -> str:
    compiled = sum(result.startswith("sha256") for result in results)
    ended = sum(result.startswith("ended") for result in results)
    return f"{compiled} compiled, {len(results) - compiled - ended} refused, {ended} ended the process"


def _compiled(descriptor: bytes, files: list[str], work: Path) -> list[str]:
    """Compiles modules under a descriptor: the digest of each executable, its error, or how the process ended."""
    (work / "descriptor.ttsys").write_bytes(descriptor)
    results: list[str] = []
    while len(results) < len(files):
        log = work / "results.jsonl"
        log.write_text("")
        status = _in_fork(partial(_compile_all, work, files[len(results) :], log))
        results += [json.loads(line) for line in log.read_text().splitlines()]
        if status:
            results.append(f"ended with status {status}")
    return results[: len(files)]


def _in_fork(body: Callable[[], None]) -> int:
    """Calls a function in a fork, which is silent; its wait status, 0 if it came to its end."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        body()
        os._exit(0)
    finally:
        os._exit(70)


def _compile_all(work: Path, files: list[str], log: Path) -> None:
    """Compiles modules under the descriptor of the folder, each a line of a log."""
    from jaxlib import xla_client

    os.environ["TMPDIR"] = tempfile.mkdtemp(dir=work)
    os.environ["TT_COMPILE_ONLY_SYSTEM_DESC"] = str(work / "descriptor.ttsys")
    client = xla_client.make_c_api_client("tt", {}, None)
    devices = xla_client.DeviceList((client.devices()[0],))
    with log.open("a") as out:
        for file in files:
            compile_options = xla_client.CompileOptions()
            compile_options.env_option_overrides = [("optimization_level", "0")]
            try:
                data = client.compile_and_load(Path(file).read_bytes(), devices, compile_options).serialize()
            except Exception as error:  # noqa: BLE001  (a refusal, which has to be the same)
                result = f"refused: {error}"
            else:
                result = f"sha256 {hashlib.sha256(data[data.index(MARK) :]).hexdigest()}"
            out.write(json.dumps(result) + "\n")
            out.flush()


def _damaged(options: argparse.Namespace, files: list[str], work: Path) -> int:
    """Compiles one op under damaged descriptors that our reader accepts; how many end the process."""
    draw = random.Random(options.seed)
    whole = [_ours(board, options.build) for board in options.boards]
    accepted = ended = 0
    for _ in range(options.damaged):
        data = bytearray(draw.choice(whole))
        for _ in range(draw.choice((1, 1, 2, 8))):
            at = draw.randrange(len(data))
            data[at] = draw.choice((data[at] ^ 1 << draw.randrange(8), draw.randrange(256), 0, 255))
        try:
            api.read_system_desc(bytes(data), "damaged")
        except api.CompilerInputError:
            continue
        accepted += 1
        (result,) = _compiled(bytes(data), files[:1], work)
        if result.startswith("ended"):
            ended += 1
            print(f"  damaged descriptor {accepted}: {result}; {bytes(data).hex()}")
    print(f"damaged descriptors: {options.damaged}; our reader accepts {accepted}, of which {ended} end the process")
    return ended


if __name__ == "__main__":
    raise SystemExit(main())
