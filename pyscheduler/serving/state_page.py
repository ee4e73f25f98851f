"""The page `/debug/state`: the sizes of the queues, the pods that wait, and the nodes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

import msgspec

from kube_objects.times import format_micro_time
from pyscheduler.stories.view import StorySummary, story_summary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.resource import Resource
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler.stories.book import StoryBook

__all__ = ["MOST_ITEMS", "NodeRow", "State", "state_page"]

#: The number of items of each list, unless the request limits it further.
MOST_ITEMS: Final = 200
_AMOUNTS: Final = ("cpu", "memory", "ephemeral-storage")


class NodeRow(msgspec.Struct, rename="camel", kw_only=True):
    """A node. Amounts are integers: thousandths of CPUs, bytes, and numbers of all else."""

    node: str
    unschedulable: bool
    #: The number of pods, those included whose binding is under way.
    pods: int
    #: The number of pods that are nominated to the node.
    nominated: int
    allocatable: dict[str, int]
    requested: dict[str, int]


class State(msgspec.Struct, rename="camel", kw_only=True):
    """The answer of `GET /debug/state`."""

    is_leader: bool
    time: str
    #: The number of pods by sub-queue, and of those that are being scheduled (`inFlight`) and bound (`binding`).
    queue: dict[str, int]
    #: The number of pods with a story that wait, and of nodes.
    pod_count: int
    node_count: int
    pods: list[StorySummary]
    nodes: list[NodeRow]
    #: The parameter `continue` of the request for the next page; "" on the last page.
    continue_: str = msgspec.field(name="continue")


class _Position(msgspec.Struct, array_like=True):
    """The last items of a page; None for a list that has ended."""

    pod: tuple[float, str] | None
    node: str | None


_START: Final = _Position((0.0, ""), "")


def state_page(
    scheduler: Scheduler, book: StoryBook, *, is_leader: bool, limit: int = MOST_ITEMS, after: str = ""
) -> State:
    """Return the page behind the token `after`; raise `ValueError` for a token that is none."""
    position = _decoded(after) if after else _START
    pods = book.pending_after(*position.pod, limit + 1) if position.pod is not None else []
    # Not from the snapshot, which is as old as the last scheduling cycle.
    infos = scheduler.cache.nodes_after(position.node, limit + 1) if position.node is not None else []
    ends = _Position(None, None)
    if len(pods) > limit:
        pods.pop()
        ends.pod = (pods[-1].first_seen, pods[-1].uid)
    if len(infos) > limit:
        infos.pop()
        ends.node = infos[-1].name
    flying, binding = len(scheduler.queue.in_flight), scheduler.binding_count
    return State(
        is_leader=is_leader,
        time=format_micro_time(scheduler.clock.wall()),
        queue={**scheduler.queue.sub_queues.counts(), "inFlight": flying, "binding": binding},
        pod_count=len(book.pending),
        node_count=scheduler.cache.node_count,
        pods=[story_summary(story) for story in pods],
        nodes=[_row(scheduler, info) for info in infos],
        continue_="" if ends == _Position(None, None) else base64.urlsafe_b64encode(msgspec.json.encode(ends)).decode(),
    )


def _row(scheduler: Scheduler, info: NodeInfo) -> NodeRow:
    assert info.node is not None, "deleted nodes have no name in the cache"
    names = {**dict.fromkeys(_AMOUNTS), **info.allocatable.scalars, **info.requested.scalars}
    return NodeRow(
        node=info.node.name,
        unschedulable=info.node.spec.unschedulable,
        pods=len(info.pods),
        nominated=len(scheduler.queue.nominator.pods_on(info.node.name)),
        allocatable={**_amounts(info.allocatable, names), "pods": info.allocatable.allowed_pods},
        requested=_amounts(info.requested, names),
    )


def _amounts(resource: Resource, names: Iterable[str]) -> dict[str, int]:
    return {name: resource.get(name) for name in names}


def _decoded(token: str) -> _Position:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=_Position)
    except (ValueError, msgspec.DecodeError) as error:
        raise ValueError("not from an earlier page") from error
