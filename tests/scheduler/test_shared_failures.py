"""Pods that share a failure are scheduled as if each of them had been tried: at the same time, on the same node."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings

from pyscheduler.api import Node, Pod
from pyscheduler.framework import QueuedPodInfo
from pyscheduler.framework.errors import APIError
from pyscheduler.framework.plugin_failures import PluginFailures
from pyscheduler.podgroup import DIALECTS, DialectTable
from pyscheduler.runtime.cooperative_yield import run_now
from pyscheduler.scheduler.queued_pods import QueuedPods
from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle
from pyscheduler.testing import FakeCluster, FakeFramework
from pyscheduler_coscheduling.plugin import Coscheduling

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PLAIN = "profiles: [{schedulerName: pyscheduler}]"
COSCHEDULING = """profiles:
- schedulerName: pyscheduler
  plugins:
    queueSort: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}]}
    multiPoint: {enabled: [{name: Coscheduling}]}
  pluginConfig:
  - {name: Coscheduling, args: {deniedPGExpirationTimeSeconds: 0, permitWaitingTimeSeconds: 60}}
"""
CONFIGS = {
    "default": PLAIN,
    "sampling": "percentageOfNodesToScore: 5\n" + PLAIN,
    "coscheduling": COSCHEDULING,
    "gang": """profiles:
- schedulerName: pyscheduler
  plugins:
    queueSort: {disabled: [{name: "*"}], enabled: [{name: GangSort}]}
    multiPoint: {enabled: [{name: Gang}]}
""",
}
#: For histories of groups: a group that failed is refused for some seconds, or is not.
GROUP_CONFIGS = {
    "coscheduling": COSCHEDULING,
    "windows": COSCHEDULING.replace("TimeSeconds: 0", "TimeSeconds: 2"),
}
#: What scheduler-plugins declares groups with.
POD_GROUP = DialectTable(DIALECTS).named("sigs").kinds[0]
#: What pods ask for: few kinds, so that many are alike.
KINDS: tuple[dict[str, Any], ...] = (
    {"requests": {"cpu": "1"}},
    {"requests": {"cpu": "2"}},
    {"requests": {"cpu": "2"}, "labels": {"app": "web"}},
    {"requests": {"cpu": "1"}, "node_selector": {"zone": "a"}},
)
EVENTS: tuple[str, ...] = (
    *("add", "add", "add", "add_group", "free", "free", "free", "delete_waiting", "grow", "cordon", "add_node"),
    *("label", "gate", "open", "nominate", "flush"),
)
#: Mostly groups, which need more room than there is.
GROUP_EVENTS: tuple[str, ...] = ("add", "add_pod_group", "add_pod_group", "add_pod_group", *EVENTS)


class History:
    """A cluster that is too small, and what happens to it; the same for the same seed."""

    def __init__(
        self, seed: int, config: str, *, priorities: tuple[int, ...] = (0,), events: tuple[str, ...] = EVENTS
    ) -> None:
        self.rng = random.Random(seed)
        self.priorities = priorities
        self.events = events
        self.config = config
        self.number = 0
        #: When, which pod got which node.
        self.placed: list[tuple[float, str, str]] = []
        self.facts: list[dict[str, tuple[object, ...]]] = []

    async def run(self, steps: int) -> None:
        """Let things happen, and note the facts after each."""
        self.cluster = FakeCluster(seed=1)
        self.cluster.serve(POD_GROUP)
        for _ in range(3 if self.config != "sampling" else 105):
            self.add_node()
        config = HEADER + (CONFIGS | GROUP_CONFIGS)[self.config]
        self.framework: FakeFramework = self.cluster.framework(config=config, seed=3)
        try:
            await self.framework.start()
            self.add(count=30 if self.config != "sampling" else 240)
            for _ in range(steps):
                with contextlib.suppress(APIError):  # the object may be gone
                    more = getattr(self, self.rng.choice(self.events))()
                    if more is not None:
                        await more
                await self.framework.settle()
                await self.cluster.clock.advance(self.rng.choice((0.0, 0.0, 0.4, 1.0, 7.0, 40.0)))
                self.facts.append(self.queued())
            self.framework.assert_invariants()
        finally:
            await self.cluster.close()

    def queued(self) -> dict[str, tuple[object, ...]]:
        """Return the facts about each pod in the queue."""
        queue = self.framework.scheduler.queue
        return {
            info.pod.name: (
                queue.place_of(info.pod.uid),
                info.attempts,
                info.unschedulable_count,
                info.consecutive_errors,
                info.enqueued_at,
                queue.sub_queues.backoff.end_of_backoff(info),
                info.rejectors,
                info.was_flushed,
                queue.nominator.node_of(info.pod.uid),
                (after.serve_backoff, after.room_for) if (after := info.after_failure) is not None else None,
            )
            for info in queue.sub_queues
        } | {"": (self.framework.scheduler.scheduling.pipeline.next_start,)}

    # What happens

    def add(self, count: int | None = None, **keywords: Any) -> None:
        kind, priority = self.rng.choice(KINDS), self.rng.choice(self.priorities)
        for _ in range(count or self.rng.randrange(1, 9)):
            self.number += 1
            self.cluster.add_pod(f"p{self.number}", priority=priority, **{**kind, **keywords})
            if count is not None:
                kind, priority = self.rng.choice(KINDS), self.rng.choice(self.priorities)

    def add_group(self) -> None:
        self.number += 1
        group, size = f"g{self.number}", self.rng.randrange(2, 5)
        about = {"scheduling.k8s.io/group-name": group, "gang.scheduling.koordinator.sh/name": group}
        about["gang.scheduling.koordinator.sh/min-available"] = str(size)
        for _ in range(size):
            self.number += 1
            requests = {"cpu": "1"}
            prefix = "pod-group.scheduling.sigs.k8s.io/"
            labels = {f"{prefix}name": group, f"{prefix}min-available": str(size)}
            self.cluster.add_pod(f"p{self.number}", requests=requests, annotations=about, labels=labels)

    def add_pod_group(self) -> None:
        """Add a group that a PodGroup declares; its members mostly ask for the same."""
        self.number += 1
        group, size = f"g{self.number}", self.rng.randrange(2, 7)
        kind, priority = self.rng.choice(KINDS), self.rng.choice(self.priorities)
        about = {"apiVersion": POD_GROUP.api_version, "kind": POD_GROUP.kind, "spec": {"minMember": size}}
        self.cluster.add({**about, "metadata": {"name": group, "namespace": "default"}}, POD_GROUP.type)
        for _ in range(size):
            self.number += 1
            asked = self.rng.choice(KINDS) if self.rng.random() < 0.1 else kind
            labels = {**asked.get("labels", {}), "scheduling.x-k8s.io/pod-group": group}
            self.cluster.add_pod(f"p{self.number}", priority=priority, **{**asked, "labels": labels})

    async def free(self) -> None:
        """Delete pods with a node, one after the other: the order of simultaneous events depends on what is written."""
        placed = sorted(pod.name for pod in self.cluster.pods() if pod.node_name)
        for name in self.rng.sample(placed, min(len(placed), self.rng.randrange(1, 4))):
            self.cluster.delete_pod(name)
            await self.framework.settle()

    def _waiting(self) -> str:
        names = sorted(pod.name for pod in self.cluster.pods() if not pod.node_name)
        return self.rng.choice(names) if names else "none"

    def delete_waiting(self) -> None:
        self.cluster.delete_pod(self._waiting())

    def label(self) -> None:
        self.cluster.patch(Pod, self._waiting(), {"metadata": {"labels": {"app": self.rng.choice("xy")}}})

    def nominate(self) -> None:
        node = self.rng.choice(self.cluster.nodes()).name
        self.cluster.patch(Pod, self._waiting(), {"status": {"nominatedNodeName": node}}, status=True)

    def gate(self) -> None:
        self.add(scheduling_gates=["example.com/later"])

    def open(self) -> None:
        for pod in self.cluster.pods():
            if pod.spec.scheduling_gates:
                self.cluster.patch(Pod, pod.name, {"spec": {"schedulingGates": None}})

    def add_node(self) -> None:
        self.number += 1
        room = {"cpu": self.rng.choice(("1", "2", "4")), "pods": "110"}
        self.cluster.add_node(f"n{self.number}", allocatable=room, labels={"zone": self.rng.choice("ab")})

    def grow(self) -> None:
        node = self.rng.choice(self.cluster.nodes())
        amounts = {"cpu": str(self.rng.randrange(2, 6)), "pods": "110"}
        patch = {"status": {"allocatable": amounts, "capacity": amounts}}
        self.cluster.patch(Node, node.name, patch, namespace="", status=True)

    def cordon(self) -> None:
        node = self.rng.choice(self.cluster.nodes())
        self.cluster.patch(Node, node.name, {"spec": {"unschedulable": self.rng.random() < 0.4}}, namespace="")

    def flush(self) -> None:
        queue = self.framework.scheduler.queue
        queue._flush_unschedulable(self.cluster.clock.now() + 1e6)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the failures that pods share, and the cycles."""
    found: Counter[str] = Counter()
    share, cycle = QueuedPods._repeat_effects, SchedulingCycle.run_scheduling_cycle

    def sharing(self: QueuedPods, queued: QueuedPodInfo) -> None:
        found["shared"] += 1
        found["shared flushed"] += queued.was_flushed
        found["shared in groups"] += queued.after_failure is not None and queued.after_failure.serve_backoff
        share(self, queued)

    async def counting(self: SchedulingCycle, profile: Any, queued: QueuedPodInfo) -> Any:
        found["cycles"] += 1
        return await cycle(self, profile, queued)

    monkeypatch.setattr(QueuedPods, "_repeat_effects", sharing)
    monkeypatch.setattr(SchedulingCycle, "run_scheduling_cycle", counting)
    return found


class Silent:
    """Writes nothing: the tasks that write would let events come at other moments."""

    def write(self, *_: object, **__: object) -> None:
        """Write no condition."""

    def event(self, *_: object, **__: object) -> None:
        """Write no event."""


def try_instead(source: QueuedPods, queued: QueuedPodInfo) -> None:
    """Try a pod that would share a failure."""
    profile = source.profiles[queued.pod.scheduler_name]
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(source.scheduling.failure, "statuses", Silent())
        patches.setattr(profile, "event_recorder", Silent())
        placed = run_now(source.scheduling.run_scheduling_cycle(profile, queued))
    if placed is not None or source.scheduling.queue.nominator.node_of(queued.pod.uid):
        WRONG.append(queued.pod.name)


def try_next_instead(source: QueuedPods, queued: QueuedPodInfo) -> None:
    """Try the next pod, which would share a failure."""
    assert source.scheduling.queue.pop() is queued
    try_instead(source, queued)


#: By way of dealing with a failure that pods share: the methods to replace, and what with.
WAYS: dict[str, dict[str, Any]] = {
    "": {},
    # Each pod is tried when its turn comes, and other tasks run after each.
    "one by one": {"_is_hopeless": lambda *_: False},
    # Each pod is tried when it would share the failure.
    "at once": {"_share_failure": try_instead, "_share_next": try_next_instead},
}
WRONG: list[str] = []


def play(seed: int, config: str, way: str = "", *, steps: int = 25, **keywords: Any) -> History:
    """Return a history in which pods share failures, or are tried in some way."""
    history = History(seed, config, **keywords)
    reserve = SchedulingCycle.reserve

    def noting(self: SchedulingCycle, attempt: Any, placement: Any) -> Any:
        history.placed.append((self.clock.now(), attempt.queued.pod.name, placement.node_name))
        return reserve(self, attempt, placement)

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(SchedulingCycle, "reserve", noting)
        for name, method in WAYS[way].items():
            patches.setattr(QueuedPods, name, method)
        asyncio.run(history.run(steps))
    return history


def assert_equal(seed: int, config: str, *, at_each_turn: bool = False, **keywords: Any) -> None:
    """Raise AssertionError if shared failures change a decision, or a fact about a pod in the queue.

    In the other history, each pod is tried when it would share a failure. With `at_each_turn`, the decisions must also
    be those of a history in which each pod is tried at its turn, which takes time: an event that arrives meanwhile
    moves the pod again at once, so that it has one attempt more, and a longer backoff. Most histories have no such
    event.
    """
    WRONG.clear()
    history = play(seed, config, **keywords)
    at_once = play(seed, config, "at once", **keywords)
    assert not WRONG, f"{config} {seed}: pods that share a failure could be placed"
    assert history.placed == at_once.placed, f"{config} {seed}"
    for step, (one, other) in enumerate(zip(history.facts, at_once.facts, strict=True)):
        assert one == other, f"{config} {seed}, step {step}"
    if not at_each_turn:
        return
    # Events may come while a pod is tried then, so the numbers of attempts differ.
    one_by_one = play(seed, config, "one by one", **keywords)
    assert history.placed == one_by_one.placed, f"{config} {seed}"
    assert [step.keys() for step in history.facts] == [step.keys() for step in one_by_one.facts], f"{config} {seed}"


@pytest.mark.parametrize("config", CONFIGS)
def test_shared_failures_change_no_decision(config: str, counts: Counter[str]) -> None:
    """Nodes, times and their order are the same, and so are attempts and backoff of the pods that wait."""
    assert_equal(0, config, at_each_turn=True)
    assert counts["shared"] > 30, counts
    assert counts["shared flushed"], counts


def test_shared_failures_change_no_preemption(counts: Counter[str]) -> None:
    """The same victims go."""
    for seed in range(2):
        assert_equal(seed, "default", priorities=(0, 0, 10, 100))
    assert counts["shared"] > 20, counts


def test_shared_failures_of_members_change_no_decision(counts: Counter[str]) -> None:
    """Members of groups that wait for room fail together, and their groups are retried in the same order."""
    assert_equal(2, "coscheduling", at_each_turn=True, steps=15, events=GROUP_EVENTS)
    assert counts["shared in groups"] > 10, counts


def test_members_are_tried_if_their_plugin_fails(counts: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of `shared_failure` is reported and costs the shortcut, not the attempt."""
    error = RuntimeError("no idea")

    def fail(*_: object) -> None:
        raise error

    reported: list[BaseException] = []
    monkeypatch.setattr(Coscheduling, "shared_failure", fail)
    monkeypatch.setattr(PluginFailures, "report", lambda _, error, **__: reported.append(error))
    assert_equal(2, "coscheduling", steps=15, events=GROUP_EVENTS)
    assert error in reported
    assert not counts["shared in groups"]


#: Histories from each seed on; `make test` plays two.
COUNT = settings.default.max_examples // 5
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(20, 200, 20))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_two_hundred_histories_are_equal(seed: int, counts: Counter[str]) -> None:
    """Of all kinds of profiles."""
    for each in range(seed, seed + COUNT):
        config = sorted(CONFIGS)[each % len(CONFIGS)] if each % 5 else "default"
        assert_equal(each, config, steps=15, priorities=(0,) if each % 5 else (0, 0, 10, 100))
    assert counts["shared"] > 10 * COUNT, counts


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_two_hundred_histories_of_groups_are_equal(seed: int, counts: Counter[str]) -> None:
    """Of groups that find room, and of groups that do not; some may preempt."""
    for each in range(seed, seed + 3 * COUNT):
        priorities = (0,) if each % 5 else (0, 0, 10, 100)
        config = sorted(GROUP_CONFIGS)[each % 2]
        assert_equal(each, config, steps=15, priorities=priorities, events=GROUP_EVENTS)
    assert counts["shared in groups"] > COUNT, counts
