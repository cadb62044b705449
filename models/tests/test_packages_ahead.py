"""Which exporters are forks of a process that has their framework, and what that process imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.models import frontends
from opscope.models.frontends import packages_ahead

CALL = "opscope.models.frontends.packages_ahead:import_packages"
TRACE = "opscope.models.frontends.torch_ahead"


def test_jax_is_ahead_for_all_and_pytorch_in_a_process_of_its_own_from_the_second_model_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packages_ahead, "_begun", set())
    plain, large = tmp_path / "plain.py", tmp_path / "large.py"
    plain.write_text("import torch\n")
    large.write_text("def build():\n    import transformers\n    from torch_geometric.nn import GCN\n")

    def options(framework: str, model: Path = plain) -> dict[str, object]:
        return dict(packages_ahead.fork_options(frontends.get(framework), model))

    assert options("jax") == options("jax") == {"ahead": (CALL, "jax")}
    assert options("keras") == options("keras") == {}, "its import starts threads"
    assert options("torch") == {}, "a process for one model would only hold memory"
    assert options("torch") == {"ahead": (CALL, TRACE), "server": "torch"}
    with_library = (CALL, TRACE, "transformers.activations", "transformers.modeling_utils")
    assert options("torch", large) == {"ahead": with_library, "server": "torch"}
