"""The dialects of queues and of jobs: one row for each system whose objects batch profiles read.

A row of queues says which kinds describe queues and what reads them. A row of jobs extends the row of the same name in
`podgroup.DIALECTS`: that row says how pods name their group and which kinds describe groups, and this one reads what
batch policies need beyond it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler.podgroup import DIALECTS
from pyscheduler.podgroup.sub_groups import SUB_GROUP_LABEL, TASK_SPEC
from pyscheduler_batch.formats.kai_objects import (
    PREEMPTIBILITY_LABEL,
    kai_job,
    kai_pod_preemptible,
    kai_pod_queue,
    kai_pod_sub_group,
    kai_queue,
)
from pyscheduler_batch.formats.queue_wire import KAI_QUEUES, KUBE_BATCH_QUEUES, VOLCANO_QUEUES
from pyscheduler_batch.formats.volcano_objects import (
    DEFAULT_QUEUE,
    PREEMPTABLE,
    kube_batch_job,
    kube_batch_pod_min_member,
    kube_batch_queue,
    volcano_job,
    volcano_pod_min_member,
    volcano_pod_preemptible,
    volcano_pod_queue,
    volcano_pod_role,
    volcano_queue,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyscheduler.api import KubeObject, Pod, ResourceKind
    from pyscheduler.podgroup import Dialect, GroupFields
    from pyscheduler_batch.model.job_spec import JobSpec
    from pyscheduler_batch.model.queue_spec import QueueSpec

__all__ = [
    "JOB_DIALECTS",
    "QUEUE_DIALECTS",
    "JobDialect",
    "QueueDialect",
    "job_dialect",
    "read_job",
    "read_queue",
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
    #: `podgroup.resolve`. Without a group, `queue` and `min_member` describe the group that is made for the pod.
    sub_group: Callable[[Pod], str] = _says_nothing
    role: Callable[[Pod], str] = _says_nothing
    queue: Callable[[Pod], str] = _says_nothing
    preemptible: Callable[[Pod], bool | None] = _says_none
    min_member: Callable[[Pod], int | None] = _says_none
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

QUEUE_DIALECTS: Final = (
    QueueDialect(name="kai", system="KAI", kinds=(KAI_QUEUES,), read=kai_queue),
    QueueDialect(name="volcano", system="Volcano", kinds=(VOLCANO_QUEUES,), read=volcano_queue),
    QueueDialect(name="kube-batch", system="kube-batch", kinds=KUBE_BATCH_QUEUES, read=kube_batch_queue),
)
"""The built-in dialects of queues."""

JOB_DIALECTS: Final = (
    JobDialect(
        name="kai",
        read=kai_job,
        sub_group=kai_pod_sub_group,
        queue=kai_pod_queue,
        preemptible=kai_pod_preemptible,
        marks=frozenset({SUB_GROUP_LABEL, PREEMPTIBILITY_LABEL}),
    ),
    JobDialect(
        name="volcano",
        default_queue=DEFAULT_QUEUE,
        read=volcano_job,
        role=volcano_pod_role,
        queue=volcano_pod_queue,
        preemptible=volcano_pod_preemptible,
        min_member=volcano_pod_min_member,
        marks=frozenset({TASK_SPEC, PREEMPTABLE}),
    ),
    JobDialect(
        name="kube-batch",
        default_queue=DEFAULT_QUEUE,
        read=kube_batch_job,
        min_member=kube_batch_pod_min_member,
    ),
)
"""The built-in dialects of jobs. Groups of other rows of `podgroup.DIALECTS` say nothing to batch policies."""


def read_queue(queue: KubeObject, dialects: Iterable[QueueDialect] = QUEUE_DIALECTS) -> QueueSpec | None:
    """Return what a queue object of any of these dialects says; None if its type is of none of them."""
    for dialect in dialects:
        if any(type(queue) is kind.type for kind in dialect.kinds):
            return dialect.read(queue)
    return None


def job_dialect(name: str, dialects: Iterable[JobDialect] = JOB_DIALECTS) -> JobDialect | None:
    """Return the row of a dialect of `podgroup`; None if batch policies do not know it."""
    return next((dialect for dialect in dialects if dialect.name == name), None)


def read_job(group: KubeObject, dialects: Iterable[JobDialect] = JOB_DIALECTS) -> JobSpec | None:
    """Return what the object of a group says; None if its type is of none of these dialects."""
    for dialect in dialects:
        row = dialect.groups
        if row.object_fields is not None and any(type(group) is kind.type for kind in row.kinds):
            return dialect.read(group, row.object_fields(group))
    return None
