"""Where a run came from, and that no password gets into it."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

from opscope.base.tests.each import each
from opscope.harness.record import origin as module
from opscope.harness.record.masking import mask_secrets, masked
from opscope.harness.record.origin import origin


@each(
    ("text", "masked"),
    [
        ("postgresql://me:s3cr:t@host/db", "postgresql://me:***@host/db"),
        ("postgresql+psycopg://me:p%40ss@host:5432/db?x=1", "postgresql+psycopg://me:***@host:5432/db?x=1"),
        ("--to=mysql://u:p@h/d and more", "--to=mysql://u:***@h/d and more"),
        ("sqlite:////tmp/x.sqlite", "sqlite:////tmp/x.sqlite"),
        ("https://host/p?token=abc&x=1", "https://host/p?token=***&x=1"),
        ("postgresql://host/db?user=a&password=geheim", "postgresql://host/db?user=a&password=***"),
        ("postgresql://host/db?sslpassword=geheim&sslkey=k.pem", "postgresql://host/db?sslpassword=***&sslkey=k.pem"),
        ("postgresql://host/db?ssl%70assword=geheim", "postgresql://host/db?ssl%70assword=***"),
        ("https://host/p?x=1&Access_Token=abc#end", "https://host/p?x=1&Access_Token=***#end"),
        ("postgresql://:only@host/db", "postgresql://:***@host/db"),
        ("postgresql://u:p@ss@host/db", "postgresql://u:***@host/db"),
        ("postgresql://u:p/s@host/db", "postgresql://u:***@host/db"),
        (
            "--publish=postgresql+psycopg://u:p/a@s/s@host/db?x=a@b",
            "--publish=postgresql+psycopg://u:***@host/db?x=a@b",
        ),
        ("https://host:443/a@b", "https://host:443/a@b"),
    ],
)
def test_passwords_are_masked(text, masked):
    assert mask_secrets(text) == masked


def test_an_origin_says_where_and_what():
    made = origin(["pytest", "--publish", "postgresql://me:geheim@h/d"], {"publish": "x://a:geheim@h", "seed": 3})
    assert "geheim" not in made.model_dump_json()
    assert made.options == {"publish": "x://a:***@h", "seed": 3}
    assert made.versions["jax"] == metadata.version("jax")
    assert made.python == sys.version.split()[0]
    assert made.host
    assert made.cpu


def test_options_are_stored_as_json_has_them():
    value = {1: [True, 2, 0.5, None], "path": Path("a/b"), "urls": ("x://a:b@c",)}
    assert masked(value) == {"1": [True, 2, 0.5, None], "path": "a/b", "urls": ["x://a:***@c"]}
    assert masked({"x"}) == ["x"]


def test_a_processor_is_named_by_the_system_or_else_by_python(tmp_path, monkeypatch):
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(module, "Path", lambda name: file)
    monkeypatch.setattr("platform.machine", lambda: "x86")
    for text, processor, name in (
        ("flags: a b\nmodel name\t: A CPU: 3 GHz\n", "p", "A CPU: 3 GHz"),
        ("flags: a\n", "p", "p"),
        (None, "", "x86"),
    ):
        file.unlink(missing_ok=True) if text is None else file.write_text(text)
        monkeypatch.setattr("platform.processor", lambda processor=processor: processor)
        assert module.cpu_name.__wrapped__() == name
    assert module.versions(["pytest", "no-such-package"]) == {"pytest": metadata.version("pytest")}
