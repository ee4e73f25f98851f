"""Random histories of a cluster with groups of pods, under one of the shipped profiles.

`GroupHistory` has one method for each kind of event; `test_gang_histories` calls them in an order that hypothesis
chooses. It runs the whole scheduler on an embedded API server and a virtual clock. `groups_checker` checks the
invariants after every change.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs
import yaml

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Node, Pod
from pyscheduler.framework.errors import APIError
from pyscheduler.podgroup import DIALECTS, DialectTable
from pyscheduler.testing import FakeFramework, pod_manifest
from tests.integration.groups_checker import GANG, Checker, Counting, WatchedCluster, WatchedFakeCluster

__all__ = ["EVENTS", "OPENINGS", "GroupHistory", "Way"]

CONFIGS: Final = Path(__file__).parents[2] / "configs"
#: In order of the namespaces in which they live: gang groups reach across.
GROUPS: Final = ("default/a", "default/b", "other/c")
#: Groups wait for so long, where they say so; profiles as they are shipped let them wait for minutes.
WAIT_SECONDS: Final = 15
#: What users are told, by what it shows to have happened.
_TOLD: Final = {
    "rollbacks": ("rejection in Unreserve", "optimistic rejection", "gets rejected due to"),
    "timeouts": ("rejected due to timeout after waiting",),
    "yields": ("yields to gang",),
}


@attrs.frozen(kw_only=True)
class Way:
    """A profile, how groups are written for it, and what its histories have to show, each more than once."""

    config: str
    counting: Counting
    #: Changes the args of the plugins in the file, by plugin.
    args: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    gates: str = ""
    expects: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the configuration."""
        document = json.loads(_as_json(CONFIGS / self.config))
        for profile in document["profiles"]:
            for entry in profile.get("pluginConfig", ()):
                entry["args"].update(self.args.get(entry["name"], {}))
        return json.dumps(document)

    def definitions(self) -> list[dict[str, Any]]:
        """Return the definition of the objects that describe groups, as it is shipped."""
        group = self.counting.api_version.partition("/")[0]
        path = CONFIGS / "crds" / f"podgroups.{group}.yaml"
        return [json.loads(_as_json(path))] if group and path.exists() else []


@cache
def _as_json(path: Path) -> str:
    """Return a YAML file as JSON, of which a copy takes no time."""
    return json.dumps(yaml.safe_load(path.read_text(encoding="utf-8")))


class GroupHistory:
    """One history. `counts` says how often what happened."""

    def __init__(self, way: Way, number: int) -> None:
        self.way = way
        self.rng = random.Random(number)
        self.counts: Counter[str] = Counter()
        self.minimum: dict[str, int] = {}
        self.said: dict[str, dict[str, str]] = {}
        self._made = 0
        self.runner = asyncio.Runner()
        self.runner.run(self._begin())

    async def _begin(self) -> None:
        self.cluster = WatchedFakeCluster(seed=self.rng.getrandbits(32))
        self.server = WatchedCluster(
            clock=self.cluster.clock,
            rng=random.Random(self.rng.getrandbits(32)),
            pod_groups=self.way.counting is Counting.IN_TREE,
        )
        self.cluster.server = self.server
        self.server.add(*self.way.definitions())
        document = json.loads(self.way.text())
        self.name = document["profiles"][0]["schedulerName"]
        self.checker = self.server.checker = Checker(self.server, self.way.counting, scheduler_name=self.name)
        self.framework = self._schedule()
        await self.framework.start()

    def _schedule(self) -> FakeFramework:
        return self.cluster.framework(
            config=self.way.text(), feature_gates=self.way.gates, seed=self.rng.getrandbits(32)
        )

    # --- life ------------------------------------------------------------------------------------

    def happen(self, name: str, number: int, seconds: float | None = 0.0) -> None:
        """Let one thing happen and time pass, looking at every moment; None gives the scheduler no time at all."""
        self.rng = random.Random(number)
        self.runner.run(self._happen(name, seconds))

    async def _happen(self, name: str, seconds: float | None) -> None:
        done = {**EVENTS, **OPENINGS}[name](self)
        if done is not None and not isinstance(done, bool):
            done = await done
        self.counts[name] += done is not False
        if seconds is not None:
            await self.advance(seconds)

    async def advance(self, seconds: float) -> None:
        """Let time pass; whatever happens at one moment is judged before the next."""
        await self.cluster.clock.advance(seconds, at_rest=self.judge)
        await self.framework.settle()
        self.judge()

    def judge(self) -> None:
        """Look at what there is."""
        scheduler = self.framework.scheduler
        binding = {attempt.pod.uid for attempt in scheduler._bindings.values()}
        waiting = [(one.pod.uid, one.node_name) for one in scheduler.waiting_pods.all()]
        self.checker.judge(lambda uid: scheduler.queue.place_of(uid) is not None or uid in binding, waiting)

    # --- openings --------------------------------------------------------------------------------

    def open_with_little_room(self) -> None:
        """Begin with groups of which some fit, and not all."""
        self.create_node()
        self.create_node()
        for group in GROUPS:
            self._declare(group, self.rng.randrange(2, 5))
            self._pods(group, self.minimum[group] + self.rng.choice((0, 0, 1)))

    def open_one_place_short(self) -> None:
        """Begin with a group that misses one place, and the others."""
        self._node(4)
        self._declare(GROUPS[0], 5, mode="Strict")
        self._pods(GROUPS[0], 5)
        for group in GROUPS[1:]:
            self._declare(group, 2, mode=self.rng.choice(("Strict", "NonStrict")))
            self._pods(group, 2)

    def open_with_a_gang_group(self) -> None:
        """Begin with groups of which two, of different namespaces, belong together where the dialect has that."""
        self._node(5)
        listed = json.dumps([GROUPS[0], GROUPS[2]])
        for group, minimum in zip(GROUPS, (2, 2, 3), strict=True):
            alone = {} if group == GROUPS[1] else {"groups": listed}
            self._declare(group, minimum, mode=self.rng.choice(("Strict", "NonStrict")), **alone)
            self._pods(group, minimum)

    def open_with_a_deadlock(self) -> None:
        """Begin with groups that hold all room there is, each too little."""
        if self.way.counting is Counting.GANG:
            sizes, minimum = (3, 3, 4), 5
        else:
            sizes, minimum = (9, 9), 10
        self._node(sum(sizes))
        for group in GROUPS[: len(sizes)]:
            self._declare(group, minimum, mode="NonStrict", wait=60)
        for group, size in zip(GROUPS, sizes, strict=False):
            self._pods(group, size, priority=10)
        for group, size in zip(GROUPS, sizes, strict=False):
            self._pods(group, minimum - size)
        for group in GROUPS[len(sizes) :]:
            self._declare(group, 1)

    def open_one_place_short_for_long(self) -> None:
        """Begin with a group that holds on to what it has, until its time is over."""
        minimum = 3 if self.way.counting is Counting.GANG else 10
        self._node(minimum - 1)
        self._declare(GROUPS[0], minimum, mode="NonStrict", wait=10)
        self._pods(GROUPS[0], minimum)
        for group in GROUPS[1:]:
            self._declare(group, 1)

    # --- what happens: groups --------------------------------------------------------------------

    def _declare(self, group: str, minimum: int, *, wait: int = WAIT_SECONDS, **said: str) -> None:
        namespace, _, name = group.partition("/")
        self.minimum[group] = minimum
        self.said[group] = {f"{GANG}{key}": value for key, value in said.items()}
        counting = self.way.counting
        if not counting.api_version:
            return
        spec: dict[str, Any] = {"minMember": minimum, "scheduleTimeoutSeconds": wait}
        if counting is Counting.IN_TREE:
            spec = {"schedulingPolicy": {"gang": {"minCount": max(minimum, 1)}}}
        self.server.add(
            {
                "apiVersion": counting.api_version,
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": namespace, "annotations": self.said[group]},
                "spec": spec,
            }
        )

    def _object(self, group: str) -> bool:
        namespace, _, name = group.partition("/")
        try:
            self.server.get(self.way.counting.api_version, "PodGroup", name, namespace=namespace)
        except (APIError, LookupError, ValueError):
            return False
        return True

    def _served(self) -> bool:
        api_version = self.way.counting.api_version
        return bool(api_version) and self.server.table.find_kind(api_version, "PodGroup") is not None

    def _patch_object(self, group: str, patch: Mapping[str, Any]) -> bool:
        namespace, _, name = group.partition("/")
        if not self._served() or not self._object(group):
            return False
        kind = self._kind()
        self.cluster.patch(kind, name, patch, namespace=namespace)
        return True

    def _kind(self) -> Any:
        names = {Counting.SIGS: "sigs", Counting.MING: "ming", Counting.GANG: "koordinator", Counting.IN_TREE: "intree"}
        return DialectTable(DIALECTS).named(names[self.way.counting]).kinds[0].type

    def change_minimum(self) -> bool:
        """Raise or lower the minimum of a group."""
        group = self.rng.choice(GROUPS)
        minimum = self.rng.randrange(1, 6)
        if self.way.counting is Counting.IN_TREE:
            return self._make_anew(group, minimum)
        changed = self._patch_object(group, {"spec": {"minMember": minimum}})
        if changed:
            self.counts["minimum raised" if minimum > self.minimum[group] else "minimum lowered"] += 1
            self.minimum[group] = minimum
        return changed

    def _make_anew(self, group: str, minimum: int) -> bool:
        """Do what it takes to change what cannot be changed."""
        if not self._served() or not self._object(group):
            return False
        namespace, _, name = group.partition("/")
        self.server.remove(self.way.counting.api_version, "PodGroup", name, namespace=namespace)
        self._declare(group, minimum)
        return True

    def change_annotations(self) -> bool:
        """Change how a group is treated: mode, match policy, wait, gang group; some of it malformed."""
        if self.way.counting is Counting.IN_TREE:
            return False
        group = self.rng.choice(GROUPS)
        key, values = self.rng.choice(
            (
                ("mode", ("Strict", "NonStrict", "strict?", None)),
                ("match-policy", ("once-satisfied", "only-waiting", "waiting-and-running", "some", None)),
                ("total-number", ("2", "9", "many", None)),
                ("waiting-time", ("10s", "1m", "soon", "-5s", None)),
                ("groups", ("[", "", json.dumps([group, group]), None)),
                ("gone", (None,)),
            )
        )
        if key == "gone":
            return self._patch_object(group, {"spec": {"scheduleTimeoutSeconds": self.rng.choice((0, 5, 30))}})
        return self._patch_object(group, {"metadata": {"annotations": {f"{GANG}{key}": self.rng.choice(values)}}})

    def join_or_part_gangs(self) -> bool:
        """Let two gangs list each other, or each itself only; now and then only one of them hears of it."""
        first, second = self.rng.sample(GROUPS, 2)
        listed = json.dumps([first, second]) if self.rng.random() < 0.6 else None
        patch = {"metadata": {"annotations": {f"{GANG}groups": listed}}}
        both = self._patch_object(first, patch)
        return both and (self.rng.random() < 0.2 or self._patch_object(second, patch))

    def delete_or_create_object(self) -> bool:
        """Delete the object of a group, or make it again."""
        if not self._served():
            return False
        group = self.rng.choice(GROUPS)
        if self._object(group):
            namespace, _, name = group.partition("/")
            self.server.remove(self.way.counting.api_version, "PodGroup", name, namespace=namespace)
            self.counts["object deleted"] += 1
        else:
            self._declare(group, self.rng.randrange(1, 5), mode=self.rng.choice(("Strict", "NonStrict")))
        return True

    def delete_or_create_definition(self) -> bool:
        """Delete the definition of the objects, which go with it, or create it again, without them."""
        definitions = self.way.definitions()
        if not definitions:
            return False
        if self._served():
            self.server.remove(
                "apiextensions.k8s.io/v1", "CustomResourceDefinition", definitions[0]["metadata"]["name"]
            )
        else:
            self.server.add(*definitions)
        return True

    # --- what happens: pods ----------------------------------------------------------------------

    def _pods(self, group: str, count: int, *, priority: int = 0, gated: bool = False, node: str = "") -> None:
        namespace, _, name = group.partition("/")
        counting = self.way.counting
        for _ in range(count):
            self._made += 1
            manifest = pod_manifest(
                f"{name or 'plain'}-{self._made}",
                namespace=namespace or "default",
                scheduler_name=self.name,
                requests={"cpu": "1"},
                priority=priority,
                node_name=node,
                labels={counting.label: name} if counting.label and name else {},
                scheduling_gates=["example.com/later"] if gated else [],
            )
            if counting is Counting.IN_TREE and name:
                manifest["spec"]["schedulingGroup"] = {"podGroupName": name}
            self.server.add(manifest)

    def _living(self, group: str = "") -> list[dict[str, Any]]:
        pods = [pod for pod in self.server.pods() if pod["status"].get("phase") not in {"Succeeded", "Failed"}]
        name = group.partition("/")[2]
        return [pod for pod in pods if not name or pod["metadata"]["name"].startswith(f"{name}-")]

    def _some_pod(self, *, bound: bool | None = None) -> dict[str, Any] | None:
        """Return a pod, more often than not one that waits for others if any does."""
        pods = [pod for pod in self._living() if bound is None or bool(pod["spec"].get("nodeName")) == bound]
        scheduler = self.framework.scheduler
        waiting = [pod for pod in pods if scheduler.waiting_pods.get(pod["metadata"]["uid"]) is not None]
        if waiting and self.rng.random() < 0.7:
            self.counts["happened to a pod that waits"] += 1
            return self.rng.choice(waiting)
        return self.rng.choice(pods) if pods else None

    def create_pods(self) -> None:
        """Create members of a group."""
        self._pods(self.rng.choice(GROUPS), self.rng.randrange(1, 4), priority=self.rng.choice((0, 0, 0, 10)))

    def create_gated_pod(self) -> None:
        """Create a member that must not be scheduled yet."""
        self._pods(self.rng.choice(GROUPS), 1, gated=True)

    def open_gates(self) -> bool:
        """Take away what keeps members from being scheduled."""
        gated = [pod for pod in self._living() if pod["spec"].get("schedulingGates")]
        for pod in gated:
            self._patch_pod(pod, {"spec": {"schedulingGates": None}})
        return bool(gated)

    def create_plain_pod(self) -> None:
        """Create a pod without a group."""
        self._pods("", 1)

    def delete_pod(self) -> bool:
        """Delete a pod."""
        pod = self._some_pod()
        if pod is not None:
            self.cluster.delete_pod(pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
        return pod is not None

    def recreate_pod(self) -> bool:
        """Delete a pod and create another one of its name, at once."""
        pod = self._some_pod()
        if pod is None:
            return False
        metadata = pod["metadata"]
        self.cluster.delete_pod(metadata["name"], namespace=metadata["namespace"])
        kept = {key: metadata.get(key) or {} for key in ("labels", "annotations")}
        kept["annotations"].pop(f"{GANG}timeout", None)
        spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
        self.server.add(
            {
                **pod,
                "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], **kept},
                "spec": spec,
                "status": {},
            }
        )
        return True

    def complete_pod(self) -> bool:
        """Let a bound pod succeed or fail."""
        pod = self._some_pod(bound=True)
        if pod is not None:
            self._patch_pod(pod, {"status": {"phase": self.rng.choice(("Succeeded", "Failed"))}}, status=True)
        return pod is not None

    def relabel_pod(self) -> bool:
        """Move a pod to another group of its namespace, or to none."""
        pod = self._some_pod()
        label = self.way.counting.label
        if pod is None or not label:
            return False
        names = [group.partition("/")[2] for group in GROUPS if group.startswith(pod["metadata"]["namespace"])]
        self._patch_pod(pod, {"metadata": {"labels": {label: self.rng.choice([*names, None])}}})
        return True

    def annotate_pod(self) -> bool:
        """Say something on a pod: a minimum, which may be malformed, or that its gang was not given up after all."""
        pod = self._some_pod(bound=False)
        if pod is None:
            return False
        key, value = self.rng.choice(
            (("min-available", "2"), ("min-available", "x"), ("timeout", None), ("timeout", None))
        )
        self._patch_pod(pod, {"metadata": {"annotations": {f"{GANG}{key}": value}}})
        return True

    def _patch_pod(self, pod: Mapping[str, Any], patch: Mapping[str, Any], *, status: bool = False) -> None:
        self.cluster.patch(Pod, pod["metadata"]["name"], patch, namespace=pod["metadata"]["namespace"], status=status)

    # --- what happens: nodes, and the scheduler --------------------------------------------------

    def _node(self, cores: int) -> None:
        self._made += 1
        self.cluster.add_node(f"n{self._made}", allocatable={"cpu": str(cores), "pods": "1000"})

    def nothing(self) -> None:
        """Let time pass, and nothing else."""

    def create_node(self) -> None:
        """Add a small node."""
        self._node(self.rng.randrange(1, 4))

    def delete_node(self) -> bool:
        """Delete a node, and its pods as controllers would."""
        nodes = self.cluster.nodes()
        if not nodes:
            return False
        name = self.rng.choice(nodes).name
        self.cluster.delete_node(name)
        for pod in self.server.pods():
            if pod["spec"].get("nodeName") == name:
                self.cluster.delete_pod(pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
        return True

    def cordon_or_uncordon_node(self) -> bool:
        """Close a node to new pods, or open it again."""
        nodes = self.cluster.nodes()
        if nodes:
            node = self.rng.choice(nodes)
            self.cluster.patch(Node, node.name, {"spec": {"unschedulable": not node.spec.unschedulable or None}})
        return bool(nodes)

    def fail_binds(self) -> None:
        """Refuse the next bindings of a group, or of anybody."""
        name = self.rng.choice(("a", "b", "c", "[a-z]+"))
        status = self.rng.choice((400, 403, 409))  # a client of its own accord tries again what may go well
        self.server.faults.add(Fault(path=rf"/pods/{name}-\d+/binding$", status=status, times=self.rng.randrange(1, 4)))

    def lose_answers(self) -> None:
        """Make the next bindings, and let nobody know."""
        self.server.faults.add(Fault(path=r"/binding$", lose="answer", times=self.rng.randrange(1, 3)))

    def refuse_statuses(self) -> None:
        """Refuse the next writes of what groups are told of themselves, and of pods that were given up."""
        path = self.rng.choice((r"/podgroups/[^/]+/status$", r"/pods/[^/]+$"))
        status = self.rng.choice((403, 409))
        self.server.faults.add(Fault(method="PATCH", path=path, status=status, times=self.rng.randrange(1, 5)))

    async def restart(self) -> None:
        """Stop the scheduler, whatever it is doing, and start another one; what it had in memory is lost."""
        await self.cluster.close()
        self._count_told()
        self.cluster._frameworks.clear()
        self.checker.judge(None)
        self.checker.scheduler_is_gone()
        self.framework = self._schedule()
        await self.framework.start()

    # --- the end ---------------------------------------------------------------------------------

    def end(self) -> None:
        """Let go well whatever can, make room, let time pass: whoever has what it takes is bound."""
        try:
            self.runner.run(self._end())
        finally:
            self.runner.close()

    async def _end(self) -> None:
        try:
            await self._mend()
            await self.advance(30)
            await self._see_to_it_that_all_are_bound()
            self.cluster.assert_invariants()
            self._count_told()
            self.counts += self.checker.counts
        finally:
            self.checker.close()
            await self.cluster.close()

    async def _mend(self) -> None:
        self.server.faults.clear()
        if self.way.counting.api_version and not self._served():
            self.server.add(*self.way.definitions())
        self.open_gates()
        for group in GROUPS:
            if self.way.counting.api_version and not self._object(group):
                self._declare(group, self.minimum.get(group, 2))
            # A single one that only those that wait could help would wait for good.
            plain = {f"{GANG}groups": None, f"{GANG}match-policy": None}
            self._patch_object(group, {"metadata": {"annotations": plain}})
        await self.advance(60)
        for group in GROUPS:
            for _ in range(self.checker.minimum(group) - len(self._countable(group))):
                self._pods(group, 1)
        self._node(200)

    def _countable(self, group: str) -> list[dict[str, Any]]:
        """Return the living members that were not given up."""
        found = []
        for pod in self._living():
            metadata = pod["metadata"]
            name = (metadata.get("labels") or {}).get(self.way.counting.label) if self.way.counting.label else None
            if self.way.counting is Counting.IN_TREE:
                name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
            given_up = (metadata.get("annotations") or {}).get(f"{GANG}timeout") == "true" and not pod["spec"].get(
                "nodeName"
            )
            if f"{metadata['namespace']}/{name}" == group and not given_up:
                found.append(pod)
        return found

    async def _see_to_it_that_all_are_bound(self) -> None:
        for _ in range(20):
            left = self._left()
            if not left:
                return
            await self.advance(30)
        told = {
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": [
                one.get("message", "") for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"
            ]
            for pod in left
        }
        raise AssertionError(f"not bound after ten minutes, with room for all: {told}")

    def _left(self) -> list[dict[str, Any]]:
        return [
            pod
            for pod in self._living()
            if not pod["spec"].get("nodeName")
            and (pod["metadata"].get("annotations") or {}).get(f"{GANG}timeout") != "true"
        ]

    def _count_told(self) -> None:
        """Count what was told about since the last time."""
        for event in self.cluster.events("FailedScheduling"):
            for what, texts in _TOLD.items():
                self.counts[what] += any(text in event["note"] for text in texts)


#: How each history may begin, by name.
OPENINGS: dict[str, Callable[[GroupHistory], Any]] = {
    name: getattr(GroupHistory, name)
    for name in sorted(vars(GroupHistory))
    if name.startswith("open_") and name != "open_gates"
}

#: Everything that can happen, by name.
EVENTS: dict[str, Callable[[GroupHistory], Any]] = {
    name: getattr(GroupHistory, name)
    for name in (
        "change_annotations",
        "change_minimum",
        "complete_pod",
        "annotate_pod",
        "cordon_or_uncordon_node",
        "create_gated_pod",
        "create_node",
        "create_plain_pod",
        "create_pods",
        "delete_node",
        "delete_or_create_definition",
        "delete_or_create_object",
        "delete_pod",
        "fail_binds",
        "join_or_part_gangs",
        "lose_answers",
        "nothing",
        "open_gates",
        "recreate_pod",
        "refuse_statuses",
        "relabel_pod",
        "restart",
    )
}
