"""A scheduler whose every decision is made twice: with nothing kept of earlier pods, and with what is kept.

`Twins` has one method per thing that can happen to a cluster and matter to what is kept; `test_reuse` calls them in any
order. Before each decision the same question is answered from the beginning, on the same snapshot with the same random
draws; everything that came of it must then come of what is kept.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from pyscheduler.api import (
    CSINode,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    Service,
    StorageClass,
)
from pyscheduler.framework import FilterPlugin, NodeStatuses, SignPlugin, Status
from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.diagnosis import FitError, NoNodesError
from pyscheduler.framework.errors import APIError, PluginError
from pyscheduler.framework.interfaces import NominatingInfo
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.runtime import placement
from pyscheduler.runtime.cooperative_yield import run_now
from pyscheduler.runtime.equivalence_cache.cache import EquivalenceCache
from pyscheduler.runtime.equivalence_cache.classes import EquivalenceClasses
from pyscheduler.runtime.placement import PlacementPipeline
from pyscheduler.testing import FakeCluster, make_pod, pod_manifest
from tests.scheduler.kinds import (
    CLAIM,
    CLASS,
    CLASS_CLAIM,
    CSI_NODE,
    KINDS,
    NODES,
    OWNER,
    WEB,
    make_volume,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from pyscheduler.api import KubeObject
    from pyscheduler.framework import Nodes, SignFragment
    from pyscheduler.queue.nominator import Nominator
    from pyscheduler.runtime.batching import BatchTurn
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.testing import FakeFramework

__all__ = ["CONFIGS", "EVENTS", "Twins"]

#: A profile each: as it comes; packing nodes, with a wish of its own; with a plugin that looks at the
#: time; and without default spreading, so that pods have signatures.
CONFIGS = (
    "profiles: [{schedulerName: pyscheduler}]",
    """profiles:
- schedulerName: pyscheduler
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: cpu, weight: 3}, {name: example.com/gpu, weight: 2}]
  - name: NodeAffinity
    args: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
      {weight: 7, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]}}
""",
    """profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: EvenMinutes}]}}
""",
    """profiles:
- schedulerName: pyscheduler
  pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List}}]
""",
)
_HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class EvenMinutes(FilterPlugin, SignPlugin):
    """Closes every other node in odd minutes: signs, and is asked anew all the same, since it promises nothing."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        """Refuse the nodes of even rows every other minute."""
        if int(self.handle.clock.now() // 60) % 2 == 0:
            return None
        closed = np.arange(len(nodes)) % 2 == 0
        return NodeStatuses.failing(closed, Status.unschedulable("node(s) were closed at this time"))

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        """Sign nothing in particular."""
        return ()


@attrs.frozen
class Decision:
    """All that came of one search."""

    placement: object
    error: str
    statuses: dict[str, Status]
    rejectors: frozenset[str]
    totals: list[list[int]]
    draws: object
    written: frozenset[str]
    evaluations: dict[tuple[str, str], int]


class Twins:
    """One history on a cluster of a few nodes. `counts` says how often what happened, and how often what was kept."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch, config: int = 0) -> None:
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._number = 0
        self._totals: list[list[int]] = []
        self._differing: list[tuple[str, Decision, Decision]] = []
        self._watch(monkeypatch)
        self.runner = asyncio.Runner()
        self.runner.run(self._begin(config))

    async def _begin(self, config: int) -> None:
        self.cluster = FakeCluster(seed=1)
        for _ in range(6):
            self.add_node()
        self.framework = await self._run(config)

    async def _run(self, config: int) -> FakeFramework:
        made = self.cluster.framework(config=_HEADER + CONFIGS[config], enable=[EvenMinutes], seed=3)
        await made.start()
        return made

    def happen(self, name: str) -> None:
        """Let one thing happen, and everything that follows from it."""
        self.counts[name] += 1
        self.runner.run(self._happen(name))
        for pod, expected, actual in self._differing:
            assert actual == expected, f"{pod} after {name}"
        for pod in self.cluster.pods():
            counted = self.framework.scheduler.cache.get_pod(pod.uid)
            if counted is not None and pod.node_name:
                assert counted.requests == PodInfo.of(pod).requests, f"{pod.key} after {name}"

    async def _happen(self, name: str) -> None:
        try:
            answer = EVENTS[name](self)
            if answer is not None:
                await answer
        except APIError:
            pass  # what is to be changed is not there, or there already
        await self.framework.settle()

    def end(self) -> None:
        """Look everything over, and close."""
        self.runner.run(self._end())
        self.runner.close()

    async def _end(self) -> None:
        # Not that no node is overcommitted: some were made smaller.
        self.framework.assert_invariants()
        await self.cluster.close()

    # Deciding twice

    def _watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Decide twice wherever the scheduler decides once, and count what is recalled."""
        find_node = PlacementPipeline.find_node
        score, cache = placement._Search.score, EquivalenceCache
        recall, recall_scores = cache._recall_filters, cache._recall_scores
        recall_nominated = cache._rejections_with_nominated

        def decide(*args: Any, **keywords: Any) -> object:
            return run_now(find_node(*args, **keywords))

        async def twice(
            pipeline: PlacementPipeline,
            profile: Profile,
            state: CycleState,
            pod: Pod,
            *,
            turn: BatchTurn | None = None,
            nodes: object = None,
        ) -> object:
            assert nodes is None, "no group has placements"
            return self._decide_twice(decide, pipeline, profile, state, pod, turn)

        async def noting(*args: Any) -> object:
            outcome = await score(*args)
            # The best ones first: what is kept of them must not be put right by a look at all totals.
            self._totals.append(list(outcome.best))
            self._totals.append(outcome.totals.tolist())
            return outcome

        def counting(name: str, found: Any) -> Any:
            if found is not None:
                self.counts[name if not hasattr(found, "rows") or len(found.rows) else "recalled a failure"] += 1
            return found

        monkeypatch.setattr(PlacementPipeline, "find_node", twice)
        monkeypatch.setattr(placement._Search, "score", noting)
        monkeypatch.setattr(cache, "_recall_filters", lambda *args: counting("recalled filters", recall(*args)))
        monkeypatch.setattr(cache, "_recall_scores", lambda *args: counting("recalled scores", recall_scores(*args)))
        monkeypatch.setattr(
            cache, "_rejections_with_nominated", lambda *args: counting("recalled nominated", recall_nominated(*args))
        )

    def _decide_twice(
        self,
        decide: Callable[..., object],
        pipeline: PlacementPipeline,
        profile: Profile,
        state: CycleState,
        pod: Pod,
        turn: BatchTurn | None,
    ) -> object:
        draws, start, sampling = (
            pipeline.tie_break.rng.getstate(),
            pipeline.next_start,
            profile._dependencies.rng.getstate(),
        )
        cache = profile.equivalence_cache
        assert cache is not None, profile.cache_obstacles
        classes, cache.classes = cache.classes, EquivalenceClasses(max_classes=0)
        expected, _ = self._decide(partial(decide, turn=_copy_of(turn)), pipeline, profile, CycleState(), pod)
        cache.classes = classes
        pipeline.tie_break.rng.setstate(draws)
        profile._dependencies.rng.setstate(sampling)
        pipeline.next_start = start
        own = state.written().keys()
        actual, outcome = self._decide(partial(decide, turn=turn), pipeline, profile, state, pod)
        if turn is not None and turn.hinted:
            self.counts["hints"] += 1
        # Some keys are the cycle's own, written before.
        actual = attrs.evolve(actual, written=actual.written - own)
        if actual != expected:
            # Not raised here, where the scheduler would take it for a failure of the attempt, and go on.
            self._differing.append((pod.key, expected, actual))
        self.counts["decisions"] += 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _decide(
        self, decide: Callable[..., object], pipeline: PlacementPipeline, profile: Profile, state: CycleState, pod: Pod
    ) -> tuple[Decision, object]:
        before = Counter(profile.evaluations())
        self._totals = []
        outcome: object
        statuses: dict[str, Status] = {}
        rejectors: frozenset[str] = frozenset()
        try:
            outcome = decide(pipeline, profile, state, pod)
        except FitError as error:
            outcome = error
            statuses = dict(error.diagnosis.node_statuses.items())
            rejectors = frozenset(error.diagnosis.unschedulable_plugins)
        except (NoNodesError, PluginError) as error:
            outcome = error
        failed = isinstance(outcome, Exception)
        decision = Decision(
            placement=None if failed else outcome,
            error=str(outcome) if failed else "",
            statuses=statuses,
            rejectors=rejectors,
            totals=self._totals,
            draws=pipeline.tie_break.rng.getstate(),
            written=frozenset(state.written()),
            evaluations=dict(Counter(profile.evaluations()) - before),
        )
        return decision, outcome

    # What happens

    def add_pods(self) -> None:
        kind = self.rng.choice(sorted(KINDS))
        for _ in range(self.rng.randrange(1, 5)):
            self._number += 1
            keywords = dict(KINDS[kind])
            namespace = self.rng.choice(("default", "default", "other"))
            manifest = pod_manifest(f"p{self._number}", namespace=namespace, **keywords)
            if kind == "owned":
                manifest["metadata"]["ownerReferences"] = [OWNER]
            self.cluster.add(manifest, Pod)

    def delete_pod(self) -> None:
        pods = self.cluster.pods()
        if pods:
            pod = self.rng.choice(pods)
            self.cluster.delete_pod(pod.name, namespace=pod.namespace)

    def delete_placed_pods(self) -> None:
        for pod in [pod for pod in self.cluster.pods() if pod.node_name]:
            if self.rng.random() < 0.5:
                self.cluster.delete_pod(pod.name, namespace=pod.namespace)

    def add_node(self) -> None:
        self._number += 1
        self.cluster.add_node(f"n{self._number}", **self._node())

    def _node(self) -> dict[str, Any]:
        return {
            "allocatable": self.rng.choice(NODES["allocatable"]),
            "labels": {"topology.kubernetes.io/zone": self.rng.choice("abc"), **self.rng.choice(NODES["labels"])},
            "taints": self.rng.choice(NODES["taints"]),
            "images": self.rng.choice(NODES["images"]),
        }

    def delete_node(self) -> None:
        nodes = self.cluster.nodes()
        if len(nodes) > 2:
            self.cluster.delete_node(self.rng.choice(nodes).name)

    def _change_node(self, patch: dict[str, Any], *, status: bool = False) -> None:
        self.cluster.patch(Node, self.rng.choice(self.cluster.nodes()).name, patch, namespace="", status=status)

    def relabel_node(self) -> None:
        self._change_node({"metadata": {"labels": {"disk": None, **self.rng.choice(NODES["labels"])}}})

    def taint_node(self) -> None:
        self._change_node({"spec": {"taints": self.rng.choice(NODES["taints"])}})

    def cordon_node(self) -> None:
        self._change_node({"spec": {"unschedulable": self.rng.random() < 0.4}})

    def resize_node(self) -> None:
        amounts = {"pods": "110", **self.rng.choice(NODES["allocatable"])}
        self._change_node({"status": {"allocatable": amounts, "capacity": amounts}}, status=True)

    def change_images(self) -> None:
        images = [{"names": [name], "sizeBytes": size} for name, size in self.rng.choice(NODES["images"]).items()]
        self._change_node({"status": {"images": images}}, status=True)

    def declare_features(self) -> None:
        features = self.rng.choice(([], ["RestartAllContainersOnContainerExits"]))
        self._change_node({"status": {"declaredFeatures": features}}, status=True)

    def relabel_namespace(self) -> None:
        team = self.rng.choice(("red", "blue", None))
        if not any(each.name == "other" for each in self.cluster.objects(Namespace)):
            self.cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}, Namespace)
        self.cluster.patch(Namespace, "other", {"metadata": {"labels": {"team": team}}}, namespace="")

    def relabel_pod(self) -> None:
        placed = [pod for pod in self.cluster.pods() if pod.node_name]
        if placed:
            pod = self.rng.choice(placed)
            patch = {"metadata": {"labels": {"app": self.rng.choice(("web", "db", None))}}}
            self.cluster.patch(Pod, pod.name, patch, namespace=pod.namespace)

    def resize_pod(self) -> None:
        """Let a node report what it has set aside for a pod, and what is in force, as in the middle of a resize."""
        placed = [pod for pod in self.cluster.pods() if pod.node_name]
        if not placed:
            return
        pod = self.rng.choice(placed)
        amounts = [{"cpu": cpu} for cpu in self.rng.choices(("100m", "300m", "900m", "2"), k=2)]
        reported = {"resources": {"requests": amounts[0]}, "allocatedResources": amounts[1]}
        statuses = [{"name": pod.spec.containers[0].name, "image": "", "imageID": "", **reported}]
        pending = {"type": "PodResizePending", "status": "True", "reason": self.rng.choice(("Deferred", "Infeasible"))}
        patch = {"status": {"containerStatuses": statuses, "conditions": [pending]}}
        self.cluster.patch(Pod, pod.name, patch, namespace=pod.namespace, status=True)

    def add_service(self) -> None:
        spec = {"selector": {"app": self.rng.choice(("web", "db"))}}
        self.cluster.add(_manifest(Service, "s", spec=spec), Service)

    def delete_service(self) -> None:
        self.cluster.delete(Service, "s")

    def add_replica_set(self) -> None:
        self.cluster.add(_manifest(ReplicaSet, "rs", spec={"selector": WEB}), ReplicaSet)

    def delete_replica_set(self) -> None:
        self.cluster.delete(ReplicaSet, "rs")

    def add_volume(self) -> None:
        self.cluster.add(make_volume(self.rng.choice("abc")), PersistentVolume)

    def delete_volume(self) -> None:
        self.cluster.delete(PersistentVolume, "volume", namespace="")

    def add_claim(self) -> None:
        self.cluster.add(self.rng.choice((CLAIM, CLASS_CLAIM)), PersistentVolumeClaim)

    def add_class(self) -> None:
        mode = self.rng.choice(("Immediate", "WaitForFirstConsumer"))
        self.cluster.add({**CLASS, "volumeBindingMode": mode}, StorageClass)

    def delete_class(self) -> None:
        self.cluster.delete(StorageClass, "slow", namespace="")

    def limit_attachments(self) -> None:
        name = self.rng.choice(self.cluster.nodes()).name
        self.cluster.add({**CSI_NODE, "metadata": {"name": name}}, CSINode)

    def lift_limit(self) -> None:
        limited = self.cluster.objects(CSINode)
        if limited:
            self.cluster.delete(CSINode, self.rng.choice(limited).name, namespace="")

    def nominate(self) -> None:
        """Promise a node to a pod that waits, as a preemption does."""
        waiting = [pod for pod in self.cluster.pods() if not pod.node_name]
        if waiting:
            name = self.rng.choice(self.cluster.nodes()).name
            self._nominator.add(PodInfo.of(self.rng.choice(waiting)), NominatingInfo(name))

    def take_back_a_nomination(self) -> None:
        for name in sorted(self._nominator.nodes):
            self._nominator.delete(self._nominator.pods_on(name)[0].pod)
            return

    @property
    def _nominator(self) -> Nominator:
        return self.framework.scheduler.queue.nominator

    def add_budget(self) -> None:
        status = {"disruptionsAllowed": self.rng.randrange(2)}
        manifest = _manifest(PodDisruptionBudget, "b", spec={"selector": WEB}, status=status)
        self.cluster.add(manifest, PodDisruptionBudget)

    def delete_budget(self) -> None:
        self.cluster.delete(PodDisruptionBudget, "b")

    def delete_claim(self) -> None:
        self.cluster.delete(PersistentVolumeClaim, self.rng.choice(("claim", "of-a-class")))

    async def pass_time(self) -> None:
        await self.cluster.clock.advance(self.rng.choice((1.0, 11.0, 61.0, 301.0)))

    async def reconfigure(self) -> None:
        await self.cluster.close()
        self.framework = await self._run(self.rng.randrange(len(CONFIGS)))

    def search_in_a_statement(self) -> None:
        """Decide about pods while others are placed, evicted and nominated in thought, and after that was undone."""
        scheduler = self.framework.scheduler
        snapshot = scheduler.snapshot
        scheduler.cache.update_snapshot(snapshot)
        kind = self.rng.choice(("plain", "large", "port", "spread", "near"))
        checkpoint = snapshot.checkpoint()
        for number in range(self.rng.randrange(1, 6)):
            pod = make_pod(f"what-if-{number}", **KINDS[kind])
            name = self._try(pod)
            if name is not None:
                snapshot.place(PodInfo.of(pod.with_node_name(name)), name)
            if self.rng.random() < 0.3:
                snapshot.nominate(PodInfo.of(make_pod(f"promised-{number}", **KINDS[kind])), snapshot.nodes.name(0))
            infos = [(info, node.name) for node in snapshot.nodes for info in node.pods]
            if infos and self.rng.random() < 0.3:
                snapshot.evict(*self.rng.choice(infos))
        snapshot.rollback(checkpoint)
        self._try(make_pod("after-that", **KINDS[kind]))

    def _try(self, pod: Pod) -> str | None:
        scheduler = self.framework.scheduler
        try:
            return run_now(scheduler.scheduling.pipeline.find_node(self.framework.profile, CycleState(), pod)).node_name
        except (FitError, NoNodesError):
            return None


def _copy_of(turn: BatchTurn | None) -> BatchTurn | None:
    """Return a turn that leaves what is carried over between pods as it is."""
    if turn is None:
        return None
    batch = copy.copy(turn.batch)
    batch._recorder = NullRecorder()
    if batch._list is not None:
        batch._list = copy.copy(batch._list)
        batch._list._order = copy.copy(batch._list._order)
    return attrs.evolve(turn, batch=batch)


def _manifest(type_: type[KubeObject], name: str, **parts: object) -> dict[str, object]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": type_.api_version, "kind": type_.kind, "metadata": metadata, **parts}


EVENTS: dict[str, Callable[[Twins], Any]] = {
    name: method for name, method in vars(Twins).items() if not name.startswith("_") and name not in {"happen", "end"}
}
