"""Read queues, groups, pods and nodes once, from an API server or from files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from kube_objects.kinds import ENDED_PODS, NODES, PODS
from pyscheduler.api import EndedPod, Node, Pod, PriorityClass, kind_of
from pyscheduler.podgroup import GroupDirectory, kinds_of
from pyscheduler.podgroup.dialects import resolve
from pyscheduler_batch.dialects import JOB_DIALECTS, QUEUE_DIALECTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from pyscheduler.api import KubeObject, ResourceKind
    from pyscheduler_batch.dialects import QueueDialect
    from pyscheduler_batch.model.queue_spec import QueueSpec

    Read: TypeAlias = Callable[[ResourceKind], Awaitable[Iterable[KubeObject]]]

__all__ = ["CLASSES", "Inventory", "read_inventory"]


CLASSES: Final = kind_of(PriorityClass, "priorityclasses", namespaced=False)
"""The kind of priority classes."""


@attrs.frozen(kw_only=True, eq=False)
class Inventory:
    """The objects of a cluster that matter for queues."""

    #: The dialects of queues: the built-in ones, and those of other distributions.
    queue_rows: Sequence[QueueDialect]
    #: By dialect, in the order of `queue_rows`; a dialect without a queue has an empty list.
    queues: Mapping[str, Sequence[QueueSpec]]
    #: The groups of the dialects that batch policies know.
    directory: GroupDirectory
    #: Pods that name no such group.
    single_pods: Sequence[Pod]
    nodes: Sequence[Node]
    #: By name; None if they may not be listed.
    classes: Mapping[str, KubeObject] | None
    #: Plurals of the kinds that may not be listed.
    unread: Sequence[str] = ()


async def read_inventory(
    read: Read, *, queue_rows: Sequence[QueueDialect] = QUEUE_DIALECTS, unread: Sequence[str] = ()
) -> Inventory:
    """Return the objects; `unread` is the list to which `read` adds what may not be listed.

    Raises `ContractError` if the `read` of another distribution's row raises.
    """
    queues = {
        # Nobody checks which dialect the reader of another distribution writes.
        row.name: [attrs.evolve(row.read(item), dialect=row.name) for kind in row.kinds for item in await read(kind)]
        for row in queue_rows
    }
    rows = [row.groups for row in JOB_DIALECTS]
    directory = GroupDirectory(rows)
    for kind in kinds_of(rows):
        for item in await read(kind):
            directory.object_added(item)
    pods = [item for item in await read(PODS) if isinstance(item, Pod)]
    pods += [item.as_pod() for item in await read(ENDED_PODS) if isinstance(item, EndedPod)]
    singles: list[Pod] = []
    for pod in pods:
        if resolve(pod, rows) is None:
            singles.append(pod)
        else:
            directory.pod_added(pod)
    classes = {item.name: item for item in await read(CLASSES)}
    is_known = CLASSES.resource not in unread
    return Inventory(
        queue_rows=queue_rows,
        queues=queues,
        directory=directory,
        single_pods=singles,
        nodes=[item for item in await read(NODES) if isinstance(item, Node)],
        classes=classes if is_known else None,
        unread=unread,
    )
