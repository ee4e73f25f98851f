"""The result of a reader of traces, and the check of its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler_lab.data.tables import Row
    from pyscheduler_lab.traces.job import Job

__all__ = ["SHAPES", "Found", "Shape", "checked"]

Shape: TypeAlias = Literal["worker", "nodepack"]

SHAPES: tuple[Shape, ...] = ("nodepack", "worker")
"""The ways to divide a job into workers: as few as nodes allow, or as small as the trace allows."""


@attrs.frozen(kw_only=True)
class Found:
    """The jobs of a file, with notes for the user."""

    jobs: Sequence[Job]
    #: The virtual clusters of the file share one cluster, such as the namespaces of a dump.
    is_one_cluster: bool = False
    #: Numbers of jobs or pods that were left out or changed, by reason.
    notes: Mapping[str, int] = attrs.field(factory=dict)


def checked(job: Job, row: Row, *, name: str = "name") -> Job:
    """Return the job of a row; raise `ConfigError` if it cannot be replayed. `name` is the column with its name."""
    problem = next(job.problems(), None)
    if problem is None:
        return job
    field = problem.partition(" ")[0]
    raise row.mistake(name if field == "name" else field, problem)
