"""`pyscheduler new plugin`: write the package of a plugin, with tests that pass."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]


@click.group("new")
def command() -> None:
    """Write the files of a new plugin.

    `pyscheduler new plugin NAME` writes a package with a plugin, its tests and all that an installed plugin needs.
    """


@command.command("plugin")
@click.argument("name")
@click.option(
    "--points",
    default="filter,score",
    show_default=True,
    metavar="POINT,...",
    help="Extension points: preEnqueue, queueSort, preFilter, filter, postFilter, preScore, score, reserve, permit, "
    "preBind, bind, postBind.",
)
@click.option("--dir", "folder", metavar="DIR", help="The folder to make. [default: the name of the distribution]")
def plugin(name: str, points: str, folder: str | None) -> None:
    """Write a package with a plugin, args, entry point, profile, tests, README and CI workflow.

    NAME is the name of the plugin in profiles, in CamelCase. The tests pass as they are, and the types are checked with
    mypy --strict.

    \b
    Example:
      pyscheduler new plugin NodeFreeze --points filter,permit
      cd node-freeze && pip install -e . pytest mypy && pytest && mypy
    """
    from pyscheduler.cli.new.files import NewPlugin
    from pyscheduler.framework.errors import ConfigError, os_error_text

    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name) or keyword.iskeyword(name):
        raise ConfigError(f'NAME {name!r} is no class name in CamelCase; write it like "NodeFreeze"')
    _check_is_free(name)
    made = NewPlugin(name=name, points=_points(points))
    if made.package in {"pyscheduler", "tests"} or keyword.iskeyword(made.package):
        raise ConfigError(f"NAME {name!r} would make the package {made.package!r}, which exists; choose another name")
    target = Path(folder or made.distribution)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"--dir: {target} exists and is not an empty folder; choose another folder")
    files = made.files()
    try:
        for path, text in files.items():
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--dir: {target}: {os_error_text(error)}") from error
    click.echo(f"{target}: plugin {name} at {', '.join(made.points)}")
    click.echo(f"next: cd {target} && pip install -e . pytest mypy && pytest && mypy")


def _check_is_free(name: str) -> None:
    """Raise `ConfigError` if an installed distribution offers a plugin of this name."""
    from pyscheduler.framework.errors import ConfigError
    from pyscheduler.runtime.assembly.discovery import discover

    owner = discover().owner(name)
    if owner:
        text = f"is the name of a plugin of {owner}, and two plugins cannot have one name; choose another name"
        raise ConfigError(f'NAME {name!r} {text}, such as "My{name}"')


def _points(text: str) -> Sequence[str]:
    """Return the points in the order of a scheduling cycle; raise `ConfigError` for an unknown one, or none."""
    from pyscheduler.cli.new.files import POINTS
    from pyscheduler.framework.errors import ConfigError

    known = {point.lower(): point for point in POINTS}
    given = [word.strip() for word in text.split(",") if word.strip()]
    wanted = {word: known.get(re.sub(r"[-_]", "", word).lower()) for word in given}
    unknown = [word for word, point in wanted.items() if point is None]
    if unknown or not wanted:
        what = f"unknown extension points: {', '.join(unknown)}" if unknown else "no extension point is given"
        raise ConfigError(f"--points: {what}; choose from {', '.join(POINTS)}")
    return [point for point in POINTS if point in wanted.values()]
