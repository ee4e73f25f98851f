"""`pyscheduler binder` and schedulers that write BindRequests, over HTTP, with kills at bad moments."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from kube_testserver.serving.faults import Fault
from pyscheduler.config.load import load, loads
from pyscheduler.testing import node_manifest, pod_manifest
from pyscheduler_batch.cli.binder import CONFIGURATION
from tests.integration.chaos import Books, arm_bindings, arrive, dropped_watches, nothing_lost, until
from tests.integration.conftest import Served
from tests.integration.programs import Api, nodes, program, served
from tests.processes import PATIENCE_SECONDS

CONFIGS = Path(__file__).parents[2] / "configs"
DEFINITION = CONFIGS / "crds/bindrequests.scheduling.run.ai.yaml"
REQUESTS = "/apis/scheduling.run.ai/v1alpha2/bindrequests"
#: By name of a request: uid, node and phase.
Requests: TypeAlias = dict[str, tuple[str, str, str]]
PODS = 120
#: Kills of the scheduler and the binder.
KILLS = 6
SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: BindRequest}], disabled: [{name: DefaultBinder}]}}
"""
BATCH = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: batch
  plugins:
    multiPoint:
      enabled: [{name: Batch}, {name: BindRequestReconciler}]
      disabled: [{name: DefaultPreemption}]
  pluginConfig: [{name: Batch, args: {preset: kai, binder: bindRequest}}]
"""


def definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition of BindRequests."""
    found: dict[str, Any] = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))
    return found


def arguments(command: str, url: str, *more: str) -> Sequence[str]:
    """Return a command line of a program without ports and lease."""
    return (command, "--health-port=0", "--secure-port=0", "--leader-elect=false", "--master", url, *more)


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Return the option with the configuration of a scheduler that writes BindRequests."""
    path = tmp_path / "scheduler.yaml"
    path.write_text(SCHEDULER, encoding="utf-8")
    return f"--config={path}"


async def requests_of(api: Api) -> Requests:
    """Return all requests."""
    return {
        each["metadata"]["name"]: (
            each["metadata"]["uid"],
            each["spec"]["selectedNode"],
            each.get("status", {}).get("phase", ""),
        )
        for each in await api.items(REQUESTS)
    }


async def until_requests(api: Api, so: Callable[[Requests], object]) -> Requests:
    """Wait until the requests are so; return them."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await requests_of(api)
            if so(found):
                return found
            await asyncio.sleep(0.05)


def all_succeeded(found: Requests) -> bool:
    """Return whether each request has the phase Succeeded."""
    return {phase for *_, phase in found.values()} == {"Succeeded"}


def test_the_file_says_what_the_command_does() -> None:
    """`configs/binder.yaml`, from which the permissions are printed, is the configuration of `pyscheduler binder`."""
    built_in = loads(CONFIGURATION)
    written = load(CONFIGS / "binder.yaml")
    assert written.profiles == built_in.profiles
    assert written.leader_election == built_in.leader_election
    assert written.client_connection == built_in.client_connection


async def test_a_scheduler_killed_after_its_requests_is_followed(served_cluster: Served, config: str) -> None:
    """Killed between requests and bindings: the next scheduler keeps the pods' nodes, and each pod is bound once."""
    cluster, api, url = served_cluster.cluster, served_cluster.api, served_cluster.url
    cluster.add(definition(), node_manifest("n1", allocatable={"cpu": "4"}))
    cluster.add(*(pod_manifest(f"p{number}", requests={"cpu": "1"}) for number in range(3)))
    books = Books(cluster)
    async with program(*arguments("run", url, config)) as scheduler:
        before = await until_requests(api, lambda found: len(found) == 3)
        scheduler.send(signal.SIGKILL)
        assert await scheduler.ended() == -signal.SIGKILL
    # First in the queue, it would take the room of the others.
    urgent = pod_manifest("urgent", requests={"cpu": "2"}, priority=1000, spec={"preemptionPolicy": "Never"})
    cluster.add(urgent)
    async with program(*arguments("run", url, config)) as scheduler:
        await scheduler.said("Pods wait for bindings of an earlier scheduler pods=3")
        await api.until_refused("urgent")
        assert books.made == {}
        async with program(*arguments("binder", url)) as binder:
            await api.until_bound(3)
            await until(lambda: set(books.made) == {"p0", "p1", "p2"})
            await scheduler.said("Successfully bound pod to node", times=3)
            binder.send(signal.SIGTERM)
            assert await binder.ended() == 0
        scheduler.send(signal.SIGTERM)
        assert await scheduler.ended() == 0
    after = await requests_of(api)
    assert {name: uid for name, (uid, *_) in after.items()} == {name: uid for name, (uid, *_) in before.items()}
    assert {phase for *_, phase in after.values()} == {"Succeeded"}
    assert set(books.made.values()) == {1}


async def test_a_binder_killed_after_a_binding_writes_the_status_later(served_cluster: Served, config: str) -> None:
    """Killed between a binding and the request's status: the next binder writes the status, and binds nothing again."""
    cluster, api, url = served_cluster.cluster, served_cluster.api, served_cluster.url
    cluster.add(definition(), node_manifest("n1", allocatable={"cpu": "4"}), pod_manifest("p", requests={"cpu": "1"}))
    books = Books(cluster)
    fault = cluster.faults.add(Fault(method="PATCH", path="/bindrequests/p/status$", lose="request"))
    async with program(*arguments("run", url, config)):
        async with program(*arguments("binder", url)) as binder:
            await until(lambda: fault.hits)
            binder.send(signal.SIGKILL)
            assert await binder.ended() == -signal.SIGKILL
        assert (await requests_of(api))["p"][2] == ""
        fault.times = fault.hits
        async with program(*arguments("binder", url)):
            await until_requests(api, all_succeeded)
    assert books.made == {"p": 1}


async def test_only_the_leading_binder_binds(served_cluster: Served, config: str) -> None:
    """Two binders share the lease `pyscheduler-binder`; the second one takes over when the first one ends."""
    cluster, api, url = served_cluster.cluster, served_cluster.api, served_cluster.url
    cluster.add(definition(), node_manifest("n1", allocatable={"cpu": "4"}), pod_manifest("p", requests={"cpu": "1"}))
    leading = [each for each in arguments("binder", url) if each != "--leader-elect=false"]
    async with program(*leading) as first:
        line = await first.said("Successfully acquired lease")
        assert "pyscheduler-binder" in line
        async with program(*leading) as second, program(*arguments("run", url, config)):
            await second.said("New leader elected")
            await api.until_bound(1)
            first.send(signal.SIGTERM)
            assert await first.ended() == 0
            await second.said("Successfully acquired lease")
            await api.create_pod("late", requests={"cpu": "1"})
            await api.until_bound(2)
            assert len(await api.until_told("Bound", 2)) == 2


async def test_a_batch_profile_binds_by_requests_in_one_process(tmp_path: Path) -> None:
    """With the reconciler in the profile no other program is needed; requests are collected with their pods."""
    path = tmp_path / "batch.yaml"
    path.write_text(BATCH, encoding="utf-8")
    folder = CONFIGS / "crds"
    objects = [
        *(
            yaml.safe_load((folder / f"{name}.scheduling.run.ai.yaml").read_text(encoding="utf-8"))
            for name in ("bindrequests", "podgroups", "queues")
        ),
        node_manifest("n1", allocatable={"cpu": "4"}),
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": "default"},
            "spec": {"resources": {name: {"quota": -1, "limit": -1} for name in ("cpu", "memory", "gpu")}},
        },
        *(
            pod_manifest(f"p{number}", scheduler_name="batch", labels={"kai.scheduler/queue": "default"})
            for number in range(2)
        ),
    ]
    async with (
        served(tmp_path, objects, options=["--controllers"]) as api,
        program(*arguments("run", api.url, f"--config={path}")) as scheduler,
    ):
        assert set((await api.until_bound(2)).values()) == {"n1"}
        assert set(await requests_of(api)) == {"p0", "p1"}
        assert (await api("DELETE", "/api/v1/namespaces/default/pods/p0", {"gracePeriodSeconds": 0}))[0] == 200
        await until_requests(api, lambda found: set(found) == {"p1"})
        scheduler.send(signal.SIGTERM)
        assert await scheduler.ended() == 0


async def test_scheduler_and_binder_are_killed_again_and_again(served_cluster: Served, config: str) -> None:
    """In the end each pod is bound exactly once, no node has too much, and each request has succeeded."""
    cluster, api, url = served_cluster.cluster, served_cluster.api, served_cluster.url
    seed = random.getrandbits(32)
    print(f"chaos seed {seed}")  # noqa: T201 - for whoever reads of a failure
    rng = random.Random(seed)
    cluster.add(definition(), *nodes(2))
    books = Books(cluster)
    arm_bindings(cluster)
    commands = {"run": arguments("run", url, config), "binder": arguments("binder", url)}
    async with asyncio.TaskGroup() as tasks, dropped_watches(cluster, rng):
        tasks.create_task(arrive(url, PODS, rate=60))

        async def keep(command: str) -> None:
            """Run a program, and kill it as soon as some more pods are bound."""
            for _ in range(KILLS // 2):
                async with program(*commands[command]) as running:
                    enough = min(sum(books.made.values()) + rng.randint(1, 20), PODS)
                    await until(lambda enough=enough: sum(books.made.values()) >= enough)
                    running.send(signal.SIGKILL)
                    assert await running.ended() == -signal.SIGKILL
            async with program(*commands[command]) as running:
                await api.until_bound(PODS)
                await until_requests(api, all_succeeded)
                assert not any("Traceback" in line for line in running.err)

        tasks.create_task(keep("run"))
        tasks.create_task(keep("binder"))
    await nothing_lost(url, books, PODS)
