"""Save the results of `make bench` beside earlier results, and read them again."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from benchmarks.targets import derive

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CARRIED", "OLDEST", "age", "made", "mark_stale", "read", "rows", "save", "save_failure"]

_HERE: Final = Path(__file__).parent
#: What docs/performance.md is made of.
CARRIED: Final = _HERE / "measured.json"
#: A row that was measured more commits ago is marked as old: the code may have become faster or slower since.
OLDEST: Final = 300

Rows = dict[str, dict[str, Any]]


def made(found: Mapping[str, Mapping[str, Any]], *, short: bool, command: str) -> dict[str, Any]:
    """Return the results of a run with what they depend on."""
    return {"short": short, "command": command, **_machine(), "rows": found}


def save(path: Path, found: Mapping[str, Mapping[str, Any]], *, command: str) -> None:
    """Put rows into a file; others that are there stay. Each says by which command it was measured, of which code."""
    document = read(path) if path.exists() else {"rows": {}}
    origin = {"command": command, "commit": _commit()}
    document["rows"].update({name: {**figures, **origin} for name, figures in found.items()})
    derive(document["rows"])
    document.update(_machine())
    _write(path, document)


def save_failure(path: Path, name: str, *, command: str) -> None:
    """Replace the figures of a row that could not be measured: the old ones describe code that is gone."""
    save(path, {name: {"failed": True}}, command=command)


def mark_stale(path: Path) -> dict[str, Any]:
    """Mark the rows that were measured more than `OLDEST` commits ago, or at an unknown commit; return the document.

    Raises `ClickException` if a row could not be measured the last time.
    """
    document = read(path)
    if failed := [f"{name} ({row['commit']})" for name, row in document["rows"].items() if row.get("failed")]:
        raise click.ClickException(
            f"{path}: could not be measured: {', '.join(failed)}; correct and measure them first"
        )
    ages = {commit: age(commit) for commit in {row.get("commit", "") for row in document["rows"].values()}}
    for row in document["rows"].values():
        commits = ages[row.get("commit", "")]
        row.pop("stale", None)
        if commits is None or commits > OLDEST:
            row["stale"] = True
    _write(path, document)
    return document


def _write(path: Path, document: Mapping[str, Any]) -> None:
    # In one stroke: a run that is broken off leaves what it had.
    whole = path.with_suffix(".part")
    whole.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    whole.replace(path)


def read(path: Path) -> dict[str, Any]:
    """Read what `-o json` or `--save` wrote; a `ClickException` where it is something else."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document["rows"], dict):
            raise TypeError
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.ClickException(f"{path} holds no earlier result of -o json or --save: {error}") from error
    return dict(document)


def rows(path: Path | None) -> Rows:
    """Return the figures of an earlier run by row; none where there is no file to compare with."""
    return dict(read(path)["rows"]) if path is not None else {}


def _machine() -> dict[str, Any]:
    return {"python": platform.python_version(), "machine": _processor(), "cpus": len(os.sched_getaffinity(0))}


def _processor() -> str:
    """Return what the processor calls itself."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    """Return the commit that is measured, "" outside a checkout; `+` where it is not all."""
    return _git("describe", "--always", "--dirty=+", "--exclude=*")


def age(commit: str) -> int | None:
    """Return how many commits came after the one of a row; None if the history does not have it."""
    after = _git("rev-list", "--count", f"{commit.removesuffix('+')}..HEAD") if commit else ""
    return int(after) if after else None


def _git(*arguments: str) -> str:
    """Return what git prints about this checkout, "" if it fails."""
    command = ["git", "-C", str(_HERE), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()
