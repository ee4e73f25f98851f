"""Rebuild the state of a cluster write by write: its objects, and the resources that its queues use."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler_lab.audit.amounts import Amounts, add
from pyscheduler_lab.audit.batch_objects import KAI, Group, Queue, dialect_of, read_group, read_queue
from pyscheduler_lab.audit.core_objects import Node, Pod, PriorityClass, read_node, read_pod, read_priority_class
from pyscheduler_lab.audit.facts import Bound, Evicted, Fact, Left, Outside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyscheduler_lab.audit.evictions import EvictionRecord
    from pyscheduler_lab.audit.history import Change
    from pyscheduler_lab.audit.options import Options

__all__ = ["ALLOCATED", "GATED", "NON_PREEMPTIBLE", "PENDING", "TERMINATING", "Sums", "World"]

#: Kinds of sums per queue, each over all jobs of the queue and of the queues below it: pods that hold a node; those of
#: them whose job is not preemptible; pods that wait without gates; pods that wait with gates; and pods on a node that
#: are being deleted.
ALLOCATED: Final = "allocated"
NON_PREEMPTIBLE: Final = "nonPreemptible"
PENDING: Final = "pending"
GATED: Final = "gated"
TERMINATING: Final = "terminating"

Sums = dict[str, dict[str, Amounts]]
"""Amounts by kind and queue."""

#: Priority of a KAI group without a class, and the least priority that is not preemptible.
_KAI_DEFAULT_PRIORITY: Final = 50
_KAI_NON_PREEMPTIBLE: Final = 100


@attrs.frozen
class _Share:
    """The share of one pod in the sums."""

    path: tuple[str, ...]
    kinds: tuple[str, ...]
    requests: Amounts


class World:
    """The objects after the changes applied so far.

    Attributes are for reading. `records` says which pods the scheduler evicts in this log.
    """

    def __init__(self, options: Options, records: Mapping[str, EvictionRecord]) -> None:
        self.options = options
        self.records = records
        self.now = float("-inf")
        self.pods: dict[str, Pod] = {}
        self.members: dict[str, dict[str, Pod]] = defaultdict(dict)
        self.groups: dict[str, Group] = {}
        self.queues: dict[str, Queue] = {}
        self.nodes: dict[str, Node] = {}
        self.classes: dict[str, PriorityClass] = {}
        #: Jobs and groups that events regard, by ``namespace/name``: the reasons of the events.
        self.events: dict[str, set[str]] = defaultdict(set)
        #: Time at which the scheduler bound the first pod of a job that had none.
        self.started: dict[str, float] = {}
        #: Time at which the log first has the pod, by UID.
        self.first_seen: dict[str, float] = {}
        self.slots: dict[str, str] = {}
        self._vacant: dict[str, deque[tuple[str, str]]] = defaultdict(deque)
        self._evicted: set[str] = set()
        self._shares: dict[str, _Share] = {}
        self._sums: Sums = defaultdict(lambda: defaultdict(dict))
        #: Node and requests of each running pod of another scheduler.
        self._foreign: dict[str, tuple[str, Amounts]] = {}
        #: When each job last lost a pod that nobody evicted.
        self._lost: dict[str, float] = {}
        #: Nodes that were deleted. Pods on them hold nothing: they cannot run, and the garbage collector deletes them.
        self._lost_nodes: set[str] = set()
        self._stale_sums = False
        self._touched: set[str] = set()
        self._readers: Final[dict[str, Callable[[Change], list[Fact]]]] = {
            "Pod": self._pod,
            "Node": self._node,
            "PriorityClass": self._class,
            "PodGroup": self._group,
            "Queue": self._queue,
            "Event": self._event,
        }

    def apply(self, change: Change) -> list[Fact]:
        """Apply the next change and return what it means."""
        self.now = change.at
        reader = self._readers.get(change.kind)
        return [] if reader is None else reader(change)

    # --- questions ----------------------------------------------------------------------------------

    def is_ours(self, pod: Pod) -> bool:
        """Return True if a batch profile schedules the pod."""
        if self.options.schedulers:
            return pod.scheduler in self.options.schedulers
        return bool(pod.group)

    def group_of(self, job: str) -> Group | None:
        """Return the pod group of a job, or None."""
        return self.groups.get(job)

    def queue_of(self, pod: Pod) -> str:
        """Return the name of the pod's queue; "" if its group does not exist."""
        if pod.group:
            group = self.groups.get(pod.group)
            return group.queue if group is not None else ""
        return pod.own_queue or self.options.default_queue

    def queue_of_job(self, job: str) -> str:
        """Return the name of a job's queue; "" if the job is not known."""
        group = self.groups.get(job)
        if group is not None:
            return group.queue
        return next((self.queue_of(pod) for pod in self.members.get(job, {}).values()), "")

    def path(self, queue: str) -> tuple[str, ...]:
        """Return the queue and its ancestors, nearest first; a cycle or a missing parent ends the path."""
        found: list[str] = []
        while queue in self.queues and queue not in found:
            found.append(queue)
            queue = self.queues[queue].parent
        return tuple(found)

    def is_leaf(self, queue: str) -> bool:
        """Return True if no queue has this one as its parent."""
        return all(one.parent != queue for one in self.queues.values())

    def priority(self, pod: Pod) -> int:
        """Return the priority of the pod's job: its group's class, else the default class, else the pod's own."""
        group = self.groups.get(pod.group)
        name = (group.priority_class if group is not None else "") or pod.priority_class
        if name in self.classes:
            return self.classes[name].value
        default = next((one.value for one in self.classes.values() if one.is_default), None)
        if group is not None and group.dialect == KAI:
            return _KAI_DEFAULT_PRIORITY if default is None else default
        return pod.priority or default or 0

    def is_stranded(self, pod: Pod) -> bool:
        """Return True if the pod's node was deleted."""
        return pod.node in self._lost_nodes

    def lost_at(self, job: str) -> float:
        """Return when the job last lost a pod that nobody evicted; less than all times if it never did."""
        return self._lost.get(job, float("-inf"))

    def started_at(self, job: str) -> float | None:
        """Return when the job last began to run: as seen, else as its group says, else None."""
        group = self.groups.get(job)
        return self.started.get(job, group.last_start if group is not None else None)

    def preemptible(self, pod: Pod) -> bool:
        """Return True if the pod's job may be evicted at all."""
        group = self.groups.get(pod.group)
        if group is not None and group.dialect == KAI:
            if group.preemptibility in {"preemptible", "non-preemptible"}:
                return group.preemptibility == "preemptible"
            return self.priority(pod) < _KAI_NON_PREEMPTIBLE
        marks = (pod.preemptable, group.preemptable if group is not None else None)
        return all(mark is not False for mark in marks)

    @property
    def sums(self) -> Sums:
        """Return the sums by kind and queue; the world owns them."""
        if self._stale_sums:
            self._stale_sums = False
            self._sums.clear()
            self._shares.clear()
            for pod in self.pods.values():
                self._count(pod)
        return self._sums

    def sum_of(self, kind: str, queue: str) -> Amounts:
        """Return one sum; the world owns it."""
        return self.sums[kind][queue]

    def drain_touched(self) -> set[str]:
        """Return the queues whose sums or objects changed since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def pool(self) -> Amounts:
        """Return what the batch profiles can divide: allocatable of ready nodes, less the pods of others."""
        total: Amounts = {}
        for node in self.nodes.values():
            if node.ready:
                add(total, node.allocatable)
        for name, requests in self._foreign.values():
            if name in self.nodes and self.nodes[name].ready:
                add(total, requests, -1.0)
        return total

    # --- sums ---------------------------------------------------------------------------------------

    def _count(self, pod: Pod) -> None:
        """Add the pod to the sums of its queue and of all ancestors."""
        if not self.is_ours(pod) and pod.node and not pod.ended:
            self._foreign[pod.uid] = (pod.node, pod.requests)
        if not self.is_ours(pod) or pod.ended:
            return
        kinds: tuple[str, ...] = ()
        if pod.active and not self.is_stranded(pod):
            kinds = (ALLOCATED,) if self.preemptible(pod) else (ALLOCATED, NON_PREEMPTIBLE)
        elif pod.node and not pod.active:
            kinds = (TERMINATING,)
        elif pod.gated:
            kinds = (GATED,)
        elif pod.pending:
            kinds = (PENDING,)
        share = _Share(self.path(self.queue_of(pod)), kinds, pod.requests)
        self._shares[pod.uid] = share
        self._apply_share(share, 1.0)

    def _discount(self, uid: str) -> None:
        self._foreign.pop(uid, None)
        share = self._shares.pop(uid, None)
        if share is not None:
            self._apply_share(share, -1.0)

    def _apply_share(self, share: _Share, sign: float) -> None:
        self._touched.update(share.path)
        for kind in share.kinds:
            for queue in share.path:
                add(self._sums[kind][queue], share.requests, sign)

    # --- pods ---------------------------------------------------------------------------------------

    def _pod(self, change: Change) -> list[Fact]:
        pod = read_pod(change.obj)
        old = self.pods.get(pod.uid)
        facts: list[Fact] = []
        if change.type == "DELETED":
            facts = self._pod_deleted(change, old or pod)
        else:
            facts = self._pod_written(change, old, pod)
        self._discount(pod.uid)
        if old is not None and old.job != pod.job:
            self.members[old.job].pop(pod.uid, None)
        if change.type == "DELETED":
            self.pods.pop(pod.uid, None)
            self.first_seen.pop(pod.uid, None)
            self.members[pod.job].pop(pod.uid, None)
        else:
            if pod.active and not any(one.active for one in self.members[pod.job].values()):
                self.started.pop(pod.job, None)
                if old is not None:
                    self.started[pod.job] = change.at
            self.pods[pod.uid] = pod
            self.first_seen.setdefault(pod.uid, change.at)
            self.members[pod.job][pod.uid] = pod
            self._count(pod)
        return facts

    def _pod_written(self, change: Change, old: Pod | None, pod: Pod) -> list[Fact]:
        if old is None:
            return self._pod_added(change, pod)
        if pod.deleting and not old.deleting:
            return [self._departure(change, old)]
        facts: list[Fact] = []
        if pod.node and not old.node:
            if self.is_ours(pod):
                facts.append(Bound(at=change.at, revision=change.revision, pod=pod))
            else:
                facts.append(self._outside(change, "foreign-bound", pod.job))
        if pod.ended and not old.ended and pod.uid not in self._evicted:
            facts.append(self._outside(change, "pod-gone", pod.job))
        if (old.gated, old.job, old.requests, old.labels) != (pod.gated, pod.job, pod.requests, pod.labels):
            facts.append(self._outside(change, "pod-changed", pod.job))
        return facts

    def _pod_added(self, change: Change, pod: Pod) -> list[Fact]:
        vacant = self._vacant[pod.owner or pod.job]
        place = next((one for one in vacant if one[0] == pod.name), vacant[0] if vacant else None)
        if place is None or pod.node:
            self.slots[pod.uid] = pod.uid
            return [self._outside(change, "pod-added" if not pod.node else "foreign-bound", pod.job)]
        vacant.remove(place)
        self.slots[pod.uid] = place[1]
        return []

    def _pod_deleted(self, change: Change, old: Pod) -> list[Fact]:
        facts: list[Fact] = [] if old.deleting else [self._departure(change, old)]
        if old.uid in self._evicted:
            facts.append(Left(at=change.at, revision=change.revision, pod=old))
        elif old.deleting:
            facts.append(self._outside(change, "pod-gone", old.job))
        return facts

    def _departure(self, change: Change, old: Pod) -> Fact:
        record = self.records.get(old.uid)
        if record is None or not old.node or old.ended:
            return self._outside(change, "pod-gone", old.job)
        slot = self.slots[old.uid]
        self._evicted.add(old.uid)
        self._vacant[old.owner or old.job].append((old.name, slot))
        return Evicted(at=change.at, revision=change.revision, pod=old, record=record, slot=slot)

    def _outside(self, change: Change, kind: str, subject: str) -> Outside:
        if kind == "pod-gone":
            self._lost[subject] = change.at
        return Outside(at=change.at, revision=change.revision, kind=kind, subject=subject)

    # --- other kinds --------------------------------------------------------------------------------

    def _node(self, change: Change) -> list[Fact]:
        node = read_node(change.obj)
        old = self.nodes.pop(node.name, None)
        if change.type == "DELETED":
            self._lost_nodes.add(node.name)
            self._stale_sums = True
            return [self._outside(change, "node-room", node.name)]
        self.nodes[node.name] = node
        if node.name in self._lost_nodes:
            self._lost_nodes.remove(node.name)
            self._stale_sums = True
        if old == node:
            return []
        worse = old is not None and (
            old.constraints != node.constraints
            or node.unschedulable
            or not node.ready
            or any(node.allocatable.get(name, 0.0) < amount for name, amount in old.allocatable.items())
        )
        return [self._outside(change, "node-room" if worse else "node", node.name)]

    def _class(self, change: Change) -> list[Fact]:
        one = read_priority_class(change.obj)
        old = self.classes.pop(one.name, None)
        if change.type != "DELETED":
            self.classes[one.name] = one
        if self.classes.get(one.name) == old:
            return []
        self._stale_sums = True
        return [self._outside(change, "class", one.name)]

    def _group(self, change: Change) -> list[Fact]:
        group = read_group(change.obj, dialect_of(str(change.obj.get("apiVersion", ""))))
        old = self.groups.pop(group.key, None)
        if change.type != "DELETED":
            self.groups[group.key] = group
            if old is not None and old.without_status() == group.without_status():
                return []
        for uid, pod in self.members.get(group.key, {}).items():
            self._discount(uid)
            self._count(pod)
        return [self._outside(change, "group", group.key)]

    def _queue(self, change: Change) -> list[Fact]:
        queue = read_queue(change.obj, dialect_of(str(change.obj.get("apiVersion", ""))))
        old = self.queues.pop(queue.name, None)
        self._touched.add(queue.name)
        if change.type != "DELETED":
            self.queues[queue.name] = queue
            if old is not None and old.without_status() == queue.without_status():
                return []
        self._stale_sums = True
        return [self._outside(change, "queue", queue.name)]

    def _event(self, change: Change) -> list[Fact]:
        subject = change.obj.get("regarding") or change.obj.get("involvedObject") or {}
        if change.type != "DELETED" and subject.get("name"):
            key = f"{subject.get('namespace') or 'default'}/{subject['name']}"
            self.events[key].add(str(change.obj.get("reason", "")))
        return []
