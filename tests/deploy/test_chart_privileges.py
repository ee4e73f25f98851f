"""The roles that Helm renders for each profile, on a server that checks them: enough, and no verb too many.

A scheduler runs in virtual time under the account of the release. It takes its lease, asks for reviews as its HTTPS
port does, and meets everything for which it needs a permission. `/debug/rbac` of the server then shows which requests
were refused, and which verbs of the roles allowed none.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from kube_testserver.access.users import ADMIN
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.serving.faults import Fault
from pyscheduler.api import Pod, decode
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.cluster.real.lease import LeaderElector
from pyscheduler.config.feature_gates import parse
from pyscheduler.config.load import loads
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.podgroup import DIALECTS
from pyscheduler.podgroup.dialects import KeyPlace
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import Settings, build
from pyscheduler.scheduler.scheduler import Scheduler
from pyscheduler.serving.delegation import Reviewer
from pyscheduler.testing import VirtualClock, node_manifest, pod_manifest
from pyscheduler_batch.binder.requests import request_body
from tests.deploy.chart import PROFILES, Helm
from tests.deploy.conftest import ROOT
from tests.integration.test_least_privilege import BatchWork, add_missing_kinds, use_podgrouper
from tests.plugins.storage import COMPLETED, claim, storage_class, volume

NAMESPACE = "kube-system"
#: The cluster's client CA.
AUTHENTICATION = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


@attrs.define
class Release:
    """A release of the chart and its scheduler, on a cluster with all definitions of `configs/crds`."""

    cluster: EmbeddedCluster
    clock: VirtualClock
    objects: list[dict[str, Any]]
    transport: InProcessTransport
    scheduler: Scheduler
    elector: LeaderElector

    @classmethod
    def of(cls, profile: str, helm: Helm, values: Mapping[str, Any] | None = None) -> Release:
        """Create the objects that Helm renders, and build the scheduler as its container's flags say."""
        clock = VirtualClock()
        tokens = {"admin": ADMIN}
        cluster = EmbeddedCluster(
            clock=clock, rng=random.Random(1), authorization="rbac", tokens=tokens, pod_groups=True
        )
        if not profile.startswith("batch-"):  # whose jobs bring them
            for definition in sorted((ROOT / "configs/crds").iterdir()):
                cluster.load(definition.read_bytes())
        objects = helm.objects({"profile": profile, **(values or {})})
        cluster.add(*objects)
        found = {each["kind"]: each for each in objects}
        (container,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
        flags = dict(each.partition("=")[::2] for each in container["args"])
        gates = parse(flags.get("--feature-gates", ""))
        config = loads(found["ConfigMap"]["data"]["config.yaml"], source=profile, gates=gates)
        election = attrs.evolve(
            config.leader_election,
            resource_name=flags["--leader-elect-resource-name"],
            resource_namespace=flags["--leader-elect-resource-namespace"],
        )
        token = cluster.account_token(NAMESPACE, found["ServiceAccount"]["metadata"]["name"])
        transport = InProcessTransport(cluster.router, token=token)

        async def another() -> InProcessTransport:
            return InProcessTransport(cluster.router, token=token)

        scheduler = build(config, transport, clock, random.Random(1), settings=Settings(feature_gates=gates))
        elector = LeaderElector(
            config=election, transport=another, rng=random.Random(1), recorder=NullRecorder(), clock=clock
        )
        return cls(cluster, clock, objects, transport, scheduler, elector)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the scheduler while it leads; release the lease at the end."""
        await self._lead()
        await self._await(self.scheduler.start())
        running = asyncio.create_task(self.scheduler.run())
        yield
        await self._await(self.scheduler.stop())
        await running
        await self._await(self.elector.release())

    async def _await(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        await self.clock.advance(20)
        await task

    async def _lead(self) -> None:
        """Take the lease, and ask for what the HTTPS port asks."""
        await self._await(self.elector.acquire())
        reviewer = Reviewer(self.transport, clock=self.clock, rng=random.Random(1))
        await reviewer.get(AUTHENTICATION)
        token = {"token": "unknown"}
        await reviewer.review(
            "/apis/authentication.k8s.io/v1/tokenreviews", "authentication.k8s.io/v1 TokenReview", token
        )
        access = {"user": "kim", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        await reviewer.review(path, "authorization.k8s.io/v1 SubjectAccessReview", access)

    async def record(self) -> tuple[list[str], list[str]]:
        """Return the refused requests of all users, and the verbs of the release's roles that allowed none."""
        refused, unused = [], []
        admin = InProcessTransport(self.cluster.router, token="admin")
        for role in self.objects:
            metadata = role["metadata"]
            if role["kind"] in {"ClusterRole", "Role"}:
                place = f"{metadata['namespace']}/" if role["kind"] == "Role" else ""
                query = {role["kind"].lower(): place + metadata["name"]}
                document = json.loads((await admin.request("GET", "/debug/rbac", query=query)).body)
                refused = [each["message"] for each in document["refused"]]
                unused += [f"{place}{metadata['name']}: {each}" for each in document["unused"]]
        return refused, unused


@attrs.define
class Work:
    """The pods and objects that the scheduler is given. In a batch profile, each pod is a job."""

    release: Release
    batch: BatchWork | None = None

    @property
    def cluster(self) -> EmbeddedCluster:
        """The cluster."""
        return self.release.cluster

    def pod(self, name: str, *, group: Mapping[str, Any] | None = None, **keywords: Any) -> None:
        """Create a pod that chooses the first profile; `group` are fields of its job."""
        keywords["scheduler_name"] = next(iter(self.release.scheduler.profiles))
        keywords.setdefault("requests", {"cpu": "100m"})
        if self.batch is not None:
            key = self.batch.group(self.batch.groups[0], name, **(group or {}))
            keywords["annotations"] = {key: name}
        self.cluster.add(pod_manifest(name, **keywords))

    def request_binding(self, name: str) -> None:
        """Create a pod, and a BindRequest for it."""
        (pod,) = self.cluster.add(pod_manifest(name))
        self.cluster.add(request_body(decode(Pod, json.dumps(pod).encode()), "n1", backoff_limit=3))

    def check_node(self, name: str, node: str) -> None:
        """Check that a pod is on this node."""
        pod = self.cluster.get("v1", "Pod", name, namespace="default")
        assert pod["spec"].get("nodeName") == node, pod["status"]

    async def settle(self, seconds: float = 30) -> None:
        """Let time pass, by default longer than a backoff."""
        await self.release.clock.advance(seconds)

    async def change(self, path: str, patch: object) -> None:
        """Apply a merge patch, as the server itself."""
        body = json.dumps(patch).encode()
        transport = InProcessTransport(self.cluster.router, token="admin")
        answer = await transport.request("PATCH", path, body=body, content_type="application/merge-patch+json")
        assert answer.status == 200, answer.body

    async def place_pods(self) -> None:
        """Schedule pods that fit and one that does not; lose the answer to one binding, and refuse another twice."""
        cluster = self.cluster
        cluster.faults.add(Fault(method="POST", path="/pods/fits/binding$", lose="answer", times=1))
        cluster.faults.add(Fault(method="POST", path="/pods/unlucky/binding$", status=422, times=2))
        cluster.add(node_manifest("small", allocatable={"cpu": "8", "pods": "20"}))
        self.pod("fits", requests={"cpu": "1"})
        self.pod("unlucky", requests={"cpu": "1"})
        self.pod("gated", scheduling_gates=["wait"])
        self.pod("large", requests={"cpu": "32"})
        await self.settle(60)
        self.check_node("fits", "small")
        self.check_node("unlucky", "small")
        # Batch profiles repeat no text; another one about the same pod makes a series of events.
        cluster.add(node_manifest("huge", allocatable={"cpu": "64"}), node_manifest("none", allocatable={"cpu": "0"}))
        cluster.add(pod_manifest("resident", requests={"cpu": "60"}, node_name="huge"))
        await self.settle(60)
        for name in ("huge", "none"):
            cluster.remove("v1", "Node", name)
        await self.settle(60)

    async def exceed_limit(self) -> None:
        """Let a job wait for room, then for its queue. Its pod gets no condition, so the events make a series."""
        self.pod("quiet", requests={"cpu": "32"}, group={"markUnschedulable": False})
        await self.settle()
        limits = {"spec": {"resources": {"cpu": {"limit": 10_000}}}}
        await self.change("/apis/scheduling.run.ai/v2/queues/default", limits)
        await self.settle()

    async def make_room(self) -> None:
        """Evict a pod for one of higher priority."""
        cluster = self.cluster
        cluster.add(node_manifest("tight", allocatable={"cpu": "20", "pods": "20"}))
        low, high = (
            {"priorityClassName": name, "priority": value} for name, value in (("humble", -1), ("urgent", 1000))
        )
        for spec in (low, high):
            metadata = {"name": spec["priorityClassName"]}
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata}
            cluster.add({**kind, "value": spec["priority"]})
        self.pod("humble", requests={"cpu": "16"}, spec=low)
        await self.settle()
        self.check_node("humble", "tight")
        self.pod("urgent", requests={"cpu": "18"}, spec=high)
        await self.settle()
        self.check_node("urgent", "tight")

    async def start_groups(self) -> None:
        """Start a group of each kind, under a quota; and let a gang wait in vain."""
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
        self.cluster.add({**quota, "spec": {"hard": {"requests.cpu": "1k"}}})
        for dialect in DIALECTS:
            for number, kind in enumerate(dialect.kinds):
                name = f"{dialect.name}-{number}"
                spec: dict[str, Any] = {"minMember": 1, "minResources": {"cpu": "100m"}}
                if dialect.name == "intree":
                    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}}
                group = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
                self.cluster.add({**group, "metadata": {"name": name, "namespace": "default"}})
                (key, *_) = dialect.keys
                if key.place is KeyPlace.FIELD:
                    self.pod(name, spec={"schedulingGroup": {"podGroupName": name}})
                else:
                    self.pod(name, **{f"{key.place.value}s": {key.name: name}})
        prefix = "gang.scheduling.koordinator.sh/"
        said = {"name": "vain", "min-available": "2", "mode": "NonStrict", "waiting-time": "10s"}
        annotations = {f"{prefix}{key}": value for key, value in said.items()}
        self.pod("vain-0", annotations=annotations)
        self.pod("vain-1", annotations=annotations, requests={"cpu": "32"})
        await self.settle()

    async def bind_volumes(self) -> None:
        """Bind a claim to a volume, and have another volume provisioned."""
        cluster = self.cluster
        cluster.add(storage_class("local"), volume("disk", of="local", size="10Gi"))
        cluster.add(claim("kept", of="local", size="10Gi"), claim("fresh", of="local", size="20Gi"))
        claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("kept", "fresh")]
        self.pod("stores", spec={"volumes": claims})
        await self.settle(5)
        # As the volume controller does.
        cluster.add(volume("made", of="local", size="20Gi", promised_to="fresh"))
        for name, held in (("kept", "disk"), ("fresh", "made")):
            path = f"/api/v1/namespaces/default/persistentvolumeclaims/{name}"
            await self.change(path, {"metadata": {"annotations": {COMPLETED: "yes"}}, "spec": {"volumeName": held}})
            await self.change(f"{path}/status", {"status": {"phase": "Bound"}})
        await self.settle()
        self.check_node("stores", "small")

    async def allocate_devices(self) -> None:
        """Allocate a device for a claim, with an answer that is lost."""
        cluster = self.cluster
        api = "resource.k8s.io/v1"
        selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
        asked = {"name": "one", "exactly": {"deviceClassName": "gpu"}}
        pool = {"name": "small", "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": "gpu-0"}, {"name": "gpu-1"}]
        offered = {"driver": "gpu.example.com", "pool": pool, "nodeName": "small", "devices": devices}
        for kind, spec in (
            ("DeviceClass", {"selectors": [selector]}),
            ("ResourceSlice", offered),
            ("ResourceClaim", {"devices": {"requests": [asked]}}),
        ):
            place: dict[str, Any] = {}
            if kind == "ResourceClaim":  # KAI asks for the queue of a claim that pods may share
                place = {"namespace": "default", "labels": {"kai.scheduler/queue": "default"}}
            cluster.add({"apiVersion": api, "kind": kind, "metadata": {"name": "gpu", **place}, "spec": spec})
        cluster.faults.add(Fault(method="PATCH", path="/resourceclaims/gpu/status$", lose="answer", times=1))
        self.pod("computes", spec={"resourceClaims": [{"name": "device", "resourceClaimName": "gpu"}]})
        await self.settle()
        self.check_node("computes", "small")

    async def allocate_extended(self) -> None:
        """Allocate a device for an extended resource, for which a claim is created; the first one is refused."""
        cluster = self.cluster
        cluster.faults.add(Fault(method="PATCH", path="/resourceclaims/extends-[^/]*/status$", status=422, times=1))
        self.pod("extends", requests={"deviceclass.resource.kubernetes.io/gpu": "1"})
        await self.settle()
        self.check_node("extends", "small")

    async def ask_for_extended(self) -> None:
        """Let a job ask for an extended resource of a device class, also by another name; it gets no node."""
        cluster = self.cluster
        selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
        spec = {"selectors": [selector], "extendedResourceName": "example.com/gpu"}
        cluster.add(
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "x"}, "spec": spec}
        )
        self.pod("implicit", requests={"deviceclass.resource.kubernetes.io/gpu": "1"})
        self.pod("explicit", requests={"example.com/gpu": "1"})
        await self.settle()
        for name in ("implicit", "explicit"):
            pod = cluster.get("v1", "Pod", name, namespace="default")
            assert "nodeName" not in pod["spec"]
            assert any(each["type"] == "PodScheduled" for each in pod["status"]["conditions"])
        assert len(cluster.objects("resource.k8s.io/v1", "ResourceClaim")) == 1


async def schedule(work: Work) -> None:
    """Let a profile of single pods and groups place them."""
    await work.place_pods()
    await work.settle(700)  # a failure that repeats makes a series of events
    await work.bind_volumes()
    await work.allocate_devices()
    await work.allocate_extended()
    await work.make_room()
    await work.start_groups()


async def schedule_jobs(work: Work) -> None:
    """Let a batch profile place and evict jobs, and write the statuses of queues."""
    assert work.batch is not None
    await work.batch.compete(work.release.clock)
    await work.place_pods()
    await work.bind_volumes()
    await work.allocate_devices()
    await work.ask_for_extended()
    if work.batch.preset == "kai":
        await work.exceed_limit()
    work.batch.close_parent()
    await work.settle()


async def group_pods(work: Work) -> None:
    """Let the podgrouper group pods with owners of every kind."""
    await use_podgrouper(work.cluster, work.release.clock, PODGROUPER_WATCHES)


async def bind_pods(work: Work) -> None:
    """Let the binder bind pods, one with an answer that is lost, and one that it may not bind."""
    cluster = work.cluster
    cluster.add(node_manifest("n1"))
    cluster.faults.add(Fault(method="POST", path="/pods/p/binding$", lose="answer", times=1))
    cluster.faults.add(Fault(method="POST", path="/pods/q/binding$", status=403, times=3))
    for name in ("p", "q"):
        work.request_binding(name)
    await work.settle(700)
    work.check_node("p", "n1")


#: What the scheduler of a profile does, if it is not `schedule`.
PROGRAMS = {
    "binder": bind_pods,
    "podgrouper": group_pods,
    **{name: schedule_jobs for name in PROFILES if name.startswith("batch-")},
}
PODGROUPER_WATCHES = list(discover().load("PodGrouper").watches)


@pytest.mark.parametrize("profile", sorted(PROFILES))
async def test_the_roles_of_a_profile_are_enough_and_have_no_unused_verb(profile: str, tmp_path: Path) -> None:
    """No request is refused, and each verb on each resource of the rendered roles is used."""
    program = PROGRAMS.get(profile, schedule)
    release = Release.of(profile, Helm(tmp_path))
    lifecycle = release.cluster.lifecycle()
    lifecycle.start()
    batch = None
    if program is schedule_jobs:
        batch = BatchWork(release.cluster, profile.removeprefix("batch-"))
    elif program is group_pods:
        add_missing_kinds(release.cluster, PODGROUPER_WATCHES)
    async with release.running():
        await program(Work(release, batch))
    lifecycle.stop()
    refused, unused = await release.record()
    assert refused == []
    assert unused == []


async def test_a_verb_too_many_and_one_too_few_are_noticed(tmp_path: Path) -> None:
    """The record has them: the check of the profiles is not empty."""
    more = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}
    release = Release.of("binder", Helm(tmp_path), {"rbac": {"clusterRules": [more]}})
    role = release.cluster.get("rbac.authorization.k8s.io/v1", "ClusterRole", "pyscheduler")
    rules = [rule for rule in role["rules"] if rule["resources"] != ["pods/binding"]]
    work = Work(release)
    await work.change("/apis/rbac.authorization.k8s.io/v1/clusterroles/pyscheduler", {"rules": rules})
    async with release.running():
        release.cluster.add(node_manifest("n1"))
        work.request_binding("p")
        await work.settle()
    refused, unused = await release.record()
    assert any('cannot create resource "pods/binding"' in each for each in refused)
    assert [each for each in unused if each.endswith("list secrets")] != []
