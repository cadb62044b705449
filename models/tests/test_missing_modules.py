"""Users' files that import what is not there: one line that names all of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opscope.base.installing import install_command
from opscope.base.plugins import version
from opscope.models import frontends
from opscope.models.frontends.base import Refused, Source
from opscope.models.frontends.jax import package_versions
from opscope.models.frontends.python import FRONTEND
from opscope.models.frontends.tf import TENSORFLOW
from opscope.models.frontends.through_python.missing_modules import command, not_installed

HELPERS = """
import json, no_such_yaml
from .deep import layers
try:
    import optional_one
except ImportError:
    optional_one = None
def later():
    import only_when_called
"""


def build(folder: Path, text: str) -> None:
    (folder / "net.py").write_text(text)
    FRONTEND.build(Source("net", str(folder / "net.py"), "float32"))


@pytest.mark.parametrize(
    ("text", "got"),
    [
        (
            "import numpy.no_such",
            rf"got numpy {version('numpy')} has no module `no_such` \(net.py:1\); try the release of numpy",
        ),
        ("import os\nfrom numpy.fft.gone import fft", r"has no module `fft.gone` \(net.py:2\)"),
        ("import packages.sub.gone", r"got packages has no module `sub` "),
    ],
)
def test_a_part_that_an_installed_package_lacks(tmp_path: Path, text: str, got: str) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "__init__.py").write_text("")
    with pytest.raises(Refused, match=got):
        build(tmp_path, text)


def test_all_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "mine" / "deep").mkdir(parents=True)
    (tmp_path / "mine" / "__init__.py").write_text(HELPERS)
    (tmp_path / "mine" / "deep" / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import types_only\n"
    )
    (tmp_path / "mine" / "deep" / "layers.py").write_text(
        "from no_such_layers.dense import Dense\nfrom .. import mine\n"
    )
    text = "import numpy\nimport no_such_cv\nfrom mine import later\n"
    with pytest.raises(
        Refused, match=r"got no modules 'no_such_cv', 'no_such_layers', 'no_such_yaml' \(net.py:2\)"
    ) as raised:
        build(tmp_path, text)
    assert raised.value.hint == "pip install no_such_cv no_such_layers no_such_yaml"
    assert not_installed(tmp_path / "mine" / "deep" / "layers.py") == {"no_such_layers"}


def test_packages_that_make_their_own_path_are_read_as_far_as_they_ran(tmp_path: Path) -> None:
    inner = tmp_path / "hub" / "api"
    inner.mkdir(parents=True)
    (tmp_path / "hub" / "__init__.py").write_text(
        "import os\n__path__.append(os.path.join(os.path.dirname(__file__), 'api'))"
    )
    (inner / "models.py").write_text("import no_such_regex\nimport no_such_tokens")
    with pytest.raises(Refused, match=r"got no modules 'no_such_regex', 'no_such_tokens' \(models.py:1\)"):
        build(tmp_path, "from hub.models import Net")


def test_a_module_is_installed_by_its_packages_name() -> None:
    assert command(["cv2", "e3nn_jax", "sklearn", "yaml", "optax"]) == (
        "pip install opencv-python-headless e3nn-jax scikit-learn PyYAML optax"
    )
    assert command(["equinox", "flax", "keras", "yaml"]) == f"{install_command('flax,keras')} PyYAML"


@pytest.mark.parametrize("release", ["tensorflow", "tensorflow-cpu"])
@pytest.mark.parametrize("framework", ["tf", "graphdef", "tflite"])
def test_either_distribution_of_tensorflow_will_do(
    framework: str, release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = next(name for name in TENSORFLOW if name != release)
    assert other not in frontends.absent(framework, installed=lambda name: "" if name == other else "2.21.0")
    assert TENSORFLOW[0] in frontends.absent(framework, installed=lambda name: "" if name in TENSORFLOW else "1.0")
    (tmp_path / f"{release.replace('-', '_')}-9.9.dist-info").mkdir()
    (tmp_path / f"{release.replace('-', '_')}-9.9.dist-info/METADATA").write_text(f"Name: {release}\nVersion: 9.9\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert package_versions((), TENSORFLOW) == f"{release} 9.9"
