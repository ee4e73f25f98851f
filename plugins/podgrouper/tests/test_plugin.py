"""The plugin on a cluster: groups and members are written, failures are reported and tried again."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest

from plugins.podgrouper.tests.conftest import GrouperCluster
from plugins.podgrouper.tests.workloads import Json, item, reference
from pyscheduler_kai.objects import KAI_QUEUES
from pyscheduler_podgrouper.kinds import PODGROUPS, owner_kind
from pyscheduler_podgrouper.plugin import PodGrouper

PYTORCH = owner_kind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs", frozenset({"spec"}))
RAY = [
    owner_kind("ray.io", "v1", "RayCluster", "rayclusters", frozenset({"spec"})),
    owner_kind("ray.io", "v1", "RayService", "rayservices", frozenset({"status"})),
]


def pytorch(workers: int = 2) -> Json:
    """Return a PyTorchJob with a master."""
    roles = {"Master": {"replicas": 1}, "Worker": {"replicas": workers}}
    return item(
        "kubeflow.org/v1",
        "PyTorchJob",
        "train",
        labels={"kai.scheduler/queue": "vision"},
        spec={"pytorchReplicaSpecs": roles},
    )


def worker(number: int) -> dict[str, str]:
    """Return the labels of a worker."""
    return {
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": str(number),
    }


async def test_the_pods_of_a_workload_become_members_of_one_group(grouper: GrouperCluster) -> None:
    """The group is written once, and each pod once; a pod that comes later changes nothing else."""
    grouper.serve(PYTORCH)
    job = grouper.add(pytorch())
    for number in range(2):
        grouper.pod(f"w{number}", job, labels=worker(number))
    scheduler = await grouper.start()
    await grouper.pass_time()
    (group,) = grouper.groups().values()
    assert (group.spec.min_member, group.spec.queue) == (3, "vision")
    assert [each["name"] for each in group.spec.sub_groups] == ["master", "worker"]
    assert grouper.membership("w0") == grouper.membership("w1") == (group.name, "worker")
    grouper.pod("m", job, labels={"training.kubeflow.org/replica-type": "master"})
    await grouper.pass_time()
    assert grouper.membership("m") == (group.name, "master")
    assert grouper.groups()[group.name].resource_version == group.resource_version
    assert [scheduler.metric("podgrouper_writes_total", kind=kind) for kind in ("PodGroup", "Pod")] == [1, 3]
    assert grouper.warnings() == []


async def test_a_pod_waits_for_its_owner(grouper: GrouperCluster) -> None:
    """An owner that does not exist is reported, and tried again after 1 s, 2 s, 4 s ..."""
    grouper.serve(PYTORCH)
    job = grouper.add(pytorch())
    grouper.cluster.delete(PYTORCH.type, "train", namespace="ml")
    scheduler = await grouper.start()
    grouper.pod("w0", job, labels=worker(0))
    await grouper.pass_time(0.5)
    assert "failed to find PyTorchJob" in grouper.warnings()[0]
    assert scheduler.metric("podgrouper_failing_pods") == 1
    await grouper.pass_time(6.0)
    assert scheduler.metric("podgrouper_failures_total") == 3
    again = grouper.add(pytorch())
    await grouper.pass_time(4.0)
    # An owner of another uid is not the owner.
    assert (grouper.membership("w0"), grouper.groups()) == ((None, None), {})
    grouper.patch_pod("w0", {"metadata": {"ownerReferences": [reference(again)]}})
    await grouper.pass_time()
    assert grouper.membership("w0") == (f"pg-train-{again['metadata']['uid']}", "worker")
    assert scheduler.metric("podgrouper_failing_pods") == 0


async def test_an_owner_is_read_if_its_watch_is_behind(grouper: GrouperCluster) -> None:
    """The watch shows a kind some time after it is defined; the owner is read once for all pods of a round."""
    await grouper.start()
    reads = grouper.fault("GET", r"/pytorchjobs/train$")
    grouper.serve(PYTORCH)
    job = grouper.add(pytorch())
    for number in range(2):
        grouper.pod(f"w{number}", job, labels=worker(number))
    await grouper.pass_time(0.2)
    assert grouper.membership("w1") == (f"pg-train-{job['metadata']['uid']}", "worker")
    assert reads.hits == 1


async def test_a_pod_without_a_readable_owner_is_its_own_workload(grouper: GrouperCluster) -> None:
    """A kind that nobody watches may not be read; `extraOwners` names such kinds."""
    widgets = owner_kind("acme.example", "v1", "Widget", "widgets")
    grouper.serve(widgets)
    widget = grouper.add(item("acme.example/v1", "Widget", "w"))
    await grouper.start()
    pod = grouper.pod("p", widget)
    await grouper.pass_time()
    assert grouper.membership("p") == (f"pg-p-{pod['metadata']['uid']}", None)
    assert grouper.warnings() == []
    await grouper.restart("{extraOwners: [{apiVersion: acme.example/v1, kind: Widget, plural: widgets}]}")
    await grouper.pass_time()
    assert grouper.membership("p") == (f"pg-w-{widget['metadata']['uid']}", None)


async def test_a_pod_may_not_be_its_owners_if_reading_is_forbidden(grouper: GrouperCluster) -> None:
    """A refusal of the API server ends the chain of owners below."""
    grouper.serve(PYTORCH)
    grouper.fault("GET", r"/pytorchjobs", status=403)
    job = grouper.add(pytorch())
    await grouper.start()
    pod = grouper.pod("p", job)
    await grouper.pass_time(3.0)
    assert grouper.membership("p") == (f"pg-p-{pod['metadata']['uid']}", None)


async def test_a_change_of_the_workload_reaches_the_group(grouper: GrouperCluster) -> None:
    """The next pod event updates the minimum; queue and labels of others stay."""
    grouper.serve(PYTORCH)
    job = grouper.add(pytorch())
    grouper.pod("w0", job, labels=worker(0))
    await grouper.start()
    await grouper.pass_time()
    (name,) = grouper.groups()
    grouper.cluster.patch(PODGROUPS.type, name, {"spec": {"queue": "moved"}}, namespace="ml")
    change = {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 5}}}, "metadata": {"labels": {"new": "x"}}}
    grouper.cluster.patch(PYTORCH.type, "train", change, namespace="ml")
    grouper.pod("w1", job, labels=worker(1))
    await grouper.pass_time()
    group = grouper.groups()[name]
    assert (group.spec.min_member, group.spec.queue, group.labels["new"]) == (6, "moved", "x")


async def test_a_deleted_group_comes_back(grouper: GrouperCluster) -> None:
    """The next pod event creates a group that somebody deleted, also if the pod owns it."""
    await grouper.start()
    pod = grouper.pod("p")
    await grouper.pass_time()
    name = f"pg-p-{pod['metadata']['uid']}"
    assert grouper.groups()[name].metadata.owner_references[0].kind == "Pod"
    grouper.cluster.delete(PODGROUPS.type, name, namespace="ml")
    grouper.patch_pod("p", {"metadata": {"labels": {"x": "y"}}})
    await grouper.pass_time()
    assert list(grouper.groups()) == [name]


async def test_a_group_that_another_writer_created_is_updated(grouper: GrouperCluster) -> None:
    """A creation that meets an existing group becomes a patch of it."""
    await grouper.start(defined=False)
    grouper.serve(PODGROUPS)  # the watch shows the kind later
    pod = grouper.pod("p", labels={"team": "x"})
    name = f"pg-p-{pod['metadata']['uid']}"
    grouper.add(item("scheduling.run.ai/v2alpha2", "PodGroup", name, spec={"queue": "theirs"}))
    await grouper.pass_time(0.2)
    group = grouper.groups()[name]
    assert (group.spec.queue, group.spec.min_member, group.labels) == ("theirs", 1, {"team": "x"})


async def test_a_refused_write_is_reported_and_tried_again(grouper: GrouperCluster) -> None:
    """The pod gets the answer as an event; the group is written once that is possible."""
    await grouper.start()
    refusal = grouper.fault("POST", r"/podgroups$", status=403, times=2)
    grouper.pod("p")
    await grouper.pass_time()
    assert (grouper.groups(), refusal.hits) == ({}, 1)
    assert "403" in grouper.warnings()[0]
    await grouper.pass_time(4.0)
    assert (len(grouper.groups()), refusal.hits) == (1, 2)
    assert grouper.membership("p")[0] in grouper.groups()


async def test_a_refused_membership_is_reported_and_tried_again(grouper: GrouperCluster) -> None:
    """A pod that cannot be written is tried again."""
    await grouper.start()
    grouper.fault("PATCH", r"/pods/p$", status=403, times=1)
    grouper.pod("p")
    await grouper.pass_time()
    assert grouper.membership("p") == (None, None)
    assert len(grouper.warnings()) == 1
    await grouper.pass_time(2.0)
    assert grouper.membership("p")[0] in grouper.groups()


async def test_only_selected_pods_are_grouped(grouper: GrouperCluster) -> None:
    """Selectors choose labels of pods and of namespaces; other schedulers' pods are left alone."""
    grouper.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": {"team": "x"}}})
    selectors = "namespaceLabelSelector: {team: x}, podLabelSelector: {grouped: 'yes'}"
    await grouper.start(f"{{schedulerNames: [one, two], {selectors}}}")
    yes = {"grouped": "yes"}
    grouper.pod("a", labels=yes, spec={"schedulerName": "one"})
    grouper.pod("b", labels=yes, spec={"schedulerName": "two"}, metadata={"namespace": "other"})
    grouper.pod("c", spec={"schedulerName": "two"})
    grouper.pod("d", labels=yes)
    await grouper.pass_time()
    assert [name.split("-")[1] for name in grouper.groups()] == ["a"]


async def test_an_active_ray_service_is_grouped_when_its_cluster_is_known(grouper: GrouperCluster) -> None:
    """The pods wait until the operator has filled in the status of the service."""
    grouper.serve(*RAY)
    service = grouper.add(item("ray.io/v1", "RayService", "svc"))
    spec = {"workerGroupSpecs": [{"groupName": "w", "replicas": 2}]}
    cluster = grouper.add(item("ray.io/v1", "RayCluster", "ray", owners=[service], spec=spec))
    await grouper.start()
    grouper.pod("p", cluster, labels={"ray.io/group": "w"})
    await grouper.pass_time()
    assert "failed to extract rayClusterName for ml/svc of kind RayService" in grouper.warnings()[0]
    status = {"status": {"activeServiceStatus": {"rayClusterName": "ray"}}}
    grouper.cluster.patch(RAY[1].type, "svc", status, namespace="ml", status=True)
    await grouper.pass_time(2.0)
    (group,) = grouper.groups().values()
    assert (group.spec.min_member, grouper.membership("p")) == (3, (group.name, "w"))


async def test_defaults_of_kinds_come_from_a_config_map(grouper: GrouperCluster) -> None:
    """The ConfigMap that the args name is watched."""
    grouper.add(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}, "value": 1}
    )
    rows = '[{"typeName": "Pod", "priorityName": "low", "preemptibility": "Preemptible"}]'
    grouper.add(item("v1", "ConfigMap", "defaults", data={"types": rows}))
    await grouper.start("{defaultsConfigMap: defaults, defaultsConfigMapNamespace: ml}")
    grouper.pod("p")
    await grouper.pass_time()
    (group,) = grouper.groups().values()
    assert (group.spec.priority_class_name, group.spec.preemptibility) == ("low", "preemptible")


async def test_a_batch_profile_schedules_what_is_grouped(grouper: GrouperCluster) -> None:
    """Members are known at once: a gang is bound although the watch does not show its pods' annotations yet."""
    grouper.serve(PYTORCH, KAI_QUEUES)
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"gpu": free, "cpu": free, "memory": free}
    queue = {"apiVersion": KAI_QUEUES.type.api_version, "kind": "Queue", "metadata": {"name": "vision"}}
    grouper.add({**queue, "spec": {"resources": resources}})
    grouper.cluster.add_node("n1", allocatable={"cpu": "8"})
    job = grouper.add(pytorch())
    await grouper.start(plugins="{name: PodGrouper}, {name: Batch}", batch=True)
    for number in range(2):
        grouper.pod(f"w{number}", job, labels=worker(number))
    await grouper.pass_time(1.0)
    assert [pod.node_name for pod in grouper.cluster.pods()] == ["", ""]  # the master is missing
    grouper.pod("m", job, labels={"training.kubeflow.org/replica-type": "master"})
    patches = grouper.fault("PATCH", r"/pods/[a-z0-9]+$", delay_seconds=30.0)
    await grouper.pass_time(1.0)
    assert [pod.node_name for pod in grouper.cluster.pods()] == ["n1"] * 3
    assert (patches.hits, grouper.membership("m")) == (1, (None, None))


async def test_no_pod_is_tried_before_its_group_is_written(grouper: GrouperCluster) -> None:
    """While the group is not there, its pods are not bound one by one, and nobody is told that it does not exist."""
    grouper.serve(PYTORCH, KAI_QUEUES)
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    queue = {"apiVersion": KAI_QUEUES.type.api_version, "kind": "Queue", "metadata": {"name": "vision"}}
    grouper.add({**queue, "spec": {"resources": {"gpu": free, "cpu": free, "memory": free}}})
    grouper.cluster.add_node("n1", allocatable={"cpu": "8"})
    job = grouper.add(pytorch())
    await grouper.start(plugins="{name: PodGrouper}, {name: Batch}", batch=True)
    slow = grouper.fault("POST", r"/podgroups$", delay_seconds=20.0)
    roles = {"m": {"training.kubeflow.org/replica-type": "master"}, "w0": worker(0), "w1": worker(1)}
    for name, labels in roles.items():
        grouper.pod(name, job, labels={**labels, "kai.scheduler/queue": "vision"})
    await grouper.pass_time(15.0)
    assert slow.hits == 1
    for pod in grouper.cluster.pods():
        assert (pod.node_name, pod.status.conditions) == ("", ())
    await grouper.pass_time(10.0)
    assert [pod.node_name for pod in grouper.cluster.pods()] == ["n1"] * 3
    assert grouper.warnings() == []


async def test_permissions_are_those_of_the_kinds(grouper: GrouperCluster) -> None:
    """The plugin asks for its watches, reads of owners, and writes of groups and pods."""
    scheduler = await grouper.start("{extraOwners: [{apiVersion: acme.example/v1, kind: Widget, plural: widgets}]}")
    rules: dict[tuple[str, str], set[str]] = {}
    for need in scheduler.scheduler.needs():
        for group, resource in product(need.rule.api_groups, need.rule.resources):
            if need.who == "PodGrouper":
                rules.setdefault((group, resource), set()).update(need.rule.verbs)
    assert rules["", "pods"] == {"get", "patch"}
    assert rules["scheduling.run.ai", "podgroups"] == {"get", "list", "watch", "create", "patch"}
    assert rules["acme.example", "widgets"] == rules["ray.io", "rayjobs"] == {"get", "list", "watch"}
    assert ("", "configmaps") not in rules


def leader_ready(grouper: GrouperCluster) -> Json:
    """Create a LeaderWorkerSet of three pods whose workers follow their leader."""
    grouper.serve(
        owner_kind("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets", frozenset({"spec"}))
    )
    spec = {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 3}}
    return grouper.add(item("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws", spec=spec))


def lws_labels(index: int) -> dict[str, str]:
    """Return the labels of a pod of a LeaderWorkerSet."""
    key = "leaderworkerset.sigs.k8s.io"
    return {f"{key}/worker-index": str(index), f"{key}/group-index": "0"}


async def test_a_rule_that_reads_nodes_is_asked_again_when_its_pod_gets_one(grouper: GrouperCluster) -> None:
    """The minimum of a LeaderWorkerSet rises when its leader is bound."""
    top = leader_ready(grouper)
    await grouper.start()
    grouper.pod("leader", top, labels=lws_labels(0))
    await grouper.pass_time()
    assert [group.spec.min_member for group in grouper.groups().values()] == [1]
    grouper.cluster.add_node("n1")
    await grouper.pass_time(3.0)
    assert grouper.cluster.pod("leader", namespace="ml").node_name == "n1"
    assert [group.spec.min_member for group in grouper.groups().values()] == [3]


async def test_one_group_is_written_for_pods_that_say_different_things(grouper: GrouperCluster) -> None:
    """Of the pods of one round, the one that asks for the most members decides."""
    top = leader_ready(grouper)
    await grouper.start()
    for index in (1, 0):
        grouper.pod(f"p{index}", top, labels=lws_labels(index))
    await grouper.pass_time()
    (group,) = grouper.groups().values()
    assert group.spec.min_member == 3


async def test_pods_wait_for_their_group_before_they_are_scheduled(grouper: GrouperCluster) -> None:
    """A pod that has no group is held back at PreEnqueue; a user's group and other schedulers' pods are not."""
    grouper.cluster.add_node("n1")
    grouper.serve(PYTORCH)
    job = grouper.add(pytorch())
    grouper.cluster.delete(PYTORCH.type, "train", namespace="ml")
    await grouper.start()
    grouper.pod("lost", job, labels=worker(0))
    grouper.pod("users", annotations={"pod-group-name": "users"})
    grouper.pod("alone")
    await grouper.pass_time(2.0)
    assert {pod.name: pod.node_name for pod in grouper.cluster.pods()} == {"lost": "", "users": "n1", "alone": "n1"}
    assert grouper.membership("users") == ("users", None)
    grouper.patch_pod("lost", {"metadata": {"annotations": {"pod-group-name": "users"}}})
    await grouper.pass_time()
    assert grouper.cluster.pod("lost", namespace="ml").node_name == "n1"


async def test_only_the_leader_writes(grouper: GrouperCluster) -> None:
    """Nothing is written before this scheduler leads; a scheduler that leads again groups what came meanwhile."""
    grouper.serve(PODGROUPS)
    scheduler = await grouper.start(leads=False)
    plugin = scheduler.plugin("PodGrouper")
    assert isinstance(plugin, PodGrouper)
    for name, leads in (("a", False), ("b", True), ("c", False), ("d", True)):
        running = asyncio.create_task(plugin.run()) if leads else None
        grouper.pod(name)
        await grouper.pass_time()
        assert (grouper.membership(name)[0] is not None) == leads
        if running is not None:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
    assert len(grouper.groups()) == 4
