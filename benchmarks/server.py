"""An API server for the benchmarks, in a process of its own, so that its CPU time does not count as the scheduler's."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections import deque
from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from benchmarks import clusters
from benchmarks.batch_objects import busy_cluster, gang, racks, workload, workload_pods
from benchmarks.cohort_stage import CohortStage
from benchmarks.secure import Identity
from benchmarks.stage import Stage
from benchmarks.weight import environment, running_status
from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.resources.open_definitions import open_definition
from kube_testserver.rules.deletion import DeleteOptions
from pyscheduler.podgroup.wire import KAI_PODGROUPS
from pyscheduler.serving.gc_tuning import rare_collections
from pyscheduler.testing.builders import pod_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kube_testserver.access.users import User
    from kube_testserver.requests import Request

__all__ = ["Server", "created_after", "serving", "serving_case", "serving_cohorts"]


def created_after(seconds: float, *, per_second: int, filling: int, filling_seconds: float) -> float:
    """Return how many pods `come_and_go` has created after a time."""
    return per_second * (seconds + (filling - 1) * min(seconds, filling_seconds))


class _Desk:
    """The cluster, and the orders it takes."""

    def __init__(
        self, tasks: asyncio.TaskGroup, *, nodes: int, pods: int, tokens: Mapping[str, User] | None = None
    ) -> None:
        self._tasks = tasks
        self._rng = random.Random(1)
        self.cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1), tokens=tokens)
        self.cluster.add(*clusters.nodes(nodes))
        for pod in clusters.running_pods(pods, nodes):
            self.cluster.add(pod)
        #: When a pod was created, and after how long the binding of one arrived, in seconds.
        self._created: dict[str, float] = {}
        self._reactions: list[float] = []
        self._bound = 0
        self._handle = self.cluster.router.handle
        self.cluster.router.handle = self._note  # type: ignore[method-assign]  # to see when requests arrive

    async def _note(self, request: Request) -> Any:
        if request.path.endswith("/binding"):
            created = self._created.pop(request.path.split("/")[-2], None)
            if created is not None:
                self._reactions.append(time.perf_counter() - created)
            self._bound += 1
        return await self._handle(request)

    # Orders

    def fill_with_batch(self, *, nodes: int, is_full: bool = True) -> object:
        """Create a cluster whose GPUs borrowing queues hold; from now on pods run, and evicted ones end.

        `is_full`: False for a cluster without pods.
        """
        for manifest in busy_cluster(nodes, is_full=is_full):
            self.cluster.add(manifest)
        self._kubelets = self.cluster.lifecycle(stop_seconds=0.5)
        self._kubelets.start()
        return nodes

    def fill_with_racks(self, *, nodes: int, rack_nodes: int) -> object:
        """Create empty nodes in racks; from now on pods run."""
        for manifest in racks(nodes, rack_nodes):
            self.cluster.add(manifest)
        self._kubelets = self.cluster.lifecycle(stop_seconds=0.5)
        self._kubelets.start()
        return nodes

    def create_gang_in_block(self, *, pods: int) -> object:
        """Create one gang that requires a block of racks and prefers one rack."""
        constraint = {"topology": "t", "requiredTopologyLevel": "block", "preferredTopologyLevel": "rack"}
        for manifest in gang("racked", "all", pods, group={"topologyConstraint": constraint}):
            self.cluster.add(manifest)
        return pods

    def create_workloads(self, *, count: int, pods: int, is_ready: bool) -> object:
        """Create PyTorchJobs and then their pods, all at once; `is_ready`: with a group of all pods for each."""
        self.cluster.add(open_definition("kubeflow.org", "PyTorchJob", "pytorchjobs", ["v1"]))
        owners = self.cluster.add(*(workload(f"job-{number:05d}", "starved", pods) for number in range(count)))
        for owner in owners:
            name = owner["metadata"]["name"]
            if is_ready:
                self.cluster.add(next(gang(name, "starved", pods)))
            for pod in workload_pods(owner, pods):
                if is_ready:
                    pod["metadata"]["annotations"] = {"pod-group-name": name}
                self.cluster.add(pod)
        return count

    def count_groups(self) -> object:
        """Return how many PodGroups of KAI there are."""
        resource = self.cluster.resource(KAI_PODGROUPS.type.api_version, "PodGroup")
        return len(self.cluster.registry.collection(resource).page().records)

    def create_gangs(self, *, count: int, pods: int, pause_seconds: float, queue: str, prefix: str) -> object:
        """Create gangs one after the other, at random about so often, in the background."""
        self._tasks.create_task(self._create_gangs(count, pods, pause_seconds, queue, prefix))
        return count

    async def _create_gangs(self, count: int, pods: int, pause: float, queue: str, prefix: str) -> None:
        for number in range(count):
            for manifest in gang(f"{prefix}-{number:05d}", queue, pods):
                self.cluster.add(manifest)
            await asyncio.sleep(pause * 2 * self._rng.random())

    def create(self, *, count: int, pause_seconds: float, prefix: str, heavy: bool = False) -> object:
        """Create pods one after the other, at random about so often, in the background; `heavy` ones have 8 kB."""
        self._tasks.create_task(self._create(count, pause_seconds, prefix, heavy=heavy))
        return count

    async def _create(self, count: int, pause: float, prefix: str, *, heavy: bool) -> None:
        for pod in clusters.pods(count, prefix=prefix):
            if heavy:
                pod["spec"]["containers"][0]["env"] = environment()
            self._created[pod["metadata"]["name"]] = time.perf_counter()
            self.cluster.add(pod)
            await asyncio.sleep(pause * 2 * self._rng.random())

    def come_and_go(self, *, per_second: int, life_seconds: float, filling: int, filling_seconds: float) -> object:
        """From now on, create so many pods each second and delete each after its life; every 20th fits no node.

        For the first `filling_seconds`, `filling` times as many are created. Bound pods run until they are deleted.
        """
        self._kubelets = self.cluster.lifecycle(stop_seconds=0.5)
        self._kubelets.start()
        wanted = partial(created_after, per_second=per_second, filling=filling, filling_seconds=filling_seconds)
        self._tasks.create_task(self._come_and_go(wanted, life_seconds))
        return per_second

    async def _come_and_go(self, wanted: Callable[[float], float], life: float) -> None:
        pods = self.cluster.resource("v1", "Pod")
        alive: deque[tuple[float, str]] = deque()
        began, made = time.monotonic(), 0
        while True:
            now = time.monotonic()
            while made < wanted(now - began):
                cpu = "1000" if made % 20 == 0 else "100m"
                pod = pod_manifest(f"soak-{made:08d}", requests={"cpu": cpu, "memory": "128Mi"}, labels={"app": "soak"})
                self.cluster.add(pod)
                alive.append((now, pod["metadata"]["name"]))
                made += 1
            while alive and alive[0][0] < now - life:
                self.cluster.registry.delete(pods, "default", alive.popleft()[1], DeleteOptions())
            await asyncio.sleep(0.05)

    def reactions(self) -> object:
        """Return how long each binding took to arrive since its pod was there, and forget it."""
        found, self._reactions = self._reactions, []
        return found

    def bound(self) -> object:
        """Return how many bindings have arrived."""
        return self._bound

    def run_pods(self) -> object:
        """Let every bound pod run, as its kubelet says: the status grows to what real ones have."""
        collection = self.cluster.registry.collection(self.cluster.resource("v1", "Pod"))
        records = collection.page().records
        for record in records:
            body = record.decode()
            if body["spec"].get("nodeName"):
                collection.replace(record, {**body, "status": {**body["status"], **running_status()}})
        return len(records)

    def remove(self, *, prefix: str) -> object:
        """Delete the pods whose names begin so."""
        resource = self.cluster.resource("v1", "Pod")
        collection = self.cluster.registry.collection(resource)
        records = collection.page(prefix=f"default/{prefix}").records
        for record in records:
            collection.remove(record)
        return len(records)

    def forget(self, *, touch: bool) -> object:
        """Forget all old versions and end every watch: whoever watched has to list again.

        `touch`: every node and pod is another version then, as after a night without a connection.
        """
        watches = self.cluster.router.drop_watches(how="cut")
        for kind in ("Node", "Pod") if touch else ():
            collection = self.cluster.registry.collection(self.cluster.resource("v1", kind))
            for record in collection.page().records:
                body = record.decode()
                body["metadata"].setdefault("labels", {})["touched"] = "true"
                collection.replace(record, body)
        self.cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "later-"}})
        self.cluster.store.compact()
        return watches


async def _serve(arguments: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    identity = Identity.make() if arguments.pop("secure", False) else None
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    async with asyncio.TaskGroup() as tasks:
        if "cohorts" in arguments:
            desk: Any = CohortStage(arguments["cohorts"], short=arguments["short"])
        elif "name" in arguments:
            desk = Stage.of(**arguments, tokens=identity.tokens if identity else None)
        else:
            desk = _Desk(tasks, **arguments, tokens=identity.tokens if identity else None)
        server = desk.cluster.server(tls=identity.context if identity else None)
        await server.start()
        print(json.dumps({"url": server.url, "identity": identity.told() if identity else None}), flush=True)
        async for line in orders:
            order = json.loads(line)
            answer = getattr(desk, order.pop("do"))(**order)
            print(json.dumps(await answer if asyncio.iscoroutine(answer) else answer), flush=True)
        await server.stop()


class Server:
    """The other end: gives orders to a server in another process."""

    def __init__(self, orders: IO[str], answers: IO[str]) -> None:
        self._orders = orders
        self._answers = answers
        began = json.loads(answers.readline())
        self.url: str = began["url"]
        #: What has to be known to be let in; None where everybody is.
        self.identity: dict[str, str] | None = began["identity"]

    def __call__(self, what: str, **keywords: object) -> Any:
        """Give an order and return its answer."""
        self._orders.write(json.dumps({"do": what, **keywords}) + "\n")
        self._orders.flush()
        return json.loads(self._answers.readline())


@contextmanager
def serving(*, nodes: int, pods: int = 0, secure: bool = False) -> Iterator[Server]:
    """Serve a cluster of that size, its pods running, while the block runs; `secure` over TLS and with a token."""
    with _serving({"nodes": nodes, "pods": pods, "secure": secure}) as server:
        yield server


@contextmanager
def serving_case(name: str, nodes: int, *, distinct: bool, measured: int | None, secure: bool) -> Iterator[Server]:
    """Serve a `Stage` while the block runs, `secure` over TLS and with a token; its methods are the orders."""
    arguments = {"name": name, "nodes": nodes, "distinct": distinct, "measured": measured, "secure": secure}
    with _serving(arguments) as server:
        yield server


@contextmanager
def serving_cohorts(name: str, *, short: bool) -> Iterator[Server]:
    """Serve a `CohortStage` while the block runs; its methods are the orders."""
    with _serving({"cohorts": name, "short": short}) as server:
        yield server


@contextmanager
def _serving(arguments: dict[str, Any]) -> Iterator[Server]:
    command = [sys.executable, "-m", "benchmarks.server", json.dumps(arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Server(process.stdin, process.stdout)
        finally:
            process.stdin.close()
            process.terminate()


if __name__ == "__main__":
    with rare_collections():
        asyncio.run(_serve(json.loads(sys.argv[1])))
