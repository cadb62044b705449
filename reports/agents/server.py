"""The server of the Model Context Protocol (`opscope mcp`): the tools of `tools.py` over standard input and output."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING, Any

from opscope.base.installing import install_command
from opscope.harness.record.errors import InputError
from opscope.reports.agents.tools import DATA, TOOLS, Results, schema_of
from opscope.reports.database.reading import read_database

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

INSTRUCTIONS = f"""Results of nights in which ops of ML models went through a compiler: what broke, why, since when, by
which commits, and what to fix first. Begin with `status` and `what_changed`; `what_to_fix` ranks causes, `look_up` has
the history of an op and the command that runs it again, `ask` answers stored questions and SQL. All tools only read.
{DATA}"""


def server(url: str | None) -> MCPServer[Any]:
    """The server over the results of a database. Raises InputError where there is no such database, or the protocol's
    package is missing."""
    if url is not None:
        with read_database(url, "--db"):
            pass  # said now, and not by each tool
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp_types import ToolAnnotations
    except ImportError as error:
        raise InputError("opscope mcp", "the package mcp", str(error), install_command("mcp")) from error

    made: MCPServer[Any] = MCPServer(
        "opscope", instructions=INSTRUCTIONS, version=metadata.version("opscope"), log_level="WARNING"
    )
    reads = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    results = Results(url)
    for name in TOOLS:
        made.add_tool(_explaining(getattr(results, name), schema_of(name)), name, annotations=reads)
    return made


def _explaining(tool: Callable[..., dict[str, Any]], schema: dict[str, Any]) -> Callable[..., dict[str, Any]]:
    """The tool with the schema of its answers, whose refusals reach the assistant in their words."""
    from mcp.server.mcpserver.exceptions import ToolError
    from pydantic import RootModel

    class Answer(RootModel[dict[str, Any]]):
        """An answer; the protocol's package asks this type for its schema."""

        @classmethod
        def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
            """The schema of the command, in place of that of any map."""
            return schema

    @functools.wraps(tool)
    def call(*words: Any, **named: Any) -> dict[str, Any]:
        try:
            return tool(*words, **named)
        except InputError as error:
            raise ToolError(str(error)) from error

    call.__signature__ = inspect.signature(tool, eval_str=True).replace(return_annotation=Answer)  # type: ignore[attr-defined]
    return call
