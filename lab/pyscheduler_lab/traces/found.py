"""The result of reading a trace: its jobs, and notes about what the reader left out or changed."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyscheduler_lab.data.tables import Row, Table
    from pyscheduler_lab.traces.job import Job

__all__ = ["SHAPES", "Found", "Shape", "checked", "found_in_table", "passed_on"]

#: The most lines of a file whose mistakes an error names.
_MOST_MISTAKES: Final = 10

Shape: TypeAlias = Literal["worker", "nodepack"]

SHAPES: tuple[Shape, ...] = ("nodepack", "worker")
"""The ways to divide a job into workers: as few as nodes allow, or as small as the trace allows."""


@attrs.frozen(kw_only=True)
class Found:
    """The jobs of a file, with notes for the user."""

    jobs: Sequence[Job]
    #: The place of each job in the file, as in `line 7`; empty if jobs have no place.
    places: Sequence[str] = ()
    #: The virtual clusters of the file share one cluster, such as the namespaces of a dump.
    is_one_cluster: bool = False
    #: Numbers of jobs or pods that were left out or changed, by reason; and names of columns that are not read.
    notes: Mapping[str, int | str] = attrs.field(factory=dict)


def found_in_table(table: Table, read: Callable[[Row, int], Job], *, known: Collection[str]) -> Found:
    """Return the jobs of a table; `read` returns the job of a row, given the number of rows before it.

    `known` are the columns that are read. Raises `ConfigError` with the first mistake of each row, for ten rows.
    """
    jobs: list[Job] = []
    places: list[str] = []
    problems: list[str] = []
    try:
        for number, row in enumerate(table.rows):
            try:
                jobs.append(read(row, number))
            except ConfigError as error:
                problems += error.problems
                if len(problems) >= _MOST_MISTAKES:
                    problems.append(f"nothing after {row.place} was read")
                    break
            else:
                places.append(row.place)
    except ConfigError as error:  # where the next row begins is not known
        problems += error.problems
    if problems:
        raise ConfigError(*problems, source=table.source)
    return Found(jobs=jobs, places=places, notes=passed_on(table, known))


def passed_on(table: Table, known: Collection[str]) -> dict[str, str]:
    """Return the note about the columns of a table that its reader does not know; empty if it knows all of them.

    The note asks about a name that is close to a known one that is missing, because a misspelt column changes the jobs.
    """
    absent = sorted(name for name in known if name not in table.columns)

    def shown(name: str) -> str:
        near = get_close_matches(name.lower(), absent, n=1, cutoff=0.75)
        return f"{name} (did you mean {near[0]}?)" if near else name

    names = [shown(name) for name in table.columns if name not in known]
    return {"columns passed on": ", ".join(names)} if names else {}


def checked(job: Job, row: Row, *, name: str = "name") -> Job:
    """Return the job of a row; raise `ConfigError` if it cannot be replayed. `name` is the column with its name."""
    problem = next(job.problems(), None)
    if problem is None:
        return job
    field = problem.partition(" ")[0]
    raise row.mistake(name if field == "name" else field, problem)
