"""All carried manifests end in the state that their note says, over HTTP, with controllers and without operators."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from tests.deploy.conftest import ROOT
from tests.integration.manifest_cases import (
    BATCH,
    DEFINITIONS,
    KAI,
    KOORDINATOR,
    KOORDINATOR_NETWORK,
    SCHEDULER_PLUGINS,
    Case,
    Json,
    Outcome,
)
from tests.integration.programs import PATIENCE_SECONDS, Api, Program, program

pytestmark = pytest.mark.slow

MANIFESTS = ROOT / "tests/podgroup/manifests"
CRDS = sorted((ROOT / "configs/crds").glob("*.yaml"))
_HEAD = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 5000, burst: 10000}
leaderElection: {leaderElect: false}
"""
_NO_PREEMPTION = "disabled: [{name: DefaultPreemption}]"


#: The tiers of Volcano's configuration, with topology.
_TIERS = (
    ", tiers: [{plugins: [{name: priority}, {name: gang}, {name: conformance}]}, {plugins: [{name: overcommit},"
    " {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: network-topology-aware}]}]"
)


#: No program writes the index of a device.
_SHARING = "GpuSharing: {allocationTimeout: 0s}"


def _batch(name: str, preset: str, *plugins: str, args: str = "") -> str:
    names = ("Batch", *(each.partition(":")[0] for each in plugins))
    enabled = ", ".join(f"{{name: {each}}}" for each in names)
    more = "".join(
        f", {{name: {name}, args: {text}}}" for name, colon, text in (each.partition(":") for each in plugins) if colon
    )
    return (
        f"- schedulerName: {name}\n"
        f"  plugins: {{multiPoint: {{enabled: [{enabled}], {_NO_PREEMPTION}}}}}\n"
        f"  pluginConfig: [{{name: Batch, args: {{preset: {preset}{args}}}}}{more}]\n"
    )


def _gang(name: str, plugin: str, args: str) -> str:
    return (
        f"- schedulerName: {name}\n"
        "  plugins:\n"
        "    queueSort: {disabled: [{name: '*'}], enabled: [{name: GangSort}]}\n"
        f"    multiPoint: {{enabled: [{{name: {plugin}}}]}}\n"
        f"  pluginConfig: [{{name: {plugin}, args: {args}}}]\n"
    )


_DIALECTS = "dialects: [sigs, koordinator, annotation, lightweight]"


#: One scheduler and one cluster for each: two plugins may not claim one dialect in one process.
GROUPS: dict[str, tuple[Sequence[Case], str, str]] = {
    "scheduler-plugins": (
        SCHEDULER_PLUGINS,
        _gang("scheduler-plugins-scheduler", "Coscheduling", "{dialects: [sigs, lightweight]}"),
        "scheduler-plugins-scheduler",
    ),
    "koordinator": (
        KOORDINATOR,
        _gang("koord-scheduler", "Gang", f"{{{_DIALECTS}}}")
        + _gang("scheduler-plugins-scheduler", "Gang", f"{{{_DIALECTS}}}"),
        "koord-scheduler",
    ),
    "koordinator-network": (
        KOORDINATOR_NETWORK,
        _gang("koord-scheduler", "Gang", "{strategy: groupCycle, awareNetworkTopology: true}"),
        "koord-scheduler",
    ),
    "batch": (
        BATCH,
        "- schedulerName: default-scheduler\n"
        + _batch("volcano", "volcano", args=_TIERS)
        + _batch("kube-batch", "kube-batch"),
        "default-scheduler",
    ),
    "kai": (
        KAI,
        _batch("default-scheduler", "kai", "PodGrouper") + _batch("kai-scheduler", "kai", "PodGrouper", _SHARING),
        "kai-scheduler",
    ),
}
_GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
_FIRST = ("CustomResourceDefinition", "PriorityClass", "Queue", "Topology", "ElasticQuota", "PodGroup", "Workload")


Counts = tuple[dict[str, int], dict[str, int]]
"""Numbers of bound and of other pods by the beginning of their names."""


@attrs.define
class Ground:
    """A cluster with controllers, and a scheduler on it."""

    api: Api
    scheduler: Program
    #: Where the objects of each kind are.
    paths: dict[tuple[str, str], tuple[str, bool]] = attrs.field(factory=dict)

    async def path(self, obj: Json) -> str:
        """Return the URL path of the collection of an object."""
        api_version, kind = obj["apiVersion"], obj["kind"]
        if (api_version, kind) not in self.paths:
            root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
            _, found = await self.api("GET", root)
            for resource in found["resources"]:
                if "/" not in resource["name"]:
                    self.paths[api_version, resource["kind"]] = (f"{root}|{resource['name']}", resource["namespaced"])
        known, is_namespaced = self.paths[api_version, kind]
        root, _, plural = known.partition("|")
        namespace = obj["metadata"].get("namespace", "default")
        return f"{root}/namespaces/{namespace}/{plural}" if is_namespaced else f"{root}/{plural}"

    async def create(self, obj: Json) -> int:
        """Create an object; return the status of the answer."""
        status, answer = await self.api("POST", await self.path(obj), obj)
        assert status in {201, 409} or 400 <= status < 500, answer
        return status

    async def remove(self, obj: Json) -> None:
        """Delete an object; its dependents are left to the garbage collector."""
        await self.api("DELETE", f"{await self.path(obj)}/{obj['metadata']['name']}")

    async def canary(self, scheduler: str, number: int) -> None:
        """Wait until a small pod is bound that was created now: every older pod was considered before."""
        name = f"canary-{number}"
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}}}
        spec = {
            "schedulerName": scheduler,
            "priority": -10,
            "containers": [container],
            "tolerations": [{"operator": "Exists"}],
        }
        await self.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (await self.api.pod(name))["spec"].get("nodeName"):  # noqa: ASYNC110 - another process binds it
                await asyncio.sleep(0.05)
        await self.api("DELETE", f"/api/v1/namespaces/default/pods/{name}")

    async def pods(self) -> list[Json]:
        """Return all pods but canaries."""
        found = await self.api.items("/api/v1/pods")
        return [pod for pod in found if not pod["metadata"]["name"].startswith("canary-")]

    async def until_tried(self, *, seconds: float) -> None:
        """Wait until the scheduler has said of all pods that they wait: it has seen them all."""
        async with asyncio.timeout(seconds):
            while not all(pod["status"].get("conditions") for pod in await self.pods()):  # noqa: ASYNC110 - as below
                await asyncio.sleep(0.05)

    async def until_counted(self, bases: Sequence[str], expected: Counts, *, seconds: float) -> None:
        """Wait until the pods are counted as expected; fail with the last counts."""
        found: object = None
        try:
            async with asyncio.timeout(seconds):
                while (found := counted(await self.pods(), bases)) != expected:  # noqa: ASYNC110 - another process binds
                    await asyncio.sleep(0.05)
        except TimeoutError:
            assert found == expected, "\n".join(self.scheduler.err[-20:])

    async def until_empty(self) -> None:
        """Wait until there is no pod."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self.api.items("/api/v1/pods"):  # noqa: ASYNC110 - another process deletes them
                await asyncio.sleep(0.05)


@asynccontextmanager
async def ground(folder: Path, profiles: str) -> AsyncIterator[Ground]:
    """Serve a cluster with controllers and run a scheduler with these profiles while the block runs."""
    definitions = folder / "definitions.json"
    definitions.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(DEFINITIONS)}))
    config = folder / "config.yaml"
    config.write_text(f"{_HEAD}profiles:\n{profiles}", encoding="utf-8")
    loads = [word for file in (*CRDS, definitions) for word in ("--load", str(file))]
    kubeconfig = folder / "kubeconfig"
    serve = ("cluster", "--port", "0", "--controllers", *loads, "--feature-gates", _GATES)
    async with program(*serve, "--write-kubeconfig", str(kubeconfig)) as server:
        url = (await server.said("serving ")).split()[1]
        run = ("run", "--kubeconfig", str(kubeconfig), "--config", str(config), "--secure-port=0")
        async with program(*run, "--feature-gates", _GATES) as scheduler:
            yield Ground(Api(url, server), scheduler)


def namespaces_of(documents: Sequence[Json]) -> list[Json]:
    """Return the namespaces that the objects need."""
    names = {one["metadata"].get("namespace", "default") for one in documents} - {"default"}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(names)]


def counted(pods: Sequence[Json], bases: Sequence[str]) -> Counts:
    """Count bound and other pods by the first of `bases` that their names begin with, or by name."""
    bound, waiting = Counter[str](), Counter[str]()
    for pod in pods:
        name = pod["metadata"]["name"]
        base = next((each for each in bases if name.startswith(each)), name)
        (bound if pod["spec"].get("nodeName") else waiting)[base] += 1
    return dict(bound), dict(waiting)


async def end_of(place: Ground, case: Case, scheduler: str, number: int) -> None:
    """Bring a manifest to its end, and check its state."""
    documents: list[Json] = list(yaml.safe_load_all((MANIFESTS / case.file).read_text(encoding="utf-8")))
    if case.edit is not None:
        case.edit(documents)
    rank = {kind: place for place, kind in enumerate(_FIRST)}
    documents.sort(key=lambda one: rank.get(one["kind"], len(rank)))
    made = [*case.nodes, *namespaces_of(documents), *case.setup]
    later = case.nodes if case.is_decided_at_once else []
    for obj in made if not later else made[len(later) :]:
        assert await place.create(obj) in {201, 409}, obj
    refused = {one["metadata"]["name"] for one in documents if await place.create(one) >= 400}
    assert refused == case.refused
    if later:
        await place.until_tried(seconds=PATIENCE_SECONDS)
    for obj in later:
        await place.create(obj)
    bases = list(dict.fromkeys((*case.bound, *case.waiting)))
    expected = (dict(case.bound), dict(case.waiting))
    try:
        await place.until_counted(bases, expected, seconds=PATIENCE_SECONDS)
        await place.canary(scheduler, number)
        pods = await place.pods()
        assert counted(pods, bases) == expected
        if case.groups:
            found = await place.api.items(case.groups_path)
            own = {one["metadata"]["name"] for one in namespaces_of(documents)} or {"default"}
            minima = [one["spec"]["minMember"] for one in found if one["metadata"]["namespace"] in own]
            assert sorted(minima) == sorted(case.groups)
        if case.check is not None:
            case.check(
                Outcome(pods, {node["metadata"]["name"]: node for node in await place.api.items("/api/v1/nodes")})
            )
        for text in case.logged:
            await place.scheduler.said(text)
    finally:
        for obj in (*reversed(documents), *reversed(made)):
            await place.remove(obj)
        await place.until_empty()


@pytest.mark.parametrize("group", GROUPS)
async def test_manifests_end_as_their_notes_say(group: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Each manifest is applied to an empty cluster; its pods, groups and placements are those of the table."""
    cases, profiles, scheduler = GROUPS[group]
    async with ground(tmp_path, profiles) as place:
        for number, case in enumerate(cases):
            with subtests.test(case.file, number=number):
                await end_of(place, case, scheduler, number)


def test_no_manifest_is_left_out() -> None:
    """Each file of the folder has a case."""
    used = {case.file for cases, *_ in GROUPS.values() for case in cases}
    assert used == {path.name for path in MANIFESTS.glob("*.yaml")}


def test_the_cases_agree_with_the_index() -> None:
    """A case has as many pods as the index counts, beside DaemonSets, suspended Jobs and pods that are refused."""
    rows: dict[str, Any] = {}
    for line in (MANIFESTS / "index.csv").read_text(encoding="utf-8").splitlines()[1:]:
        rows[line.split(",")[0]] = int(line.split(",")[4])
    for cases, *_ in GROUPS.values():
        for case in cases:
            own = {name: count for name, count in case.bound.items() if name != "gpu-reservation"}
            total = sum(own.values()) + sum(case.waiting.values())
            refused_pods = len(case.refused & {"bad-qty"})
            differs = {"28-kai-batch-job-queue-label.yaml", "41-job-suspended-kueue.yaml"}
            if case.file not in differs and "daemonset" not in case.file:
                assert total + refused_pods == rows[case.file], case.file
