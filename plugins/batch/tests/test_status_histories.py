"""Random histories of jobs: the checker of logs finds every queue status equal to the sums of bound requests."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.api import PriorityClass
from pyscheduler_lab.audit import Change, History, Options, check

_KINDS = [("v1", "Pod"), ("v1", "Node"), ("scheduling.k8s.io/v1", "PriorityClass"), ("events.k8s.io/v1", "Event")]


class Recording:
    """Keeps every write to objects of some kinds, with its time."""

    def __init__(self, server: EmbeddedCluster, kinds: list[tuple[str, str]]) -> None:
        self.server = server
        self.changes: list[Change] = []
        for api_version, kind in kinds:
            self._follow(api_version, kind)

    def _follow(self, api_version: str, kind: str) -> None:
        resource = self.server.resource(api_version, kind)
        collection = self.server.store.collection(resource.collection)
        position = collection.position_after(self.server.store.version)

        def read() -> None:
            nonlocal position
            for change in collection.read(position, 10_000):
                position += 1
                obj = {"apiVersion": api_version, "kind": kind, **change.record.decode()}
                self.changes.append(
                    Change(at=self.server.clock.wall(), revision=change.version, type=change.type, obj=obj)
                )

        collection.listen(read)

    def history(self) -> History:
        """Return the log until now."""
        return History.of(self.changes, end=self.server.clock.wall())


def _begin(batch: Any) -> None:
    """Create two nodes, a tree of queues, and a priority class of jobs that may not be evicted."""
    batch.nodes(2, cpu="8")
    batch.cluster.add(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 200},
        PriorityClass,
    )
    if batch.preset == "kai":
        batch.queue("dept")
        for name in ("a", "b", "c"):
            batch.queue(name, **({"parentQueue": "dept"} if name != "c" else {}))
    else:
        for name in ("root", "a", "b", "c"):
            batch.queue(name, weight=1)


def _act(batch: Any, rng: random.Random, number: int) -> None:
    """Create a job, move a group, or let pods end or be deleted."""
    pods = [pod for pod in batch.cluster.pods() if not pod.is_terminating]
    chosen = rng.sample(pods, min(len(pods), rng.randint(1, 3)))
    groups = batch.cluster.objects(batch.group_kind.type)
    what = rng.random()
    if what < 0.5 or not pods:
        size = rng.randint(1, 4)
        high = {"priorityClassName": "high"} if rng.random() < 0.3 else {}
        queue = rng.choice(["a", "b", "c", "c", "missing"])
        batch.group(f"job{number}", queue, rng.randint(1, size), **high)
        memory = rng.choice(["1Gi", "1500Mi"])
        batch.pods(f"job{number}", size, requests={"cpu": rng.choice(["500m", "1", "3"]), "memory": memory})
    elif what < 0.65:
        group = rng.choice(groups)
        batch.cluster.patch(type(group), group.name, {"spec": {"queue": rng.choice(["a", "b", "c"])}})
    elif what < 0.85:
        batch.go(rng.choice(["Succeeded", "Failed"]), *(pod.name for pod in chosen if pod.node_name))
    else:
        for pod in chosen:
            batch.cluster.delete_pod(pod.name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("system", ["kai", "volcano"])
async def test_queue_status_equals_the_sums_of_bound_requests(
    request: pytest.FixtureRequest, system: str, seed: int
) -> None:
    """Whatever jobs come and go, the checker finds no wrong status, and no pod without a reason."""
    batch, rng = request.getfixturevalue(system), random.Random(seed)
    kinds = [(kind.api_version, kind.kind) for kind in (batch.group_kind, batch.queue_kind)]
    recording = Recording(batch.cluster.server, [*_KINDS, *kinds])
    _begin(batch)
    lifecycle = batch.cluster.server.lifecycle()
    lifecycle.start()
    scheduler = await batch.start()
    for number in range(40):
        _act(batch, rng, number)
        await batch.pass_time(rng.choice([0.3, 1.0, 5.0]))
    await batch.pass_time(60)
    verdict = check(recording.history(), Options(schedulers=frozenset({"batch"}), formula="none", status_seconds=2.5))
    wrong = [str(each) for each in verdict.violations if each.rule in {8, 9}]
    assert wrong == []
    assert verdict.judged[9] > 20
    assert verdict.judged[8] > 5
    assert scheduler.warnings == {}
    lifecycle.stop()
