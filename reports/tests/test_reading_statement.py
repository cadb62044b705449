"""A query only reads: the statements of ci/attacks/statements.txt, on SQLite and on PostgreSQL as its superuser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from opscope.harness.record.errors import InputError
from opscope.reports.commands.db import db
from opscope.reports.database import ask as ask_module
from opscope.reports.database.ask import ask
from opscope.reports.database.reading_statement import first_word
from opscope.reports.publish.publish import publish
from opscope.reports.tests import postgres_server
from opscope.reports.tests.sample_run import make_run

FILE = Path(__file__).parents[2] / "ci" / "attacks" / "statements.txt"
SECRET = "content-of-a-file-of-the-server"
HARMLESS = 12
"""So many of the statements may answer: they name what the other database has, or only describe."""


@pytest.mark.parametrize(
    ("query", "nested", "word"),
    [
        ("SELECT 1", True, "SELECT"),
        ("  (( select 1", True, "select"),
        ("-- x\r\n/* y */ copy", True, "copy"),
        ("/* /* */ copy */ select 1", True, "select"),
        ("/* /* */ copy */ select 1", False, "copy"),
        ("/* without end", True, ""),
        ("--", True, ""),
        (";", True, ";"),
        ('"SELECT" 1', True, '"'),
    ],
)
def test_the_first_word_is_found_as_the_database_finds_it(query: str, nested: bool, word: str) -> None:
    assert first_word(query, nested=nested) == word


def refused(url: str, folder: Path) -> list[str]:
    """Asks every statement; those that had an answer. Nothing may have appeared or have been shown."""
    (folder / "in").write_text(SECRET)
    answered, errors = [], []
    folder.chmod(0o777)
    for line in FILE.read_text().splitlines():
        if line.startswith("#"):
            continue
        statement = line.encode().decode("unicode_escape")
        text = statement.replace("{out}", str(folder / "out")).replace("{in}", str(folder / "in"))
        try:
            answer = ask(url, text)
        except InputError as error:
            errors.append(str(error))
        else:
            answered.append(statement)
            assert SECRET not in str(answer.rows), text
        assert not (folder / "out").exists(), text
    assert not [error for error in errors if "\n" in error or SECRET in error]
    return answered


@pytest.mark.slow
def test_nothing_reaches_out_of_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "db.sqlite"
    publish(make_run(tmp_path / "run"), f"sqlite:///{path}")
    before = path.read_bytes()
    answered = refused(f"sqlite:///{path}", tmp_path)
    assert len(answered) <= HARMLESS, answered
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == {"db.sqlite", "run", "in"}


# quick: one question in five, and test_ask.py has each question's answer by the one way
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_file_of_sqlite_answers_without_sqlalchemy_what_it_answers_with_it(tmp_path: Path, step: int) -> None:
    url = f"sqlite:///{tmp_path / 'db.sqlite'}"
    publish(make_run(tmp_path / "run"), url)
    for question in sorted(ask_module.questions())[::step]:
        assert ask(url, question) == ask(f"{url}?timeout=30", question), question
    answers_without_sqlalchemy(url)


@pytest.mark.slow
def test_a_server_answers_without_sqlalchemy_what_it_answers_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres_server.shared().database()
    publish(make_run(tmp_path / "run"), url)
    queries = (*ask_module.questions(), "SELECT run_id, started FROM runs WHERE run_id = ''", "EXPLAIN SELECT 1")
    direct = [ask(url, query) for query in queries]
    answers_without_sqlalchemy(url)
    monkeypatch.setattr("opscope.reports.database.postgres_session.is_plain", lambda _: False)
    assert direct == [ask(url, query) for query in queries]


def answers_without_sqlalchemy(url: str) -> None:
    code = f"""import sys
from opscope.reports.commands.demo_mark import say_if_demo
from opscope.reports.database.ask import ask
assert ask({url!r}, "SELECT COUNT(*) FROM runs").rows == ((1,),)
say_if_demo({url!r})
print(sorted({{"sqlalchemy", "pydantic"}} & set(sys.modules)))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_nothing_reaches_out_of_postgresql_for_its_superuser(tmp_path: Path) -> None:
    url = postgres_server.shared().database()
    publish(make_run(tmp_path / "run"), url)
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        assert connection.scalar(sa.text("SELECT rolsuper FROM pg_roles WHERE rolname = current_user"))
    count = "SELECT COUNT(*), MIN(host), (SELECT COUNT(*) FROM pg_class), (SELECT COUNT(*) FROM pg_proc) FROM runs"
    before = ask(url, count).rows
    answered = refused(url, tmp_path)
    assert len(answered) <= HARMLESS, answered
    assert ask(url, count).rows == before
    assert ask(url, "SELECT current_user, session_user").rows == (("pg_read_all_data", "postgres"),)


@pytest.mark.slow
def test_a_password_is_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    server = postgres_server.shared()
    url = server.database()
    password = "50% %% %s %(x)s o'clock \\ \"@:/?#[]& ü"
    monkeypatch.setenv("READER", password)
    done = CliRunner().invoke(db, ["role", "picky", "--password-env", "READER", "--db", url])
    assert done.exit_code == 0, done.output
    rules = server.folder / "data" / "pg_hba.conf"
    rules.write_text(f"host all picky 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
    server.run("pg_ctl", "-D", str(server.folder / "data"), "reload")
    reader = sa.make_url(url).set(username="picky", password=password).render_as_string(hide_password=False)
    assert ask(reader, "SELECT current_user").rows == (("picky",),)
    wrong = sa.make_url(url).set(username="picky", password=f"{password}%").render_as_string(hide_password=False)
    with pytest.raises(InputError, match="authentication failed"):
        ask(wrong, "SELECT 1")
