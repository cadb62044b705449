"""The server of the Model Context Protocol (`opscope mcp`): the tools of `tools.py` over standard input and output."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING, Any

from opscope.base.installing import install_command
from opscope.harness.record.errors import InputError
from opscope.reports.agents.short_answers import text_of
from opscope.reports.agents.tools import DATA, TOOLS, Results
from opscope.reports.database.reading import read_database

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

INSTRUCTIONS = f"""Results of nights in which ops of ML models went through a compiler: what broke, why, since when, by
which commits, and what to fix first. Begin with `status` and `what_changed`; `what_to_fix` ranks causes, `look_up` has
the history of an op and the command that runs it again, `ask` answers stored questions and SQL. All tools only read.
An answer is short: fields without a value are not in it, and `..._left_out` counts what else is not. `rows` gives more
rows of each list, `more` all there is.
{DATA}"""


def server(url: str | None) -> MCPServer[Any]:
    """The server over the results of a database. Raises InputError where there is no such database, or the protocol's
    package is missing."""
    if url is not None:
        with read_database(url, "--db"):
            pass  # said now, and not by each tool
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp_types import ToolAnnotations
    except ImportError as error:
        raise InputError("opscope mcp", "the package mcp", str(error), install_command("mcp")) from error

    class Server(MCPServer[Any]):
        """A server that refuses words which its tools do not take."""

        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            """Calls a tool. Raises ToolError, with the words that it takes, for another one."""
            known = list(inspect.signature(getattr(Results, name)).parameters)[1:] if name in TOOLS else []
            if name in TOOLS and (unknown := sorted(set(arguments) - set(known))):
                expected = ", ".join(known) or "no words"
                raise ToolError(str(InputError(name, expected, f"`{', '.join(unknown)}`", "its description")))
            return await super().call_tool(name, arguments, context)

    made = Server("opscope", instructions=INSTRUCTIONS, version=metadata.version("opscope"), log_level="WARNING")
    reads = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    results = Results(url)
    for name in TOOLS:
        made.add_tool(_as_text(getattr(results, name)), name, annotations=reads, structured_output=False)
    return made


def _as_text(tool: Callable[..., dict[str, Any]]) -> Callable[..., str]:
    """The tool with its answer as JSON without spaces, whose refusals reach the assistant in their words."""
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(tool)
    def call(*words: Any, **named: Any) -> str:
        try:
            return text_of(tool(*words, **named))
        except InputError as error:
            raise ToolError(str(error)) from error

    call.__signature__ = inspect.signature(tool, eval_str=True).replace(return_annotation=str)  # type: ignore[attr-defined]
    return call
