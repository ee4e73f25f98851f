"""A dialect: the API kinds of queues or jobs in one system, such as KAI, and a function that reads such objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler import lazy_names
from pyscheduler.podgroup import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.api import Pod, ResourceKind
    from pyscheduler.podgroup import Dialect, GroupFields
    from pyscheduler_batch.model.job_spec import JobSpec
    from pyscheduler_batch.model.queue_spec import QueueSpec

__all__ = [
    "JOB_DIALECTS",
    "QUEUE_DIALECTS",
    "JobDialect",
    "QueueDialect",
]


@attrs.frozen(kw_only=True)
class QueueDialect:
    """One row of queues."""

    name: str
    #: The system that writes such queues, in words.
    system: str
    #: The kinds that describe a queue, one for each group and version, each with a type of its own.
    kinds: tuple[ResourceKind, ...]
    #: Returns what an object of any of `kinds` says; it never raises. Of an object that makes no sense, it returns a
    #: `QueueSpec` with an `error`.
    read: Callable[[Any], QueueSpec]


def _says_nothing(pod: Pod) -> str:  # noqa: ARG001 - the signature of a reader
    return ""


def _says_none(pod: Pod) -> None:  # noqa: ARG001 - the signature of a reader
    return None


@attrs.frozen(kw_only=True)
class JobDialect:
    """One row of jobs; `name` is that of the row in `podgroup.DIALECTS`."""

    name: str
    #: The queue of a job that names none; "" if a queue must be named.
    default_queue: str = ""
    #: Returns what a group's object says; the second argument is what `podgroup` reads of it. It never raises.
    read: Callable[[Any, GroupFields], JobSpec]
    #: What a pod says by its labels and annotations; "" or None if it does not say. The pod's group is read by
    #: `podgroup.resolve`; `queue` counts for a pod without a group.
    sub_group: Callable[[Pod], str] = _says_nothing
    role: Callable[[Pod], str] = _says_nothing
    queue: Callable[[Pod], str] = _says_nothing
    preemptible: Callable[[Pod], bool | None] = _says_none
    #: The labels and annotations that `sub_group`, `role` and `preemptible` read.
    marks: frozenset[str] = frozenset()

    def sub_group_of(self, job: JobSpec, pod: Pod) -> str:
        """Return the name of a pod's sub-group, or "": policies of the job name it, or the pod."""
        return self.sub_group(pod) if job.policies is None else job.policies.leaf(pod)

    @property
    def groups(self) -> Dialect:
        """Return the row of `podgroup` with the keys and kinds of this dialect."""
        return _GROUP_ROWS[self.name]


_GROUP_ROWS: Final = {row.name: row for row in DIALECTS}

if TYPE_CHECKING:
    JOB_DIALECTS: tuple[JobDialect, ...]
    QUEUE_DIALECTS: tuple[QueueDialect, ...]
else:  # type checkers would accept every name
    # Those of all installed systems, which have rows of this module.
    __getattr__ = lazy_names(__name__, dict.fromkeys(("JOB_DIALECTS", "QUEUE_DIALECTS"), "pyscheduler_batch.systems"))
