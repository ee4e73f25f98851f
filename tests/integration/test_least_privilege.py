"""`pyscheduler run` under the shipped roles, on an API server that goes by them: enough, and not one rule too many.

The server remembers which part of which rule allowed something, and what was refused.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from kube_objects.clock import LoopClock
from kube_objects.kinds import PODS
from kube_testserver.access.users import ADMIN, account_user_name
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.resources.open_definitions import open_definition
from kube_testserver.serving.faults import Fault
from pyscheduler.api import ResourceKind
from pyscheduler.cli.offline_scheduler import offline_scheduler
from pyscheduler.cli.rbac import as_list, grants_of
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.config.load import load
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.testing import VirtualClock, node_manifest, pod_manifest
from pyscheduler_batch.dialects import JOB_DIALECTS, QUEUE_DIALECTS
from pyscheduler_kai.topologies import KAI_TOPOLOGIES
from tests.deploy.conftest import ROOT, manifest, manifests
from tests.integration.granted import Granted, roles_among, unused
from tests.integration.programs import PATIENCE_SECONDS, Api, Program, free_port, program
from tests.plugins.storage import COMPLETED, SELECTED, claim, storage_class, volume

ACCOUNT = account_user_name("kube-system", "pyscheduler")
#: Those of a scheduler; the programs of two files schedule nothing.
CONFIGS = sorted(
    path for path in (ROOT / "configs").glob("*.yaml") if path.name not in {"binder.yaml", "podgrouper.yaml"}
)


@attrs.frozen
class Installed:
    """A cluster that goes by roles, with the deployment's account, roles and configuration in it."""

    cluster: EmbeddedCluster
    #: As an administrator.
    api: Api
    folder: Path

    def run(self, port: int) -> list[str]:
        """Return the arguments of the Deployment's container, with this machine's files and a port that is free."""
        (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
        config = self.folder / "config.yaml"
        config.write_text(manifest("ConfigMap")["data"]["config.yaml"], encoding="utf-8")
        here = {"--config": str(config), "--secure-port": str(port)}
        given = [each.partition("=") for each in container["args"]]
        arguments = [f"{flag}={here.get(flag, value)}" if value else flag for flag, _, value in given]
        # In a pod the account is found by itself, for all three.
        account = self.kubeconfig("kube-system", "pyscheduler")
        flags = ("--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig")
        return [*arguments, *(f"{flag}={account}" for flag in flags), "--bind-address=127.0.0.1"]

    def kubeconfig(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig with a token of a service account."""
        token = self.cluster.account_token(namespace, name)
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "it", "cluster": {"server": self.api.url}}],
                    "users": [{"name": name, "user": {"token": token}}],
                    "contexts": [{"name": "it", "context": {"cluster": "it", "user": name}}],
                    "current-context": "it",
                }
            ),
            encoding="utf-8",
        )
        return path

    async def until(self, name: str, *, node: str = "", reason: str = "") -> None:
        """Wait until a pod has that node, or that reason in its PodScheduled condition."""

        def is_so() -> bool:
            pod = self.cluster.get("v1", "Pod", name, namespace="default")
            conditions = pod.get("status", {}).get("conditions") or ()
            told = [each.get("reason") for each in conditions if each["type"] == "PodScheduled"]
            return pod["spec"].get("nodeName") == node if node else reason in told

        await self.until_so(is_so)

    async def until_events(self, reason: str, count: int) -> None:
        """Wait until events with that reason tell of so many occurrences."""

        def is_so() -> bool:
            found = [each for each in self.cluster.objects("events.k8s.io/v1", "Event") if each["reason"] == reason]
            return sum((each.get("series") or {}).get("count", 1) for each in found) >= count

        await self.until_so(is_so)

    def found(self, kind: str, name: str) -> dict[str, Any]:
        """Return an object of the core group."""
        namespace = "" if kind == "PersistentVolume" else "default"
        return self.cluster.get("v1", kind, name, namespace=namespace)

    async def until_so(self, is_so: Callable[[], object]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not is_so():  # noqa: ASYNC110 - what is waited for happens in another process
                await asyncio.sleep(0.05)

    async def change(self, path: str, patch: object) -> None:
        """Apply a merge patch, as the server itself."""
        body = json.dumps(patch).encode()
        transport = InProcessTransport(self.cluster.router)
        answer = await transport.request("PATCH", path, body=body, content_type="application/merge-patch+json")
        assert answer.status == 200, answer.body


@pytest.fixture
async def installed(tmp_path: Path) -> AsyncIterator[Installed]:
    """Yield the cluster, served."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1), authorization="rbac", tokens={"admin": ADMIN})
    cluster.add(*(each for each in manifests() if each["kind"] not in {"Deployment", "PodDisruptionBudget"}))
    server = cluster.server()
    await server.start()
    yield Installed(cluster, Api(server.url), tmp_path)
    await server.stop()
    cluster.check_invariants()


def fetched(url: str, token: str = "") -> tuple[int, str]:
    """Ask the HTTPS port, whose certificate nobody has signed."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def look_at_the_port(installed: Installed, port: int) -> None:
    """Probe without credentials, and scrape with those of an account that may."""
    base = f"https://127.0.0.1:{port}"
    container = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert await asyncio.to_thread(fetched, base + container[probe]["httpGet"]["path"]) == (200, "ok")
    assert (await asyncio.to_thread(fetched, f"{base}/metrics"))[0] == 403
    installed.cluster.add(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "prometheus", "namespace": "default"}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "prometheus"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:monitoring"},
            "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}],
        },
    )
    token = installed.cluster.account_token("default", "prometheus")
    status, text = await asyncio.to_thread(fetched, f"{base}/metrics", token)
    assert (status, "scheduler_schedule_attempts_total" in text) == (200, True)


async def work(installed: Installed, leader: Program) -> None:
    """Let the leader meet everything for which it asks the API server: pods that fit, do not, are gated, fit later."""
    cluster = installed.cluster
    cluster.faults.add(Fault(method="POST", path="/pods/fits/binding$", lose="answer", times=1))
    cluster.add(node_manifest("small", allocatable={"cpu": "4"}))
    cluster.add(*(pod_manifest(name, node_name="small") for name in ("there", "there-too")))
    cluster.add(pod_manifest("fits", requests={"cpu": "1"}), pod_manifest("gated", scheduling_gates=["wait"]))
    await installed.until("fits", node="small")
    await leader.said("Binding succeeded, but its response was lost")
    await installed.until("gated", reason="SchedulingGated")
    cluster.add(pod_manifest("large", requests={"cpu": "32"}))
    await installed.until("large", reason="Unschedulable")
    # A pod that goes makes it worth another try. Told a second time of the same state, the refusal becomes a series.
    for count, name in ((2, "there"), (3, "there-too")):
        cluster.remove("v1", "Pod", name, namespace="default")
        await installed.until_events("FailedScheduling", count)
    cluster.add(node_manifest("big", allocatable={"cpu": "64"}))
    await installed.until("large", node="big")
    cluster.remove("v1", "Node", "big")
    await installed.change("/api/v1/namespaces/default/pods/gated", {"spec": {"schedulingGates": None}})
    await installed.until("gated", node="small")
    await installed.until_events("Scheduled", 3)


async def make_room(installed: Installed) -> None:
    """Let the leader evict a pod for one of higher priority."""
    cluster = installed.cluster
    cluster.add(node_manifest("tight", allocatable={"cpu": "8"}))
    cluster.add(pod_manifest("humble", requests={"cpu": "6"}))
    await installed.until("humble", node="tight")
    cluster.add(pod_manifest("urgent", requests={"cpu": "7"}, priority=1000))
    await installed.until_so(lambda: "deletionTimestamp" in installed.found("Pod", "humble")["metadata"])
    cluster.remove("v1", "Pod", "humble", namespace="default")
    await installed.until("urgent", node="tight")


async def bind_volumes(installed: Installed) -> None:
    """Let the leader promise a volume to a claim, and ask for another one to be provisioned."""
    cluster = installed.cluster
    cluster.add(storage_class("local"), volume("disk", of="local", size="10Gi"))
    cluster.add(claim("kept", of="local", size="10Gi"), claim("fresh", of="local", size="20Gi"))
    claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("kept", "fresh")]
    cluster.add(pod_manifest("stores", spec={"volumes": claims}))
    await installed.until_so(lambda: "claimRef" in installed.found("PersistentVolume", "disk")["spec"])
    await installed.until_so(
        lambda: SELECTED in installed.found("PersistentVolumeClaim", "fresh")["metadata"].get("annotations", {})
    )
    # What the volume controller does then.
    cluster.add(volume("made", of="local", size="20Gi", promised_to="fresh"))
    for name, held in (("kept", "disk"), ("fresh", "made")):
        path = f"/api/v1/namespaces/default/persistentvolumeclaims/{name}"
        await installed.change(path, {"metadata": {"annotations": {COMPLETED: "yes"}}, "spec": {"volumeName": held}})
        await installed.change(f"{path}/status", {"status": {"phase": "Bound"}})
    await installed.until_so(lambda: installed.found("Pod", "stores")["spec"].get("nodeName"))


async def allocate_devices(installed: Installed) -> None:
    """Let the leader allocate devices: for a claim, with a write whose answer is lost; and for an extended resource."""
    cluster = installed.cluster
    api = "resource.k8s.io/v1"
    selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
    asked = {"name": "one", "exactly": {"deviceClassName": "gpu"}}
    pool = {"name": "small", "generation": 1, "resourceSliceCount": 1}
    offered = {
        "driver": "gpu.example.com",
        "pool": pool,
        "nodeName": "small",
        "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
    }
    for kind, spec in (
        ("DeviceClass", {"selectors": [selector]}),
        ("ResourceSlice", offered),
        ("ResourceClaim", {"devices": {"requests": [asked]}}),
    ):
        place = {"namespace": "default"} if kind == "ResourceClaim" else {}
        cluster.add({"apiVersion": api, "kind": kind, "metadata": {"name": "gpu", **place}, "spec": spec})
    cluster.faults.add(Fault(method="PATCH", path="/resourceclaims/gpu/status$", lose="answer", times=1))
    claims = [{"name": "device", "resourceClaimName": "gpu"}]
    cluster.add(pod_manifest("computes", spec={"resourceClaims": claims}))
    await installed.until("computes", node="small")
    status = cluster.get(api, "ResourceClaim", "gpu", namespace="default")["status"]
    assert [user["name"] for user in status["reservedFor"]] == ["computes"]
    # A claim is made for an extended resource; one that cannot be allocated is deleted, and made anew.
    cluster.faults.add(Fault(method="PATCH", path="/resourceclaims/extends-[^/]*/status$", status=422, times=1))
    cluster.add(pod_manifest("extends", requests={"deviceclass.resource.kubernetes.io/gpu": "1"}))
    await installed.until("extends", node="small")


async def test_the_shipped_roles_are_enough_and_none_of_their_rules_is_idle(installed: Installed) -> None:
    """Two replicas as deployed: pods of all sorts, events, metrics, a takeover; no refusal, no idle rule."""
    ports = free_port(), free_port()
    cluster = installed.cluster
    async with program(*installed.run(ports[0])) as first:
        await first.said("Successfully acquired lease")
        async with program(*installed.run(ports[1])) as second:
            await second.said("New leader elected")
            await work(installed, first)
            await make_room(installed)
            await bind_volumes(installed)
            await allocate_devices(installed)
            await look_at_the_port(installed, ports[0])
            # A standby is ready, too, and takes over as soon as the lease is given back.
            assert await asyncio.to_thread(fetched, f"https://127.0.0.1:{ports[1]}/readyz") == (200, "ok")
            first.send(signal.SIGUSR2)
            await first.said("Cache comparer finished mismatch=false")
            first.send(signal.SIGTERM)
            assert await first.ended() == 0
            await second.said("Successfully acquired lease")
            cluster.add(pod_manifest("late", requests={"cpu": "1"}))
            await installed.until("late", node="small")
            await installed.until_events("Scheduled", 8)
            second.send(signal.SIGTERM)
            assert await second.ended() == 0
    assert cluster.rbac.usage.refusals(ACCOUNT) == {}
    assert not [line for one in (first, second) for line in one.err if "HTTP 403" in line or "orbidden" in line]
    assert unused(cluster, roles_among(manifests())) == []


async def test_one_rule_less_and_somebody_is_told(installed: Installed) -> None:
    """The record does notice: without the right to bind, the pod stays pending, and the refusal is on record."""
    cluster = installed.cluster
    role = cluster.get("rbac.authorization.k8s.io/v1", "ClusterRole", "pyscheduler")
    rules = [rule for rule in role["rules"] if rule["resources"] != ["pods/binding"]]
    await installed.change("/apis/rbac.authorization.k8s.io/v1/clusterroles/pyscheduler", {"rules": rules})
    cluster.add(node_manifest("n1"), pod_manifest("p"))
    async with program(*installed.run(free_port())) as scheduler:
        await installed.until("p", reason="SchedulerError")
        scheduler.send(signal.SIGTERM)
        assert await scheduler.ended() == 0
    refused = 'pods "p" is forbidden: User "%s" cannot create resource "pods/binding" in API group "" in the namespace '
    assert any(message.startswith(refused % ACCOUNT) for message in cluster.rbac.usage.refusals(ACCOUNT))
    assert [each for each in unused(cluster, roles_among(manifests())) if each.endswith("create pods/binding")]


async def test_a_kind_less_and_it_does_not_start(installed: Installed) -> None:
    """Who may not see namespaces would match their labels wrongly: that is the end of the start, with what to grant."""
    cluster = installed.cluster
    role = cluster.get("rbac.authorization.k8s.io/v1", "ClusterRole", "pyscheduler")
    rules = [rule for rule in role["rules"] if rule["resources"] != ["namespaces"]]
    await installed.change("/apis/rbac.authorization.k8s.io/v1/clusterroles/pyscheduler", {"rules": rules})
    async with program(*installed.run(free_port())) as scheduler:
        assert await scheduler.ended() == 1
    error = next(line for line in scheduler.err if line.startswith("error: "))
    assert 'cannot list resource "namespaces" in API group "" at the cluster scope; grant it' in error
    assert "pyscheduler config --rbac" in error


def permissions(path: Path) -> set[tuple[str, ...]]:
    """Return each verb on each resource that a configuration needs, with its API group and its names."""
    config = load(path)
    roles = as_list(grants_of(offline_scheduler(config, discover()), config), name="pyscheduler")["items"]
    return {
        (*rule["apiGroups"], *rule["resources"], verb, *rule.get("resourceNames", ()))
        for role in roles
        for rule in role["rules"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_other_configurations_need_the_same_roles_and_groups_at_most(path: Path) -> None:
    """Each ready file needs the permissions of the default profile, and at most those for groups and queues.

    A batch profile creates no claims for extended resources.
    """
    needed, shipped = permissions(path), permissions(ROOT / "configs/default.yaml")
    is_batch = path.name.startswith("batch-")
    kinds = {"podgroups", "resourcequotas", "pods"}
    if is_batch:
        kinds |= {"queues", "priorityclasses", "topologies"}
    assert {resource.partition("/")[0] for _, resource, *_ in needed - shipped} <= kinds
    assert {verb for _, resource, verb, *_ in needed - shipped if resource == "pods"} <= {"patch"}
    in_tree = {"default.yaml", "bin-packing.yaml", "two-profiles.yaml"}
    assert bool(needed - shipped) is (path.name not in in_tree)
    of_claims = {("resource.k8s.io", "resourceclaims", verb) for verb in ("create", "delete")}
    assert shipped - needed == (of_claims if is_batch else set())


async def test_a_plugin_that_writes_gets_what_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example that stamps pods: its own rule is in the role, is needed, and is enough."""
    monkeypatch.syspath_prepend(str(ROOT / "examples/04-small-plugins"))
    from small_plugins.ledger import STAMP, Ledger

    registry = discover()
    registry.add("Ledger", Ledger)
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: false}\n"
        "profiles:\n"
        "- schedulerName: pyscheduler\n"
        "  plugins:\n"
        "    multiPoint:\n"
        "      enabled: [{name: Ledger}]\n"
        # These write, too, but not for such pods.
        "      disabled: [{name: DefaultPreemption}, {name: DynamicResources}, {name: VolumeBinding}]\n"
    )
    clock = VirtualClock()
    cluster = EmbeddedCluster(clock=clock, rng=random.Random(1), authorization="rbac")
    granted = Granted.of(cluster, "pyscheduler", text, registry)
    cluster.add(node_manifest("n1", allocatable={"cpu": "4"}))
    cluster.add(pod_manifest("p", annotations={STAMP: ""}), pod_manifest("large", requests={"cpu": "64"}))
    cluster.faults.add(Fault(method="POST", path="/binding$", lose="answer", times=1))
    await granted.start()
    # The pod that does not fit is tried every five minutes, which makes a series of its events.
    await clock.advance(700)
    await granted.stop()
    stamped = cluster.get("v1", "Pod", "p", namespace="default")
    assert stamped["metadata"]["annotations"][STAMP] == stamped["spec"]["nodeName"] == "n1"
    assert cluster.rbac.usage.refusals() == {}
    assert unused(cluster, granted.roles) == []
    sys.modules.pop("small_plugins.ledger", None)


#: The permissions that a batch profile adds, or shares with others that its jobs may not use.
OF_BATCH = re.compile(
    "podgroups|resourcequotas|queues|topologies|delete pods|pods/status|priorityclasses|-usage|create configmaps"
)
#: Further args of the preset kai: it counts past use in a ConfigMap.
COUNTS = "\n          usageDBConfig: {clientType: scheduler, usageParams: {fetchInterval: 2s}}"


class BatchWork:
    """Jobs of a batch profile, in each kind of group that its preset reads."""

    def __init__(self, cluster: EmbeddedCluster, preset: str) -> None:
        self.cluster = cluster
        self.preset = preset
        self.groups = next(row for row in JOB_DIALECTS if row.name == preset).groups.kinds
        self.queues = next(row for row in QUEUE_DIALECTS if row.name == preset).kinds
        for kind in (*self.groups, *self.queues, *([KAI_TOPOLOGIES] if preset == "kai" else [])):
            path = ROOT / f"configs/crds/{kind.plural}.{kind.group}.yaml"
            cluster.add(yaml.safe_load(path.read_text(encoding="utf-8")))
        for number, kind in enumerate(self.queues):
            amounts = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
            of_kai = {"resources": dict.fromkeys(("cpu", "memory", "gpu"), amounts)}
            self.create(kind, "second" if number else "default", of_kai if preset == "kai" else {"weight": 1})
        high = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 80,
        }
        cluster.add(high)
        if preset != "kai":
            metadata = {"name": "compute", "namespace": "default"}
            status = {"hard": {"requests.cpu": "100"}, "used": {"requests.cpu": "1"}}
            cluster.add({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "status": status})

    def create(self, kind: ResourceKind, name: str, spec: dict[str, Any]) -> None:
        """Create a group or a queue."""
        metadata = {"name": name, "namespace": "default"} if kind.namespaced else {"name": name}
        self.cluster.add({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec})

    async def compete(self, clock: VirtualClock) -> None:
        """Fill a node with jobs of each kind of group, and evict a pod for a job of higher priority."""
        self.cluster.add(node_manifest("n1", allocatable={"cpu": "4", "pods": "9"}))
        for number, kind in enumerate(self.groups):
            self.job(kind, f"low{number}", 4 if number == 0 else 1)
        await clock.advance(5)
        self.job(self.groups[0], "high", 1, priorityClassName="high")
        await clock.advance(5)

    def close_parent(self) -> None:
        """Create a closed queue above all others; Volcano closes them with it and writes down why."""
        if self.preset == "volcano":
            kind = self.queues[0]
            manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "root"}}
            self.cluster.add({**manifest, "spec": {}, "status": {"state": "Closed"}})

    def group(self, kind: ResourceKind, name: str, **spec: Any) -> str:
        """Create a group that needs one pod; return the annotation with which pods name it."""
        # A reservation is written, and Volcano's enqueue lets it through although the cluster is full.
        amounts = {} if self.preset == "kai" else {"minResources": {"cpu": "100m"}}
        self.create(kind, name, {"minMember": 1, "queue": "default", **amounts, **spec})
        return "pod-group-name" if self.preset == "kai" else "scheduling.k8s.io/group-name"

    def job(self, kind: ResourceKind, name: str, count: int, **spec: Any) -> None:
        """Create a group that needs one pod, with its pods."""
        key = self.group(kind, name, **spec)
        priority = {"priorityClassName": "high", "priority": 80} if spec else {}
        for number in range(count):
            self.cluster.add(
                pod_manifest(
                    f"{name}-{number}",
                    requests={"cpu": "1"},
                    annotations={key: name},
                    scheduler_name=f"pyscheduler-{self.preset}",
                    spec=priority,
                )
            )


@pytest.mark.parametrize(
    ("preset", "more"),
    [("kai", ""), ("kai", COUNTS), ("volcano", ""), ("kube-batch", "")],
    ids=lambda text: text.strip(),
)
async def test_a_batch_profile_needs_all_it_asks_for_and_no_more(preset: str, more: str) -> None:
    """Jobs are bound, wait and are evicted, and all statuses are written: no refusal, and no idle rule."""
    text = (ROOT / f"configs/batch-{preset}.yaml").read_text(encoding="utf-8")
    text = text.replace(f"preset: {preset}", f"preset: {preset}{more}")
    clock = VirtualClock()
    cluster = EmbeddedCluster(clock=clock, rng=random.Random(1), authorization="rbac")
    granted = Granted.of(cluster, "pyscheduler", f"{text}\nleaderElection: {{leaderElect: false}}\n")
    work = BatchWork(cluster, preset)
    lifecycle = cluster.lifecycle()  # kube-batch evicts running pods only
    lifecycle.start()
    await granted.start()
    await work.compete(clock)
    work.close_parent()
    await clock.advance(5)
    await granted.stop()
    lifecycle.stop()
    nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in cluster.objects("v1", "Pod")}
    assert list(nodes.values()).count("n1") >= 3
    assert cluster.rbac.usage.refusals() == {}
    assert [line for line in unused(cluster, granted.roles) if OF_BATCH.search(line)] == []


def add_missing_kinds(cluster: EmbeddedCluster, kinds: Sequence[ResourceKind]) -> None:
    """Define the kinds that the server does not know, each in all its versions."""
    missing: dict[tuple[str, str], list[ResourceKind]] = {}
    for kind in kinds:
        if cluster.table.find_kind(kind.api_version, kind.kind) is None:
            missing.setdefault((kind.group, kind.plural), []).append(kind)
    for alike in missing.values():
        kind, versions = alike[0], list(dict.fromkeys(kind.version for kind in alike))
        cluster.add(open_definition(kind.group, kind.kind, kind.plural, versions))


async def use_podgrouper(cluster: EmbeddedCluster, clock: VirtualClock, watched: Sequence[ResourceKind]) -> None:
    """Create pods with owners of each kind, and one whose group another program creates first and a user changes."""
    # A pod whose owner does not exist: the owner is read once past the watch, and the pod gets a warning.
    for number, kind in enumerate((*watched, PODS)):
        ghost = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "ghost", "uid": "u"}
        orphan = pod_manifest(f"orphan-{number}", scheduler_name="kai-scheduler")
        orphan["metadata"]["ownerReferences"] = [ghost]
        cluster.add(orphan)
    # Another program creates the group first, so the group is read.
    cluster.faults.add(Fault(method="POST", path="/podgroups$", delay_seconds=1.0, times=1))
    (alone,) = cluster.add(pod_manifest("alone", scheduler_name="kai-scheduler"))
    await clock.advance(0.5)
    metadata = {"name": f"pg-alone-{alone['metadata']['uid']}", "namespace": "default"}
    cluster.add(
        {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": 1}}
    )
    # The profile schedules nothing, also if a pod names it.
    cluster.add(pod_manifest("own", scheduler_name="pyscheduler-podgrouper"))
    await clock.advance(70)
    cluster.add(node_manifest("n1"))
    path = "/api/v1/namespaces/default/pods/alone"
    body = json.dumps({"metadata": {"labels": {"kai.scheduler/preemptibility": "preemptible"}}}).encode()
    patch = "application/merge-patch+json"
    transport = InProcessTransport(cluster.router, user=ADMIN)
    assert (await transport.request("PATCH", path, body=body, content_type=patch)).status == 200
    await clock.advance(700)


async def test_the_podgrouper_needs_all_it_asks_for_and_no_more() -> None:
    """Its program reads owners of every kind, makes and changes groups, and warns: no refusal, and no idle rule."""
    text = (ROOT / "configs/podgrouper.yaml").read_text(encoding="utf-8")
    clock, registry = VirtualClock(), discover()
    cluster = EmbeddedCluster(clock=clock, rng=random.Random(1), authorization="rbac")
    granted = Granted.of(cluster, "pyscheduler", text, registry)
    cluster.load((ROOT / "configs/crds/podgroups.scheduling.run.ai.yaml").read_bytes())
    watched = list(registry.load("PodGrouper").watches)
    add_missing_kinds(cluster, watched)
    await granted.start()
    await use_podgrouper(cluster, clock, watched)
    await granted.stop()
    (group,) = cluster.objects("scheduling.run.ai/v2alpha2", "PodGroup")
    assert group["spec"]["preemptibility"] == "preemptible"
    alone = cluster.get("v1", "Pod", "alone", namespace="default")
    assert alone["metadata"]["annotations"]["pod-group-name"] == group["metadata"]["name"]
    assert "nodeName" not in cluster.get("v1", "Pod", "own", namespace="default")["spec"]
    assert granted.verbs.isdisjoint({("pods/binding", "create"), ("pods/status", "patch")})
    assert cluster.rbac.usage.refusals() == {}
    assert unused(cluster, granted.roles) == []
