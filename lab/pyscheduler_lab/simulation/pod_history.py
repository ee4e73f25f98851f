"""Follow the pods of a simulated cluster over their whole life, and check that no node is overcommitted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import msgspec

from kube_testserver.controllers.follower import Follower
from kube_testserver.resources.builtin import EVENTS, NODES, PODS
from pyscheduler.api import Node, Pod, decode
from pyscheduler.framework.node_info import NodeInfo
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.podgroup import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kube_testserver.cluster import EmbeddedCluster
    from kube_testserver.store import Change, Record
    from pyscheduler.podgroup import Dialect
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["Observations", "SeenPod", "set_name"]


def set_name(namespace: str, name: str) -> str:
    """Return the name of a group, or of the pods with a prefix, in scenario files."""
    return name if namespace == "default" else f"{namespace}/{name}"


@attrs.define(eq=False)
class SeenPod:
    """One pod by uid, in its current or last state in the API."""

    pod: Pod
    #: The prefix with which the pod was created.
    prefix: str
    dialects: Sequence[Dialect]
    is_gone: bool = False
    #: The last message about why the pod is not scheduled, and all such messages, each once.
    message: str = ""
    messages: list[str] = attrs.Factory(list)
    #: Every set that the pod was ever in.
    sets: set[str] = attrs.Factory(set)

    @property
    def is_live(self) -> bool:
        """Return True if the pod exists and has not ended."""
        return not self.is_gone and not self.pod.is_terminal

    @property
    def is_bound(self) -> bool:
        """Return True if the pod is bound and has not ended."""
        return self.is_live and bool(self.pod.node_name)

    @property
    def set(self) -> str:
        """Return the set of the pod's current labels."""
        found = resolve(self.pod, self.dialects)
        return self.prefix if found is None else set_name(self.pod.namespace, found[0].name)

    def note(self, message: str) -> None:
        """Record a message."""
        if message and message not in self.messages:
            self.messages.append(message)


class Observations:
    """Follows pods and events of a cluster. `scheduler` is the current scheduler."""

    def __init__(self, cluster: EmbeddedCluster, dialects: Iterable[Dialect]) -> None:
        self._cluster = cluster
        self._dialects = tuple(dialects)
        self.scheduler: Scheduler | None = None
        self._pods: dict[str, SeenPod] = {}
        #: Name prefix with which each pod was created, by namespace and name.
        self.prefixes: dict[str, str] = {}
        #: Whether anything has changed since `is_news` was last set to False.
        self.is_news = True
        clock = cluster.clock
        store = cluster.registry
        self._followers = (
            Follower(store.collection(PODS), clock=clock, listed=self._list_pods, changed=self._pod_changed),
            Follower(store.collection(EVENTS), clock=clock, listed=self._list_events, changed=self._event_changed),
        )

    def start(self) -> None:
        """Start to follow."""
        for follower in self._followers:
            follower.start()

    def stop(self) -> None:
        """Stop to follow."""
        for follower in self._followers:
            follower.stop()

    # --- what was seen ---------------------------------------------------------------------------

    def all(self) -> Sequence[SeenPod]:
        """Return every pod that ever existed, in the order of creation."""
        self._catch_up()
        return tuple(self._pods.values())

    def live(self, name: str | None = None) -> Iterator[SeenPod]:
        """Yield the pods that exist and have not ended, optionally of one set."""
        for seen in self.all():
            if seen.is_live and (name is None or seen.set == name):
                yield seen

    def state(self, seen: SeenPod) -> str:
        """Return `bound`, `waiting`, `pending` or `gone`."""
        if not seen.is_live:
            return "gone"
        if seen.pod.node_name:
            return "bound"
        return "waiting" if self._reserved(seen.pod.uid) else "pending"

    def node(self, seen: SeenPod) -> str | None:
        """Return the node of a pod that is bound, or that waits at Permit."""
        if not seen.is_live:
            return None
        return seen.pod.node_name or self._reserved(seen.pod.uid) or None

    def counts(self, state: str) -> Counter[str]:
        """Return the number of pods of each set in a state."""
        return Counter(seen.set for seen in self.live() if self.state(seen) == state)

    def overcommitted(self) -> Iterator[str]:
        """Yield a message for each resource of a node that bound and waiting pods overcommit."""
        self._catch_up()
        nodes = {name: NodeInfo.of(node) for name, node in self._nodes()}
        for seen in self._pods.values():
            name = self.node(seen)
            if name in nodes:
                nodes[name].add_pod(PodInfo.of(seen.pod))
        for name, info in nodes.items():
            limits, wanted = info.allocatable, info.requested
            used = {
                "cpu": (wanted.milli_cpu, limits.milli_cpu),
                "memory": (wanted.memory, limits.memory),
                "pods": (len(info.pods), limits.allowed_pods),
                **{scalar: (amount, limits.get(scalar)) for scalar, amount in wanted.scalars.items()},
            }
            yield from (f"node {name} is overcommitted: {what}" for what, (has, may) in used.items() if has > may)

    def _nodes(self) -> Iterator[tuple[str, Any]]:
        for record in self._cluster.registry.collection(NODES).page().records:
            yield record.name, decode(Node, record.body)

    def _reserved(self, uid: str) -> str:
        held = self.scheduler.waiting_pods.get(uid) if self.scheduler is not None else None
        return held.node_name if held is not None else ""

    # --- following -------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        for follower in self._followers:
            follower.catch_up()

    def _list_pods(self, records: Sequence[Record]) -> None:
        present = {record.uid for record in records}
        for uid, seen in self._pods.items():
            seen.is_gone = seen.is_gone or uid not in present
        for record in records:
            self._look(record)

    def _pod_changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self.is_news = True
            self._pods[change.record.uid].is_gone = True
        else:
            self._look(change.record)

    def _look(self, record: Record) -> None:
        self.is_news = True
        pod = decode(Pod, record.body)
        seen = self._pods.get(record.uid)
        if seen is None:
            seen = self._pods[record.uid] = SeenPod(pod, self.prefixes.get(pod.key, pod.name), self._dialects)
        seen.pod = pod
        seen.sets.add(seen.set)
        condition = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
        if condition is not None and condition.status == "False" and condition.message:
            seen.message = condition.message
            seen.note(condition.message)

    def _list_events(self, records: Sequence[Record]) -> None:
        for record in records:
            self._hear(record)

    def _event_changed(self, change: Change) -> None:
        if change.type != "DELETED":
            self._hear(change.record)

    def _hear(self, record: Record) -> None:
        event = msgspec.json.decode(record.body)
        if event.get("reason") != "FailedScheduling":
            return
        self._followers[0].catch_up()
        seen = self._pods.get((event.get("regarding") or event.get("involvedObject") or {}).get("uid", ""))
        if seen is not None:
            note = event.get("note") or event.get("message") or ""
            seen.note(note)
            seen.message = seen.message or note
