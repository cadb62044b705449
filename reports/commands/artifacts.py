"""`opscope artifacts serve`: logs and IR of runs under addresses that stay."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click

from opscope.base.live import progress


@click.group()
def artifacts() -> None:
    """Serve the files of runs: logs, dumped IR, reports."""


@artifacts.command()
@click.argument("roots", nargs=-1, type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8089,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--allow-host",
    "allowed",
    multiple=True,
    metavar="NAME",
    help="Accept requests for this host name too, such as a proxy's.",
)
@click.option("--wait-for-roots", is_flag=True, help="Accept ROOTS that are not there yet.")
def serve(roots: tuple[Path, ...], host: str, port: int, allowed: tuple[str, ...], wait_for_roots: bool) -> None:
    """Serve the run folders in ROOTS (default: .opscope/runs) over HTTP, read-only, until interrupted."""
    from opscope.harness.record.errors import InputError
    from opscope.harness.record.run_folders import runs_root
    from opscope.reports.artifact_server import ArtifactServer, Runs

    for root in roots:
        if not root.is_dir() and not wait_for_roots:
            raise InputError("ROOTS", "a folder of runs", f"{root}, which is none", "opscope artifacts serve")
    folders = roots or (runs_root(),)
    with ArtifactServer(host, port, Runs(folders), allowed) as server:
        name = f"[{host}]" if ":" in host else host
        click.echo(f"http://{name}:{server.server_address[1]}/ serves the runs in {', '.join(map(str, folders))}")
        sys.stdout.flush()
        progress.stop()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("stopped")
