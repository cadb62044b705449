"""What a model computes in its own framework on the same values, with which its import is compared.

`leave` runs in the exporter's process, beside the export, where every value is known there; `own_results_child.py` is a
process of its own, for values that only the golden walk knows (of a user's file, or decided by the ops). Both write

    framework.json    {"by", "seed", "not_run", "seconds", "dtypes"}
    framework/N.npy   result N, in the module's order; types that NumPy lacks as their bits

`not_run` says why there are no results: what the framework raised, or a cap; `crashed` is true where it ended its
process. `seed` is that of `leave`'s values.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.first_line import first_line
from opscope.models.arguments import ArgSpec
from opscope.models.frontends.base import ExportResult, Frontend, NoOwnResults, Source

if TYPE_CHECKING:
    import numpy as np

FILE, ARRAYS = "framework.json", "framework"
RNG = b"rng\0"
"""How the name of `stablehlo.rng` ends among the strings of a module's bytecode; other names may end so too."""

Values = Mapping[str, "np.ndarray"]


def leave(
    frontend: Frontend, built: Any, source: Source, result: ExportResult, folder: Path, seed: int, cap: int
) -> None:
    """Writes a model's own results on the values of a walk with `seed`, unless the walk decides one of these.

    Arguments that take more than `cap` bytes together are not made. Nothing is written for a model that draws random
    numbers: nobody compares those. One whose names only end so runs when it is compared.
    """
    if any(not spec.law and spec.name not in result.values for spec in result.arguments) or RNG in result.bytecode:
        return

    def values() -> Values:
        from opscope.models.seeding import draw

        return {
            spec.name: result.values[spec.name]
            if spec.name in result.values
            else draw(spec.law, spec.shape, spec.dtype, seed, index)
            for index, spec in enumerate(result.arguments)
        }

    write(folder, lambda: frontend.results(built, source, values()), result.arguments, cap, seed)


def size_of(specs: Sequence[ArgSpec]) -> int:
    """Bytes of all arguments together."""
    from opscope.models.seeding import dtype_of

    return sum(spec.size * dtype_of(spec.dtype).itemsize for spec in specs)


def usual_values(inputs: str, weights: str | None) -> bool:
    """Whether a run's arguments have the values that `leave` gives them, and not some from a user's files."""
    return inputs == "captured" and not weights


def seed_of(folder: Path) -> int | None:
    """The seed of the values that the results in a folder were computed on."""
    return json.loads((folder / FILE).read_text(encoding="utf-8"))["seed"]


def note(folder: Path, seed: int, why: str, crashed: bool = False) -> None:
    """Writes why there are no results, and whether that is because the model `crashed` its framework."""
    document = {"by": "", "seed": seed, "not_run": why, "crashed": crashed, "seconds": 0.0, "dtypes": []}
    (folder / FILE).write_text(json.dumps(document) + "\n", encoding="utf-8")


def all_but(paths: Iterable[str]) -> list[str]:
    """The files of an exporter's folder without those of these results."""
    return [path for path in paths if path != FILE and not path.startswith(f"{ARRAYS}/")]


def with_nodes(framework: str) -> bool:
    """Whether the framework's models are imported as ONNX graphs, of which a node can be to blame."""
    return framework in ("onnx", "tflite")


def write(
    folder: Path, results: Callable[[], tuple[str, Sequence[Any]]], specs: Sequence[ArgSpec], cap: int, seed: int | None
) -> None:
    """Computes and writes results, or writes why there are none."""
    import numpy as np

    begun, by, dtypes, why = time.monotonic(), "", [], ""
    size = size_of(specs)
    try:
        if size > cap:
            raise NoOwnResults(
                f"arguments of {size / (1 << 30):.1f} GiB are above the cap of {cap / (1 << 30):.1f} GiB"
            )
        by, arrays = results()
        (folder / ARRAYS).mkdir(exist_ok=True)
        for index, each in enumerate(arrays):
            array = np.asarray(each)
            dtypes.append(array.dtype.name)
            array = np.ascontiguousarray(array).reshape(array.shape)
            bits = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")
            np.save(folder / ARRAYS / f"{index}.npy", bits, allow_pickle=False)
    except NoOwnResults as error:
        why = str(error)
    except Exception as error:  # noqa: BLE001 - whatever a model or its framework raises
        why = f"the framework did not run it: {type(error).__name__}: {first_line(error)}"[:300]
    document = {"by": by, "seed": seed, "not_run": why, "seconds": time.monotonic() - begun, "dtypes": dtypes}
    (folder / FILE).write_text(json.dumps(document) + "\n", encoding="utf-8")


def read(folder: Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    """What was written, and the results. Raises OSError or ValueError if that is incomplete."""
    import numpy as np

    from opscope.models.seeding import dtype_of

    document = json.loads((folder / FILE).read_text(encoding="utf-8"))
    arrays = []
    for index, name in enumerate(document["dtypes"]):
        array, dtype = np.load(folder / ARRAYS / f"{index}.npy", allow_pickle=False), dtype_of(name)
        arrays.append(array if array.dtype == dtype else array.view(dtype))
    return document, arrays
