"""The commands of `opscope --help` by heading, each with its sentence: the help and the shell load none of them.

`harness/tests/cli/test_main.py` holds each sentence to the help of its command.
"""

from __future__ import annotations

DAILY = {
    "doctor": "Check what works on this machine.",
    "models": "List the models with framework, family, size, parameters, ops and unique ops.",
    "backend": "Bring a compiler of your own: a file to begin with, and a suite that it has to pass.",
    "config": "Print every setting, its value, and where the value comes from.",
    "show": "Show a run, the history of an op, or the readiness of a model.",
    "report": "Write the HTML report of a night or a run.",
    "diff": "Compare two runs or two nights, op by op.",
    "unblock": "Rank fixes by the models and uses that they help.",
    "readiness": "List the ops that keep a model from running as a whole.",
    "note": "Write what is known of a cause of failure, and acknowledge it.",
    "sql": "Query the results database, in SQL or by a stored question.",
    "repro": "Write a folder that reproduces an op's failure anywhere.",
    "nightly": "Run, publish, compare and report a night.",
    "history": "Run a night of each release of a compiler.",
    "gate": "Check whether a change, or a new build of a compiler, makes anything worse.",
    "status": "Show the newest nights; --max-age checks their age.",
    "dashboard": "Serve the results in Apache Superset.",
    "judge": "Say whether stored results are right: .npz, .safetensors, folders of .npy.",
    "ulp": "Measure elementwise ops over every input, in units in the last place.",
}
"""The commands of every day."""

GROUPS = {
    "compiler": {
        "ops": "List the ops that the reference compiler lowers, and why it lacks others.",
        "compile": "Compile a StableHLO file to ttir, ttnn or a flatbuffer.",
        "opt": "Run passes over StableHLO, ttir or ttnn.",
        "plan": "Plan a graph onto a grid of cores as TT-Buda does.",
        "netlist": "Check and show a TT-Buda netlist, or compile it to a binary.",
        "score": "Score a suite by its own stored answers.",
    },
    "device": {
        "device": "What is modelled of a board; its system descriptor for tt-mlir.",
        "simulate": "Run a device binary on a simulated card: cycles, tensors, hardware faults.",
        "image": "Compile a model to a device image (TTI).",
        "run-image": "Run a device image without the compiler.",
        "benchmark": "Measure pushing, running and popping the inputs of a model.",
        "decode": "Let a decoder generate, and show its drift.",
    },
    "debugging": {
        "replay": "Run the op of a repro folder again.",
        "reduce": "Find the smallest op that fails in the same way.",
        "locate": "Find the first value of a model that its compiler gets wrong.",
        "probe": "Find the rule behind a failure, such as: fails when C % 32 != 0.",
        "bisect": "Find the revision that broke an op, or changed a model.",
        "diff-tensors": "Show where two tensors, or two dumps of a run, differ; the worst first.",
        "limitations": "List, check and update the expected failures.",
    },
    "results": {
        "publish": "Write runs to a results database.",
        "db": "Upgrade, prune and measure a results database.",
        "export": "Write a run as JSON, XML, CSV or Parquet for other programs.",
        "merge": "Join the runs of all shares of a sweep (--shard).",
        "costs": "Print the time of each op, for --shard-costs.",
        "scoreboard": "Write a static page: compilers, releases, ops.",
        "artifacts": "Serve the files of runs: logs, dumped IR, reports.",
        "demo": "Fill a database with the nights of thirty dates, all demo data.",
        "clean": "Remove old runs, and caches that have been unused the longest.",
    },
    "assistants": {
        "agents": "Print or write instructions for assistants that triage nights.",
        "mcp": "Serve the results to an assistant, read-only (Model Context Protocol).",
        "schema": "Print the JSON schema of what a command prints with --json.",
    },
}
"""The other commands by group, which `opscope help GROUP` lists."""

SENTENCES = {name: sentence for section in (DAILY, *GROUPS.values()) for name, sentence in section.items()}
"""Command -> its sentence, in the order of the help."""
