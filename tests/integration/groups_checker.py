"""Judges from the API server's own record whether groups of pods were bound all or nothing.

Knows nothing of schedulers. Everything is read from the changes of the store (pods, nodes, the objects of groups) and
from the requests to bind, and each moment of virtual time is judged when the cluster is at rest in it.

**Never in part.** A *verdict* lets all those members of a group through that hold a node, so all of them are asked to
be bound at one moment. Whoever was asked to be bound needs a verdict of that very moment, for which the members counted
that

- were asked to be bound at the same moment, whatever the API server answered,
- or were bound by then and alive,
- or might have held a node and vanished at that moment (deleted, ended, moved to another group).

These have to be as many as the smallest minimum in force during the moment, and the group has to be declared: where no
object, and no pod, says what the minimum is, nobody of it is ever bound. So everything legitimate passes and nothing
else: a binding that was refused counts at its moment, and later its pod needs a verdict of its own; bound members that
are deleted do not count for those that follow; a raised minimum leaves the bound alone and holds for the next; a
scheduler that starts anew on half a group needs the rest of the minimum at once.

Gangs go by their match policy, and by every gang of the gang group together, as the lists were at that moment:
`only-waiting` does not count who was bound before, and `once-satisfied` asks for nothing any more once a verdict was
right, for any gang of the gang group, or for one that joined it since; not by a bound pod that comes to name the gang.
That is forgotten when the last gang of the gang group is gone, object, pods and all, and by a scheduler that starts
anew with nobody of the gang group bound; one that starts anew takes a gang with a bound member for right.

**Nothing twice, nothing too much, nobody lost.** A pod gets one node, at a request of the scheduler, and keeps it. At
that moment the node is there, and has room for all that are bound to it; with those that hold it in memory it has room,
too, unless it shrank. Every pod without a node that names the scheduler is known to it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final

import attrs

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.store import Change, Collection
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.testing import FakeCluster

__all__ = ["GANG", "Checker", "Counting", "WatchedCluster", "WatchedFakeCluster"]

GANG = "gang.scheduling.koordinator.sh/"
_POLICIES: Final = ("once-satisfied", "only-waiting", "waiting-and-running")
_BINDING: Final = "/binding"
_MANY: Final = 1_000_000


class Counting(Enum):
    """Whose rules decide when members may be bound; with where pods name their group and objects are kept."""

    NOBODY = ("", "", "")
    SIGS = ("scheduling.x-k8s.io/pod-group", "scheduling.x-k8s.io/v1alpha1", "minMember")
    MING = ("pod-group.scheduling.ming.io", "scheduling.ming.io/v1", "minMember")
    GANG = ("pod-group.scheduling.sigs.k8s.io", "scheduling.sigs.k8s.io/v1alpha1", "minMember")
    IN_TREE = ("", "scheduling.k8s.io/v1alpha2", "minCount")

    @property
    def label(self) -> str:
        """Return the label in which pods name their group."""
        return self.value[0]

    @property
    def api_version(self) -> str:
        """Return the version of the objects that describe groups."""
        return self.value[1]


@attrs.frozen(kw_only=True)
class _Pod:
    uid: str
    key: str
    group: str
    node: str
    #: Not ended.
    alive: bool
    millis: int
    #: The minimum that the pod's own annotation says.
    says: int | None
    ours: bool
    gated: bool


@attrs.frozen(kw_only=True)
class _Object:
    minimum: int | None
    policy: str
    listed: frozenset[str]


@attrs.define
class _Moment:
    """What held for a group at some time during one moment."""

    least: int | None = None
    bound: set[str] = attrs.Factory(set)
    asked: set[str] = attrs.Factory(set)
    vanished: set[str] = attrs.Factory(set)
    policies: set[str] = attrs.Factory(set)
    lists: set[frozenset[str]] = attrs.Factory(set)


class Checker:
    """Follows a cluster from now on; `judge` at the end of each moment raises AssertionError with all that is wrong."""

    def __init__(self, cluster: EmbeddedCluster, counting: Counting, *, scheduler_name: str) -> None:
        self.counting = counting
        #: How often what was seen: moments judged, members let through, refused bindings ...
        self.counts: Counter[str] = Counter()
        self._name = scheduler_name
        self._pods: dict[str, _Pod] = {}
        self._uids: dict[str, str] = {}
        self._members: dict[str, set[str]] = {}
        self._objects: dict[str, _Object] = {}
        self._nodes: dict[str, int] = {}
        #: What nodes had at most during this moment, and those that have less now than they had.
        self._room: dict[str, int] = {}
        self._shrunk: set[str] = set()
        self._moments: dict[str, _Moment] = {}
        #: The pods that were asked to be bound at this moment, and to which groups pods belonged in it before.
        self._asked_now: dict[str, set[str]] = {}
        self._left: dict[str, set[str]] = {}
        self._asked: set[str] = set()
        self._satisfied: set[str] = set()
        self._wrong: list[str] = []
        self._stops: list[Callable[[], None]] = []
        collection = cluster.registry.collection
        self._follow(collection(cluster.resource("v1", "Pod")), self._pod_changed)
        self._follow(collection(cluster.resource("v1", "Node")), self._node_changed)
        if counting.api_version:
            objects = collection(cluster.resource(counting.api_version, "PodGroup"))
            self._follow(objects, self._object_changed)

    def _follow(self, collection: Collection, changed: Callable[[Change], None]) -> None:
        position = collection.position_after(collection.store.version)

        def read() -> None:
            nonlocal position
            for change in collection.read(position, _MANY):
                position += 1
                changed(change)

        for record in collection.page().records:
            changed(Change(record.version, "ADDED", record, None))
        self._stops.append(collection.listen(read))

    def close(self) -> None:
        """Follow no more."""
        for stop in self._stops:
            stop()

    # --- what is

    def declared(self, group: str) -> bool:
        """Tell whether anything says what the minimum of a group is."""
        return self._least(group) is not None

    def minimum(self, group: str) -> int:
        """Return the smallest minimum that somebody says for a group, 0 where nobody does."""
        return self._least(group) or 0

    def gang_group(self, group: str) -> frozenset[str]:
        """Return the gangs that a gang lists, itself among them."""
        found = self._objects.get(group)
        return (found.listed if found is not None else frozenset()) | {group}

    def bound(self, group: str) -> set[str]:
        """Return the uids of living members that have a node."""
        return {uid for uid in self._members.get(group, ()) if self._pods[uid].node}

    def _least(self, group: str) -> int | None:
        if self.counting is Counting.GANG:
            said = [says for uid in self._members.get(group, ()) if (says := self._pods[uid].says) is not None]
            if said:
                return min(said)
        found = self._objects.get(group)
        return found.minimum if found is not None else None

    # --- what changes

    def _moment(self, group: str) -> _Moment:
        """Return what is known of this moment, with what holds now in it: to be called before and after a change."""
        moment = self._moments.setdefault(group, _Moment())
        least = self._least(group)
        if least is not None:
            moment.least = least if moment.least is None else min(moment.least, least)
        moment.bound |= self.bound(group)
        moment.lists.add(self.gang_group(group))
        found = self._objects.get(group)
        moment.policies.add(found.policy if found is not None else _POLICIES[0])
        return moment

    def _pod_changed(self, change: Change) -> None:
        new = self._read_pod(change)
        old = self._pods.get(new.uid)
        groups = {one.group for one in (old, new) if one is not None and one.group}
        for group in groups:
            self._moment(group)
        if old is not None and old.node and new.node != old.node:
            self._wrong.append(f"pod {new.key} was bound to {old.node}, and then to {new.node or 'nothing'}")
        self._pods[new.uid] = new
        if change.type == "DELETED":
            del self._pods[new.uid]
            self._uids.pop(new.key, None)
        else:
            self._uids[new.key] = new.uid
        if old is not None and old.group:
            self._members[old.group].discard(new.uid)
        belongs = new.alive and change.type != "DELETED"
        if new.group and belongs:
            self._members.setdefault(new.group, set()).add(new.uid)
        for group in groups:
            moment = self._moment(group)
            if old is not None and old.group == group and not (belongs and new.group == group):
                moment.vanished.add(new.uid)
        if old is not None and old.group != new.group:
            self._left.setdefault(new.uid, set()).add(old.group)
        if new.node and (old is None or not old.node):
            self._got_node(new, created=old is None)

    def _got_node(self, pod: _Pod, *, created: bool) -> None:
        if created:
            self._asked.add(pod.uid)
            if self.counting is Counting.GANG and pod.group:
                self._satisfied |= self._partners(pod.group)
            return
        self.counts["bound"] += 1
        if pod.uid not in self._asked:
            self._wrong.append(f"pod {pod.key} has node {pod.node}, for which nobody asked")
        room = max(self._room.get(pod.node, -1), self._nodes.get(pod.node, -1))
        used = self._used(pod.node)
        if room < 0:
            self._wrong.append(f"pod {pod.key} was bound to {pod.node}, which is not there")
        elif used > room:
            self._wrong.append(f"pod {pod.key} was bound to {pod.node}, which has {room} m and gives {used} m")

    def _used(self, node: str) -> int:
        return sum(pod.millis for pod in self._pods.values() if pod.node == node and pod.alive)

    def _node_changed(self, change: Change) -> None:
        name = change.record.name
        before = self._nodes.pop(name, None)
        if before is not None:
            self._room[name] = max(self._room.get(name, 0), before)
        if change.type != "DELETED":
            now = _millis(change.record.decode()["status"]["allocatable"]["cpu"])
            if before is not None and now < before:
                self._shrunk.add(name)
            self._nodes[name] = now

    def _object_changed(self, change: Change) -> None:
        record = change.record
        group = f"{record.namespace}/{record.name}"
        self._moment(group)
        if change.type == "DELETED":
            self._objects.pop(group, None)
        else:
            self._objects[group] = self._read_object(record.decode())
        self._moment(group)
        partners = self._partners(group)
        if partners & self._satisfied:
            self._satisfied |= partners

    def _read_pod(self, change: Change) -> _Pod:
        record, manifest = change.record, change.record.decode()
        spec, metadata = manifest["spec"], manifest["metadata"]
        annotations: Mapping[str, str] = metadata.get("annotations") or {}
        name = (metadata.get("labels") or {}).get(self.counting.label) or ""
        if self.counting is Counting.GANG:
            name = name or annotations.get(f"{GANG}name") or ""
        elif self.counting is Counting.IN_TREE:
            name = (spec.get("schedulingGroup") or {}).get("podGroupName") or ""
        phase = (manifest.get("status") or {}).get("phase")
        return _Pod(
            uid=record.uid,
            key=f"{record.namespace}/{record.name}",
            group=f"{record.namespace}/{name}" if name else "",
            node=spec.get("nodeName") or "",
            alive=phase not in {"Succeeded", "Failed"},
            millis=sum(_millis(one["resources"]["requests"]["cpu"]) for one in spec["containers"]),
            says=_whole_number(annotations.get(f"{GANG}min-available")),
            ours=spec.get("schedulerName") == self._name,
            gated=bool(spec.get("schedulingGates")),
        )

    def _read_object(self, manifest: Mapping[str, Any]) -> _Object:
        spec = manifest.get("spec") or {}
        annotations: Mapping[str, str] = manifest["metadata"].get("annotations") or {}
        if self.counting is Counting.IN_TREE:
            minimum = (spec.get("schedulingPolicy", {}).get("gang") or {}).get("minCount", 0)
        else:
            minimum = spec.get("minMember", 0)
        policy = annotations.get(f"{GANG}match-policy", "")
        listed = _listed(annotations.get(f"{GANG}groups"))
        return _Object(
            minimum=max(minimum, 0) if isinstance(minimum, int) else None,
            policy=policy if policy in _POLICIES else _POLICIES[0],
            listed=listed if self.counting is Counting.GANG else frozenset(),
        )

    # --- requests

    def asked_to_bind(self, key: str) -> None:
        """Note that a pod was asked to be bound, before it is."""
        uid = self._uids.get(key)
        pod = self._pods.get(uid or "")
        if pod is None or pod.node:
            # Gone, or bound already and asked again because an answer was lost.
            return
        self._asked.add(pod.uid)
        self._asked_now.setdefault(pod.uid, set()).add(pod.group)
        if pod.group:
            self._moment(pod.group).asked.add(pod.uid)

    def answered(self, status: int) -> None:
        """Note what became of a request to bind."""
        self.counts["bind failures"] += status >= 400

    def scheduler_is_gone(self) -> None:
        """Note that the scheduler's memory is lost: what it knew of gangs goes by who is bound."""
        bound = [group for group in self._members if self.bound(group)]
        self._satisfied = {partner for group in bound for partner in self._partners(group)}

    # --- judging

    def judge(self, known: Callable[[str], bool] | None, held: Iterable[tuple[str, str]] = ()) -> None:
        """End a moment. `known` tells whether the scheduler has a uid; `held` are uids and the nodes they hold."""
        self.counts["moments"] += 1
        for uid, asked_for in self._asked_now.items():
            groups = asked_for | self._left.get(uid, set())
            if "" not in groups and self.counting is not Counting.NOBODY:
                told = [self._objection(group) for group in sorted(groups)]
                self.counts["members let through"] += 1
                if all(told):
                    self._wrong.append(f"{uid} {self._pods[uid].key if uid in self._pods else 'gone'}: {told[0]}")
        self._take_in_verdicts()
        self._judge_room(held)
        if known is not None:
            for pod in self._pods.values():
                if pod.ours and pod.alive and not pod.node and not known(pod.uid):
                    self._wrong.append(f"pod {pod.key} is lost")
        self._moments.clear()
        self._asked_now.clear()
        self._left.clear()
        self._room.clear()
        wrong, self._wrong = self._wrong, []
        assert not wrong, "\n".join(wrong)

    def _objection(self, group: str) -> str:
        """Say why nobody of a group may have been let through at this moment; "" where it is right."""
        moment = self._moment(group)
        if self.counting is Counting.GANG:
            if _POLICIES[0] in moment.policies and group in self._satisfied:
                return ""
            told = [self._gangs_objection(listed) for listed in moment.lists]
            return "" if not all(told) else told[0]
        return self._shortage(group, count_bound=True)

    def _gangs_objection(self, gangs: Iterable[str]) -> str:
        for gang in sorted(gangs):
            policies = self._moment(gang).policies
            if _POLICIES[0] in policies and gang in self._satisfied:
                continue
            told = self._shortage(gang, count_bound=policies != {"only-waiting"})
            if told:
                return told
        return ""

    def _shortage(self, group: str, *, count_bound: bool) -> str:
        moment = self._moment(group)
        if moment.least is None:
            return f"members of {group} were let through, which nobody declared"
        there = moment.asked | moment.vanished
        if count_bound:
            there |= moment.bound
        if len(there) >= moment.least:
            return ""
        return (
            f"{group} was let through in part: {len(moment.asked)} asked to be bound, {len(moment.bound)} bound,"
            f" {len(moment.vanished)} gone, of at least {moment.least}"
        )

    def _take_in_verdicts(self) -> None:
        if self.counting is not Counting.GANG:
            return
        right: set[str] = set()
        for group, moment in list(self._moments.items()):
            self.counts["asked once satisfied"] += bool(moment.asked and group in self._satisfied)
            if moment.asked:
                for listed in moment.lists:
                    if not self._gangs_objection(listed):
                        right |= self._partners(group)
        self._satisfied |= right
        for group in list(self._satisfied):
            if not any(gang in self._objects or self._members.get(gang) for gang in self.gang_group(group)):
                self._satisfied.discard(group)

    def _partners(self, group: str) -> set[str]:
        """Return the gangs that share a gang group: those that all list the same ones."""
        listed = self.gang_group(group)
        return {gang for gang in listed if self.gang_group(gang) == listed}

    def _judge_room(self, held: Iterable[tuple[str, str]]) -> None:
        wanted: Counter[str] = Counter()
        for uid, node in held:
            pod = self._pods.get(uid)
            if pod is not None and not pod.node:
                wanted[node] += pod.millis
                self.counts["held"] += 1
        for node, millis in wanted.items():
            room, used = self._nodes.get(node, 0), self._used(node)
            if node not in self._shrunk and used + millis > room:
                self._wrong.append(f"node {node} has {room} m, gives {used} m, and is held for {millis} m more")
        self._shrunk = {node for node in self._shrunk if node in self._nodes and self._used(node) > self._nodes[node]}


def _millis(amount: str) -> int:
    return int(amount[:-1]) if amount.endswith("m") else int(amount) * 1000


def _listed(text: str | None) -> frozenset[str]:
    """Return the gangs that a list names; nobody where it is not a list of `namespace/name`."""
    try:
        said = json.loads(text or "[]")
    except ValueError:
        return frozenset()
    right = isinstance(said, list) and all(isinstance(one, str) and one.count("/") == 1 for one in said)
    return frozenset(said) if right else frozenset()


def _whole_number(text: str | None) -> int | None:
    try:
        return max(int(text), 0) if text is not None else None
    except ValueError:
        return None


class _Watched(InProcessTransport):
    """Tells the checker of every request to bind, before it is dealt with and when it was."""

    checker: Checker | None = None

    async def request(self, method: str, path: str, **keywords: Any) -> Any:
        """Answer one request."""
        if self.checker is None or method != "POST" or not path.endswith(_BINDING):
            return await super().request(method, path, **keywords)
        *_, namespace, _pods, name, _binding = path.split("/")
        self.checker.asked_to_bind(f"{namespace}/{name}")
        answer = await super().request(method, path, **keywords)
        self.checker.answered(answer.status)
        return answer


class WatchedCluster(EmbeddedCluster):
    """Gives transports that are watched."""

    checker: Checker | None = None

    def transport(self, **keywords: Any) -> InProcessTransport:
        """Return a transport for a scheduler."""
        made = _Watched(self.router, **keywords)
        made.checker = self.checker
        return made


class WatchedFakeCluster(FakeCluster):
    """A fake cluster whose server is a `WatchedCluster`."""

    server: WatchedCluster

    def transport(self) -> InProcessTransport:
        """Return a way that the checker watches."""
        return self.server.transport()
