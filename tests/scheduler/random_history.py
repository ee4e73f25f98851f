"""Random histories of a cluster, and the invariants that hold throughout.

`RandomHistory` has one method for each kind of event; `test_nothing_lost` calls them in an order that hypothesis, or a
seed, chooses. It runs the whole scheduler on an embedded API server and a virtual clock.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

from kube_testserver.serving.faults import Fault
from pyscheduler.api import PySchedulerError, quantity_milli
from pyscheduler.framework.errors import APIError
from pyscheduler.testing import FakeCluster
from tests.malformed import bad_pod_manifest
from tests.scheduler.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.testing import FakeFramework

__all__ = ["EVENTS", "FAULTS", "RandomHistory"]

_ZONES = ("a", "b", "c")
_UNREADABLE = "a lot"
#: Each so many checks the API server, the cache, the snapshot and the queue look themselves over as well.
_THOROUGH = 10
_BIND = r"/binding$"
_STATUS = r"/pods/.*/status$"
_POD = r"/pods/[^/]+$"
#: Faults to arm, by name.
FAULTS: dict[str, dict[str, Any]] = {
    "bind 409": {"path": _BIND, "status": 409},
    "bind 429": {"path": _BIND, "status": 429, "retry_after_seconds": 1},
    "bind 500": {"path": _BIND, "status": 500},
    "bind request lost": {"path": _BIND, "lose": "request"},
    "bind answer lost": {"path": _BIND, "lose": "answer"},
    "bind slow": {"path": _BIND, "delay_seconds": 2.0},
    "status 409": {"path": _STATUS, "status": 409},
    "status 500": {"path": _STATUS, "status": 500},
    "status slow": {"path": _STATUS, "delay_seconds": 1.5},
    "watch 410": {"path": r"/pods$", "status": 410},
    "delete 500": {"method": "DELETE", "path": _POD, "status": 500},
    "delete answer lost": {"method": "DELETE", "path": _POD, "lose": "answer"},
    "delete slow": {"method": "DELETE", "path": _POD, "delay_seconds": 2.5},
}


class RandomHistory:
    """One history. `rng` decides what it happens to; `counts` says how often what happened."""

    def __init__(self, seed: int, *, share: float = 0.04) -> None:
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.faults: dict[str, Fault] = {}
        self.hits: Counter[str] = Counter()
        #: Where each pod was seen bound first.
        self.bound: dict[str, str] = {}
        #: What unreadable pods requested before.
        self.amounts: dict[str, str] = {}
        self._number = 0
        self._checks = 0
        Trouble.begin(seed, share)
        self.runner = asyncio.Runner()
        self.runner.run(self._begin())

    async def _begin(self) -> None:
        self.cluster = FakeCluster(seed=self.rng.getrandbits(32))
        self.framework = self._schedule()
        await self.framework.start()

    def _schedule(self) -> FakeFramework:
        return self.cluster.framework(enable=[Trouble], seed=self.rng.getrandbits(32))

    def happen(self, name: str) -> None:
        """Let one thing happen and some time pass, then check what must be true."""
        self.counts[name] += 1
        self.runner.run(self._happen(name))

    async def _happen(self, name: str) -> None:
        answer = EVENTS[name](self)
        if answer is not None:
            await answer
        await self._pass_time()
        self.check()

    async def _pass_time(self) -> None:
        """Give the scheduler no time at all, a few turns, all the turns it wants, or seconds."""
        choice = self.rng.randrange(4)
        if choice == 1:
            for _ in range(self.rng.randrange(1, 8)):
                await asyncio.sleep(0)
        elif choice == 2:
            await self.framework.settle()
        elif choice == 3:
            await self.cluster.clock.advance(self.rng.choice((0.1, 1.0, 3.0, 15.0)))

    # What happens

    def create_pod(self) -> None:
        self._number += 1
        hold = {"zone": self.rng.choice(_ZONES)} if self.rng.random() < 0.3 else {}
        self.cluster.add_pod(
            f"p{self._number}",
            requests={"cpu": f"{self.rng.randrange(1, 20)}00m"},
            priority=self.rng.choice((0, 0, 10, 100)),
            node_selector=hold,
            scheduling_gates=["example.com/later"] if self.rng.random() < 0.1 else [],
        )

    def create_malformed_pod(self) -> None:
        self._number += 1
        manifest = bad_pod_manifest(f"bad{self._number}", {"cpu": _UNREADABLE})
        manifest["metadata"]["uid"] = f"bad-{self._number}"
        self.cluster.server.plant(manifest)

    def mend_or_break_a_pod(self) -> None:
        """Make an object unreadable that could be read, or the other way round."""
        manifest = self._some_manifest()
        if manifest is not None and not manifest["spec"].get("nodeName"):
            if not self._mend(manifest):
                amounts = _amounts(manifest)
                self.amounts[manifest["metadata"]["uid"]] = amounts["cpu"]
                amounts["cpu"] = _UNREADABLE
            self._replace(manifest)

    def _mend(self, manifest: dict[str, Any]) -> bool:
        """Make an unreadable pod readable; return False where it is."""
        amounts = _amounts(manifest)
        if amounts["cpu"] != _UNREADABLE:
            return False
        amounts["cpu"] = self.amounts.pop(manifest["metadata"]["uid"], "100m")
        return True

    def delete_pod(self) -> None:
        self._delete(grace_seconds=0)

    def delete_pod_slowly(self) -> None:
        self._delete(grace_seconds=30)

    def let_deleted_pods_go(self) -> None:
        """Do what a kubelet does when the containers have stopped."""
        for manifest in self.cluster.server.pods():
            if manifest["metadata"].get("deletionTimestamp"):
                self.cluster.delete_pod(manifest["metadata"]["name"])

    def recreate_pod(self) -> None:
        manifest = self._some_manifest()
        if manifest is not None:
            name = manifest["metadata"]["name"]
            self.cluster.delete_pod(name)
            self.cluster.add_pod(name, requests={"cpu": "300m"})

    def label_pod(self) -> None:
        manifest = self._some_manifest()
        if manifest is not None:
            self._number += 1
            manifest["metadata"].setdefault("labels", {})["version"] = str(self._number)
            self._replace(manifest)

    def open_gates(self) -> None:
        for manifest in self.cluster.server.pods():
            if manifest["spec"].get("schedulingGates"):
                del manifest["spec"]["schedulingGates"]
                self._replace(manifest)

    def nominate_pod(self) -> None:
        """Let somebody else (an autoscaler, say) write a nomination into a pod."""
        manifest = self._some_manifest()
        if manifest is not None and not manifest["spec"].get("nodeName"):
            names = [node.name for node in self.cluster.nodes()]
            manifest["status"]["nominatedNodeName"] = self.rng.choice([*names, "", "nowhere"])
            self._replace(manifest)

    def bind_behind_its_back(self) -> None:
        """Let another scheduler bind a pod, to a node where nobody has promised anything."""
        manifest = self._some_manifest()
        if manifest is not None and not manifest["spec"].get("nodeName"):
            self._number += 1
            name = f"other{self._number}"
            self.cluster.add_node(name, allocatable={"cpu": "2"}, unschedulable=True)
            manifest["spec"]["nodeName"] = name
            manifest["status"].pop("nominatedNodeName", None)
            self._mend(manifest)
            self._replace(manifest)

    def create_node(self) -> None:
        self._number += 1
        self.cluster.add_node(
            f"n{self._number}",
            allocatable={"cpu": str(self.rng.randrange(1, 5))},
            labels={"zone": self.rng.choice(_ZONES)},
            unschedulable=self.rng.random() < 0.1,
        )

    def delete_node(self) -> None:
        """Delete a node together with its pods, as the node lifecycle controller and the pod collector would."""
        nodes = self.cluster.nodes()
        if nodes:
            name = self.rng.choice(nodes).name
            self.cluster.delete_node(name)
            for manifest in self.cluster.server.pods():
                if manifest["spec"].get("nodeName") == name:
                    self.cluster.delete_pod(manifest["metadata"]["name"])

    def update_node(self) -> None:
        nodes = self.cluster.server.nodes()
        if nodes:
            node = self.rng.choice(nodes)
            if self.rng.random() < 0.5:
                node["metadata"]["labels"]["zone"] = self.rng.choice(_ZONES)
            else:
                node["spec"]["unschedulable"] = not node["spec"].get("unschedulable", False)
            self._replace(node)

    async def wait(self) -> None:
        await self.cluster.clock.advance(self.rng.choice((1.0, 5.0, 40.0)))

    def drop_watches(self) -> None:
        self.cluster.server.router.drop_watches(how=self.rng.choice(("end", "cut", "within")))

    def arm_fault(self) -> None:
        name = self.rng.choice(list(FAULTS))
        # A handful in a row: the client's own retries do not get over all of them.
        fault = self.cluster.server.faults.add(Fault(times=self.rng.randrange(1, 8), **FAULTS[name]))
        if name in self.faults:
            self.hits[name] += self.faults[name].hits
        self.faults[name] = fault

    def clear_faults(self) -> None:
        self.cluster.server.faults.clear()

    def decide_waiting_pods(self) -> None:
        for waiting in self.framework.profile.handle.waiting_pods():
            if self.rng.random() < 0.4:
                waiting.allow("Trouble")
            elif self.rng.random() < 0.5:
                waiting.reject("Trouble", "not today")
            else:
                self.framework.profile.handle.reject_waiting_pod(waiting.pod.uid)

    def cut_a_binding_short(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task.get_name().startswith("bind ")]
        if tasks:
            self.counts["a binding was cut short"] += 1
            self.rng.choice(sorted(tasks, key=lambda task: task.get_name())).cancel()

    async def restart(self) -> None:
        """Stop the scheduler, whatever it is doing, and start another one."""
        await self.cluster.close()
        self.cluster._frameworks.clear()
        # Nobody moves the clock while it starts, so its lists must not run into a fault.
        self.clear_faults()
        self.framework = self._schedule()
        await self.framework.start()

    def _some_manifest(self) -> dict[str, Any] | None:
        pods = self.cluster.server.pods()
        return self.rng.choice(pods) if pods else None

    def _replace(self, manifest: dict[str, Any]) -> None:
        """Write an object as it is, past all that an API server would say to it."""
        server = self.cluster.server
        resource = server.resource_of(manifest)
        collection = server.registry.collection(resource)
        record = collection.get(resource.key(manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]))
        assert record is not None
        kept = {name: value for name, value in manifest.items() if name not in ("kind", "apiVersion")}
        collection.replace(record, kept)

    def _delete(self, grace_seconds: int) -> None:
        manifest = self._some_manifest()
        if manifest is not None:
            self.cluster.server.remove(
                "v1", "Pod", manifest["metadata"]["name"], namespace="default", grace_seconds=grace_seconds
            )

    # What must be true

    def check(self) -> None:
        """Raise AssertionError where a pod is lost, bound twice, or a node overcommitted."""
        self._mend_all(bound_only=True)
        self._checks += 1
        if self._checks % _THOROUGH == 0:
            self.cluster.assert_invariants()
        scheduler = self.framework.scheduler
        scheduler.waiting_pods.check_invariants()
        binding = {attempt.pod.uid for attempt in scheduler._bindings.values()}
        for pod in scheduler.pods:
            if pod.node_name or pod.metadata.deletion_timestamp:
                continue
            known = (
                scheduler.queue.place_of(pod.uid) is not None
                or pod.uid in binding
                or pod.uid in scheduler.handlers.unreadable_pods
                # Bound, and the watch is behind.
                or self._is_bound(pod.name, pod.uid)
            )
            assert known, f"pod {pod.key} is lost"
        used: Counter[str] = Counter()
        for manifest in self.cluster.server.pods():
            node_name = manifest["spec"].get("nodeName")
            if node_name:
                key, uid = manifest["metadata"]["name"], manifest["metadata"]["uid"]
                assert self.bound.setdefault(uid, node_name) == node_name, f"{key} was bound twice"
                assert not manifest["status"].get("nominatedNodeName"), f"{key} is bound and nominated"
                used[node_name] += quantity_milli(_amounts(manifest)["cpu"])
        for node in self.cluster.server.nodes():
            name = node["metadata"]["name"]
            assert used[name] <= quantity_milli(node["status"]["allocatable"]["cpu"]), f"{name} is overcommitted"

    def _mend_all(self, *, bound_only: bool) -> None:
        for manifest in self.cluster.server.pods():
            if (manifest["spec"].get("nodeName") or not bound_only) and self._mend(manifest):
                self.counts["a pod was bound while it was unreadable"] += bound_only
                self._replace(manifest)

    def _is_bound(self, name: str, uid: str) -> bool:
        try:
            pod = self.cluster.pod(name)
        except (APIError, PySchedulerError):
            return True  # gone, and the watch is behind
        return bool(pod.node_name) or pod.uid != uid

    def end(self) -> None:
        """Stop all trouble, make room, let time pass: every pod must get its node, and nothing be held for nobody."""
        try:
            self.runner.run(self._end())
        finally:
            self.runner.close()

    async def _end(self) -> None:
        for name, fault in self.faults.items():
            self.hits[name] += fault.hits
        Trouble.share = 0.0
        self.clear_faults()
        self.open_gates()
        self._mend_all(bound_only=False)
        for zone in _ZONES:
            self.cluster.add_node(f"large-{zone}", allocatable={"cpu": "500", "pods": "1000"}, labels={"zone": zone})
        await self.cluster.clock.advance(60)
        # No kubelet is there. As in kube-scheduler, a pod whose victims are ending waits until one is gone.
        for pod in self.cluster.pods():
            if pod.metadata.deletion_timestamp:
                self.cluster.delete_pod(pod.name)
        await self.cluster.clock.advance(400)
        self.check()
        self.cluster.assert_invariants()
        pending = [pod.key for pod in self.cluster.pods() if not pod.node_name and not pod.metadata.deletion_timestamp]
        assert not pending, f"pods without a node at the end: {pending}"
        scheduler = self.framework.scheduler
        assert scheduler.idle
        assert scheduler.cache.assumed_count == 0
        assert scheduler.cache.pod_count == sum(1 for pod in self.cluster.pods() if pod.node_name)
        assert not len(scheduler.waiting_pods)
        preemptor = self.framework.profile.preemptors["DefaultPreemption"]
        assert not any(preemptor.is_preempting(pod.uid) for pod in self.cluster.pods())
        for event in self.cluster.events("Preempted"):
            self.counts["a victim was turned away" if "memory" in event["note"] else "a victim was deleted"] += 1
        assert not scheduler.queue.nominator.nodes
        trouble = self.framework.plugin("Trouble")
        assert isinstance(trouble, Trouble)
        assert not trouble.reserved, "something is reserved for nobody"
        await self.cluster.close()


def _amounts(manifest: dict[str, Any]) -> dict[str, str]:
    amounts: dict[str, str] = manifest["spec"]["containers"][0]["resources"]["requests"]
    return amounts


#: Everything that can happen, by name.
EVENTS: dict[str, Callable[[RandomHistory], Any]] = {
    name: getattr(RandomHistory, name)
    for name in (
        "create_pod",
        "create_malformed_pod",
        "mend_or_break_a_pod",
        "delete_pod",
        "delete_pod_slowly",
        "let_deleted_pods_go",
        "recreate_pod",
        "label_pod",
        "open_gates",
        "nominate_pod",
        "bind_behind_its_back",
        "create_node",
        "delete_node",
        "update_node",
        "wait",
        "drop_watches",
        "arm_fault",
        "clear_faults",
        "decide_waiting_pods",
        "cut_a_binding_short",
        "restart",
    )
}
