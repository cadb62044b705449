"""Checks that modules do not import each other in cycles: not at load time, nor lazily or for types unless listed here.

Run as `python ci/check_cycles.py [FOLDER]`, by default on this checkout. The exit code is 1 if a cycle is not
listed, or if a listed import does not exist.
"""

from __future__ import annotations

import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

NAMED = {
    ("compiler.buda.graph", "compiler.buda.fused"): "types: a node may hold a fused op, whose steps are graph ops",
    ("compiler.dialects.from_row", "compiler.dialects.ttir_canonicalization"): (
        "lazy: an op class knows its patterns, which make ops of these classes"
    ),
    ("compiler.dialects.ttir_canonicalization", "compiler.dialects.ttir_constants"): (
        "lazy: the patterns are whole only with those of the other file"
    ),
    ("compiler.passes.stablehlo_to_ttir.emit", "compiler.passes.stablehlo_to_ttir.regions"): (
        "types: a pattern may ask for its regions as functions, which patterns fill"
    ),
    ("harness.backends.reference_pieces", "harness.backends.reference"): (
        "lazy: the backend hands over its program in pieces that it runs itself"
    ),
    ("harness.page.what_next", "harness.page.summary"): "types: what follows a run is told of what its page shows",
    ("harness.record.result_options", "harness.record.records"): "types: options are read back from a run's record",
    ("models.frontends.base", "models.registry"): "lazy: a frontend builds what the registry declares of a file",
    ("reports.nightly.uplift_leads", "reports.nightly.uplift"): "types: leads are of what a gate asked and found",
    ("simulator.host.modules.module", "simulator.host.devices.device"): "types: a module knows the device it is on",
    ("simulator.host.modules.module", "simulator.host.run"): "lazy: Module.run runs the module like a program would",
    ("simulator.host.session", "simulator.host.devices.device"): "types: a session lists its devices",
    ("simulator.host.session", "simulator.host.pipeline"): "types: a session holds the pipeline that runs",
    ("simulator.host.session", "simulator.host.training.training_pipeline"): "types: or the one that trains",
    **dict.fromkeys(
        ((f"models.frontends.torch_{name}", "models.frontends.torch") for name in ("trace", "export", "modules")),
        "types: exporting needs PyTorch, declaring a model does not",
    ),
    ("models.op_cases", "models.op_cases_shaped"): "lazy: the table of cases is whole only with its other two files",
    ("models.op_cases", "models.op_texts"): "lazy: the table of cases is whole only with its other two files",
}
"""Import that closes a cycle -> why it is allowed."""


def problems(imports: dict[str, set[str]]) -> list[str]:
    """Returns the problems in a graph of module -> modules that it imports, one line each."""
    unused = [
        f"{a} -> {b}: expected this import, which is named, got none; try without the name"
        for a, b in NAMED
        if b not in imports.get(a, ())
    ]
    rest = {module: {other for other in others if (module, other) not in NAMED} for module, others in imports.items()}
    try:
        TopologicalSorter(rest).prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        return [*unused, f"{circle}: expected no circle; try to move what both need, or name its import in NAMED"]
    return unused


def imports_below(folder: Path) -> dict[str, set[str]]:
    """Module -> our modules that it imports in any way, without `opscope.`; leaves out tests."""
    import grimp  # comes with import-linter

    sys.path.insert(0, str(folder))
    graph = grimp.build_graph("opscope", cache_dir=None)
    ours = [name for name in graph.modules if "tests" not in name.split(".")]
    short = {name: name.removeprefix("opscope.") for name in ours}
    return {
        short[name]: {
            short[other]
            for other in graph.find_modules_directly_imported_by(name)
            if other in short and not name.startswith(f"{other}.")
        }
        for name in ours
    }


def main(folder: Path) -> int:
    """Prints the problems; returns 0 if there are none, else 1."""
    imports = imports_below(folder)
    broken = problems(imports)
    print("\n".join(broken) or f"cycles: none among {len(imports)} modules but {len(NAMED)} named imports")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent))
