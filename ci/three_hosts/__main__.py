"""Tries `--cluster` on three hosts: `python -m ci.three_hosts [--model MODEL ...] [--case CASE ...]`.

The first host runs the scheduler and the controller, the others a worker each, as docs/scale.md tells a user to start
them. What comes of it is compared with a run of the first host alone. Cases: `undisturbed`; `dies`, in which the third
host is switched off in the middle; `cut off`, in which its cable is pulled while its processes go on. The exit code is
1 if a case ends with other records, goldens or another exit code. Where a machine permits no namespaces, one line says
`skipped: ` and why, and the exit code is 0.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ci.attacks.kills import steady
from ci.sweep_command import sweep_command
from ci.three_hosts.network import Host, Network, NotPermittedError
from opscope.base.digest import words_digest

HOSTS = ("host1", "host2", "host3")
MODELS = ("mnist_mlp", "resnet50", "suite:ops")
CASES: dict[str, Callable[[Network, str], None] | None] = {
    "undisturbed": None,
    "dies": Network.kill,
    "cut off": Network.cut_off,
}
"""What happens to the last host in the middle."""

SECONDS = 1800.0
"""Limit of one run."""
RUN, CACHE = Path("/tmp/run"), Path("/tmp/cache")
DASK = Path(sys.executable).with_name("dask")
HEADS = ("case", "ops", "at the loss", "records", "goldens", "exit code", "seconds", "MB sent by host1", "MB received")


@dataclass(frozen=True)
class Ending:
    """What a run ended with."""

    code: int | None
    """None: it was ended after `SECONDS`."""
    seconds: float
    records: dict[str, Any]
    """What counts of the records and models, as `ci.attacks.kills.steady` has it."""
    goldens: dict[str, Any]
    """The digests of the files of each export."""
    sent: int
    received: int
    at_loss: int | None
    """How many records there were when a host was lost; None if none was."""
    output: str

    @property
    def ops(self) -> dict[str, Any]:
        """The records by the ids of their ops."""
        return self.records.get("ops", {})


@dataclass(frozen=True)
class Sweep:
    """What is run, on how many devices of each worker; a host is lost once a part (0 to 1) of the records is there."""

    models: Sequence[str]
    devices: int
    moment: float

    def alone(self) -> Ending:
        """The run of one host without a cluster."""
        with Network(HOSTS[:1]) as network:
            return self._run(network, None, 0)

    def on_three(self, case: str, ops: int) -> Ending:
        """A case; `ops` is how many records it should have."""
        with Network(HOSTS) as network, contextlib.ExitStack() as programs:
            logs: dict[str, IO[bytes]] = {}

            def start(name: str, *words: str) -> None:
                logs[name] = programs.enter_context(tempfile.TemporaryFile())
                programs.enter_context(network.hosts[name].running(logs[name], DASK, *words))

            cluster = f"tcp://{network.addresses[HOSTS[0]]}:8786"
            start(HOSTS[0], "scheduler", "--host", network.addresses[HOSTS[0]])
            for name in HOSTS[1:]:
                devices = str(self.devices)
                start(name, "worker", cluster, "--resources", f"device={devices}", "--nthreads", devices)
            return self._run(network, CASES[case], ops, logs, "--cluster", cluster)

    def _run(
        self,
        network: Network,
        harm: Callable[[Network, str], None] | None,
        ops: int,
        logs: dict[str, IO[bytes]] | None = None,
        *more: str,
    ) -> Ending:
        first = network.hosts[HOSTS[0]]
        models = [word for model in self.models for word in ("--model", model)]
        words = sweep_command("", *models, "--run-dir", str(RUN), *more)
        began, at_loss = time.monotonic(), None
        with tempfile.TemporaryFile() as output:
            with first.running(output, *words, OPSCOPE_CACHE_DIR=CACHE) as process:
                while (code := process.poll()) is None and time.monotonic() < began + SECONDS:
                    if harm is not None and at_loss is None and (records := _written(first)) >= self.moment * ops:
                        harm(network, HOSTS[-1])
                        at_loss = records
                    time.sleep(0.05)
            seconds = time.monotonic() - began
            texts = [_text("controller", output), *(_text(name, log) for name, log in (logs or {}).items())]
        sent, received = network.bytes_of(first.name)
        return Ending(code, seconds, _records(first), _goldens(first), sent, received, at_loss, "\n".join(texts))


def _written(host: Host) -> int:
    """How many records the run on a host has written."""
    return sum(path.read_bytes().count(b"\n") for path in host.path(RUN).glob("journal/*.jsonl"))


def _records(host: Host) -> dict[str, Any]:
    """What counts of the records of the run on a host."""
    command = [sys.executable, "-P", "-m", "opscope.harness.cli.main", "show", str(RUN), "--json"]
    done = subprocess.run(host.command(*command), capture_output=True, text=True, check=False)
    return {"refused": done.stderr} if done.returncode else steady(json.loads(done.stdout))


def _goldens(host: Host) -> dict[str, Any]:
    """The digests of the files of each export on a host, by its models, since each run names its folders anew; None for
    one that was left unfinished."""
    return dict(_files(folder) for folder in host.path(CACHE).glob("exports/*"))


def _files(folder: Path) -> tuple[str, dict[str, Any] | None]:
    digests, manifest = folder / "digests.json", folder / "manifest.jsonl"
    if not digests.is_file():
        return folder.name, None
    header, *rows = manifest.read_text().splitlines()
    facts = {**json.loads(header), "export_dirs": None}
    files = {**json.loads(digests.read_text())["files"], manifest.name: words_digest(json.dumps(facts), *rows)}
    return ", ".join(facts["models"]), files


def _text(title: str, log: IO[bytes]) -> str:
    """What a program has printed, without Dask's line for each call."""
    log.seek(0)
    lines = log.read().decode(errors="replace").splitlines()
    return "\n".join([f"--- {title}", *(line for line in lines if "Run out-of-band function" not in line)])


def differences(ending: Ending, right: Ending) -> Iterator[str]:
    """What differs from the run of one host alone, a line each."""
    if ending.code != right.code:
        yield f"exit code {ending.code} is not {right.code}"
    for name, expected in right.records.items():
        if name != "ops" and ending.records.get(name) != expected:
            yield f"{name}: {ending.records.get(name)} is not {expected}"
    for op_id in sorted(right.ops.keys() | ending.ops.keys()):
        got, expected = ending.ops.get(op_id, {}), right.ops.get(op_id, {})
        fields = [field for field in (got | expected) if got.get(field) != expected.get(field)]
        yield from (f"{op_id} {field}: {got.get(field)} is not {expected.get(field)}" for field in fields)
    for name in sorted(right.goldens.keys() | ending.goldens.keys()):
        got, expected = ending.goldens.get(name) or {}, right.goldens.get(name) or {}
        files = sorted(file for file in (got | expected) if got.get(file) != expected.get(file))
        yield from (f"export {name}: {file} is another" for file in files)
        if (name in right.goldens) != (name in ending.goldens):
            yield f"export {name}: in one of both caches"


def cells(case: str, ending: Ending, right: Ending) -> tuple[str, ...]:
    """The row of a case in the table."""
    equal = ending.records == right.records, ending.goldens == right.goldens
    same = ("equal" if each else "others" for each in equal)
    sizes = (f"{size / 1e6:.1f}" for size in (ending.sent, ending.received))
    at_loss = "" if ending.at_loss is None else str(ending.at_loss)
    return (case, str(len(ending.ops)), at_loss, *same, str(ending.code), f"{ending.seconds:.0f}", *sizes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the cases and prints a table; returns 1 if one differs from the run of one host."""
    parser = argparse.ArgumentParser(prog="python -m ci.three_hosts", description="Try --cluster on three hosts.")
    parser.add_argument("--model", action="append", help=f"as of a run; default: {', '.join(MODELS)}")
    parser.add_argument("--case", action="append", choices=CASES, help="default: all")
    parser.add_argument("--devices", type=int, default=1, help="of each worker (1)")
    parser.add_argument("--moment", type=float, default=0.3, help="part of the records at which a host is lost (0.3)")
    options = parser.parse_args(arguments)
    sweep, differing = Sweep(options.model or MODELS, options.devices, options.moment), 0
    try:
        right = sweep.alone()
    except NotPermittedError as error:
        print(f"skipped: {error}")
        return 0
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    print(f"| {' | '.join(cells('one host', right, right))} |", flush=True)
    for case in options.case or CASES:
        ending = sweep.on_three(case, len(right.ops))
        print(f"| {' | '.join(cells(case, ending, right))} |", flush=True)
        if lines := list(differences(ending, right)):
            differing = 1
            print(ending.output, *lines[:20], f"{len(lines)} differences", sep="\n", file=sys.stderr)
    return differing


if __name__ == "__main__":
    sys.exit(main())
