"""What a reader of traces returns: jobs, and notes about what it left out."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyscheduler_lab.data.tables import Row, Table
    from pyscheduler_lab.traces.job import Job

__all__ = ["SHAPES", "Found", "Shape", "checked", "passed_on"]

Shape: TypeAlias = Literal["worker", "nodepack"]

SHAPES: tuple[Shape, ...] = ("nodepack", "worker")
"""The ways to divide a job into workers: as few as nodes allow, or as small as the trace allows."""


@attrs.frozen(kw_only=True)
class Found:
    """The jobs of a file, with notes for the user."""

    jobs: Sequence[Job]
    #: The virtual clusters of the file share one cluster, such as the namespaces of a dump.
    is_one_cluster: bool = False
    #: Numbers of jobs or pods that were left out or changed, by reason; and names of columns that are not read.
    notes: Mapping[str, int | str] = attrs.field(factory=dict)


def passed_on(table: Table, known: Collection[str]) -> dict[str, str]:
    """Return the note about the columns of a table that its reader does not know; empty if it knows all of them.

    The note asks about a name that is close to a known one, because a misspelt column changes the jobs.
    """

    def shown(name: str) -> str:
        near = get_close_matches(name.lower(), sorted(known), n=1, cutoff=0.75)
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
