"""`opscope db`: the upkeep of a results database."""

from __future__ import annotations

from pathlib import Path

import click

from opscope.reports.commands.compare import JSON

DB = click.option(
    "--db", "url", default=None, metavar="URL", help="Results database; default: .opscope/opscope.sqlite."
)


@click.group(short_help="Upgrade, prune and measure a results database.")
def db() -> None:
    """Upgrade, prune and measure a results database, and set who may read it."""


@db.command()
@DB
def upgrade(url: str | None) -> None:
    """Create the tables and views of a database, or bring them up to date."""
    from opscope.reports.database.database import parse_url, schema_version, shown
    from opscope.reports.database.files import default_url, head
    from opscope.reports.publish.counting import open_counted

    target = url or default_url()
    with open_counted(target, "--db") as connection:
        version = schema_version(connection)
    click.echo(f"{shown(parse_url(target))}: schema {version}, views of this opscope ({head()})")


@db.command()
@click.option("--keep", required=True, metavar="AGE", help="Keep nights younger than this, such as 180d or 12w.")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@DB
def prune(keep: str, dry_run: bool, url: str | None) -> None:
    """Remove nights and single runs that are older than --keep AGE, with everything that only they use.

    Then the database is rewritten without gaps, so that the disk gets its space back; for SQLite twice the size of what
    is left has to be free meanwhile. Exit code 1 if the nights are removed and the disk did not get its space back.
    """
    from opscope.base.visible_text import counted_each
    from opscope.reports.database.database import DatabaseAwayError
    from opscope.reports.database.files import default_url
    from opscope.reports.database.reclaim import reclaim
    from opscope.reports.publish.upkeep import age_of, size_of
    from opscope.reports.publish.upkeep import prune as remove

    target, age = url or default_url(), age_of("--keep", keep)
    removed = remove(target, age, dry_run)
    verb = "would be removed" if dry_run else "removed"
    click.echo(f"{verb}: {counted_each(removed)}")
    if dry_run:
        return
    before = size_of(target)
    try:
        reclaim(target, removed=removed["nights"] > 0)
    except DatabaseAwayError as error:
        click.echo(str(error), err=True)
        raise SystemExit(error.exit_code) from error
    after = size_of(target)
    if after < before:
        click.echo(f"disk: {before / 1e6:,.1f} MB before, {after / 1e6:,.1f} MB now")


@db.command()
@DB
@JSON
def stats(url: str | None, as_json: bool) -> None:
    """Print the rows of each table, the size of the database, and the time it covers."""
    from opscope.base.page import Page
    from opscope.base.visible_text import counted
    from opscope.reports.database.reading import database_url
    from opscope.reports.publish.upkeep import statistics

    figures = statistics(database_url(url))
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.db_stats import Statistics

        print_answer(Statistics(schema_=figures.pop("schema"), **figures))
        return
    page = Page()
    page.line(f"{figures['database']}, schema {figures['schema']}, {figures['bytes'] / 1e6:,.1f} MB", "bold")
    nights = f"{counted(figures['nights'], 'night')} and {counted(figures['runs_alone'], 'single run')}"
    page.line(f"{nights}, {figures['first']} to {figures['last']} UTC")
    page.table([("table", ""), ("rows", "right")], [(name, f"{count:,}") for name, count in figures["rows"].items()])


@db.command()
@click.argument("name")
@click.option("--password-env", metavar="VARIABLE", help="Environment variable that holds the role's password.")
@DB
def role(name: str, password_env: str | None, url: str | None) -> None:
    """Create the PostgreSQL role NAME, which may only read the results; run it again to renew its rights."""
    from opscope.reports.database.files import default_url
    from opscope.reports.database.reading_role import read_only_role

    click.echo(read_only_role(url or default_url(), name, password_env))


@db.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@DB
@JSON
def owners(file: Path | None, url: str | None, as_json: bool) -> None:
    """Store the rules of owners (default: ci/owners.yaml) in the database, so that dashboards show owners."""
    from opscope.reports.database.files import default_url
    from opscope.reports.database.owners import OWNERS_FILE, read_owners, store_owners
    from opscope.reports.publish.counting import open_counted
    from opscope.reports.publish.sentences import renew_newest

    rules = read_owners(file or OWNERS_FILE)
    with open_counted(url or default_url(), "--db") as connection:
        store_owners(connection, rules)
        renew_newest(connection)
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.db_owners import Stored

        print_answer(Stored(rules=len(rules)))
    else:
        from opscope.base.visible_text import counted

        click.echo(f"{counted(len(rules), 'rule')}, {counted(len({rule.team for rule in rules}), 'team')}")


@db.command()
@click.argument("old_id")
@click.argument("new_id")
@click.option("--reason", default="", help="Reason for the new id.")
@DB
def alias(old_id: str, new_id: str, reason: str, url: str | None) -> None:
    """Continue the history of op OLD_ID under NEW_ID."""
    from opscope.base.visible_text import counted
    from opscope.reports.database.files import default_url
    from opscope.reports.publish.upkeep import add_alias

    nights = add_alias(url or default_url(), old_id, new_id, reason)
    click.echo(
        f"{old_id} continues as {new_id}; {counted(nights, 'night')} {'was' if nights == 1 else 'were'} counted again"
    )


@db.command()
@click.argument("file", type=click.Path(path_type=Path))
@DB
def dump(file: Path, url: str | None) -> None:
    """Write a whole database to FILE as SQL, which another server of its kind reads.

    A PostgreSQL database is written by its own pg_dump.
    """
    from opscope.reports.database.dump import dump as write
    from opscope.reports.database.files import default_url

    click.echo(f"{file}: {write(url or default_url(), file):,} bytes of SQL")
