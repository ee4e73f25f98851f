"""Controllers of workloads on an embedded cluster with simulated kubelets; a stand-in for the scheduler binds pods."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.resources.builtin import PODS
from kube_testserver.resources.open_definitions import open_definition
from kube_testserver.rules.deletion import DeleteOptions
from kube_testserver.virtual_time import VirtualClock
from kube_testserver.workloads.controllers import WorkloadControllers

Json = dict[str, Any]

VOLCANO_GROUP = "scheduling.k8s.io/group-name"


def node_manifest(
    name: str, *, allocatable: dict[str, str] | None = None, labels: dict[str, str] | None = None
) -> Json:
    """Return a node."""
    room = allocatable or {"cpu": "4", "memory": "16Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, **(labels or {})}
    status = {"capacity": room, "allocatable": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


class Simulation:
    """A cluster with controllers, one node, and a way to let time pass."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.cluster = EmbeddedCluster(clock=self.clock, rng=random.Random(5))
        self.cluster.add(open_definition("scheduling.volcano.sh", "PodGroup", "podgroups", ["v1beta1"]))
        room = {"cpu": "1000", "memory": "1000Gi", "pods": "500"}
        self.cluster.add(node_manifest("n", allocatable=room, labels={"role": "gpu"}))
        self.controllers = WorkloadControllers(self.cluster)
        self.parts = (self.cluster.garbage_collector(), self.cluster.lifecycle(), self.controllers)

    def add(self, api_version: str, kind: str, spec: Json, *, name: str = "w", **metadata: Any) -> Json:
        """Create a workload."""
        meta = {"name": name, "namespace": "default", **metadata}
        (obj,) = self.cluster.add({"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec})
        return obj

    async def settle(self, *, bind: bool = True) -> list[Json]:
        """Let all parts finish, with pods bound to the node; return the pods."""
        for _ in range(8):
            await self.clock.advance(1.0)
            for pod in self.cluster.pods() if bind else ():
                if "nodeName" not in pod["spec"]:
                    record = self.cluster.registry.get(PODS, "default", pod["metadata"]["name"])
                    bound = record.decode()
                    bound["spec"]["nodeName"] = "n"
                    self.cluster.registry.put(PODS, record, bound)
        return self.cluster.pods()

    def finish(self, pod: Json, phase: str = "Succeeded") -> None:
        """End a pod."""
        record = self.cluster.registry.get(PODS, "default", pod["metadata"]["name"])
        ended = record.decode()
        ended["status"] = {**ended["status"], "phase": phase, "conditions": []}
        self.cluster.registry.put(PODS, record, ended)

    def change(self, obj: Json, **spec: Any) -> None:
        """Change fields of the spec of a workload."""
        resource = self.cluster.resource_of(obj)
        record = self.cluster.registry.get(resource, "default", obj["metadata"]["name"])
        new = record.decode()
        new["spec"] |= spec
        self.cluster.registry.change(resource, record, new)

    def delete(self, obj: Json, propagation: str = "") -> None:
        """Delete a workload."""
        resource, options = self.cluster.resource_of(obj), DeleteOptions(propagation=propagation)
        self.cluster.registry.delete(resource, "default", obj["metadata"]["name"], options)


@pytest.fixture
async def simulation() -> AsyncIterator[Simulation]:
    """Yield a simulation that runs."""
    made = Simulation()
    for part in made.parts:
        part.start()
    yield made
    for part in made.parts:
        part.stop()
    made.cluster.check_invariants()


def template(**spec: Any) -> Json:
    """Return the template of a pod."""
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    return {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [container], **spec}}


def names(objects: list[Json]) -> list[str]:
    """Return the names of objects."""
    return [one["metadata"]["name"] for one in objects]


def owner(obj: Json) -> tuple[str, str]:
    """Return kind and name of the controller of an object."""
    (reference,) = obj["metadata"]["ownerReferences"]
    assert reference["controller"]
    return reference["kind"], reference["name"]


SELECTOR = {"matchLabels": {"app": "w"}}


def quota(hard: Json) -> Json:
    """Return a ResourceQuota."""
    metadata = {"name": "q", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


def warnings(simulation: Simulation, kind: str) -> list[Json]:
    """Return the events about objects of a kind."""
    return [one for one in simulation.cluster.objects("v1", "Event") if one["involvedObject"]["kind"] == kind]


def conditions(simulation: Simulation, kind: str) -> Json:
    """Return the conditions of the only object of a kind in apps/v1, by type."""
    (obj,) = simulation.cluster.objects("apps/v1", kind)
    return {one["type"]: one for one in obj["status"].get("conditions") or ()}


async def test_a_deployment_scales_and_replaces_pods(simulation: Simulation) -> None:
    """Pods follow replicas, a deleted or failed pod is replaced, and a new template has a new ReplicaSet."""
    spec = {"replicas": 3, "selector": SELECTOR, "template": template()}
    made = simulation.add("apps/v1", "Deployment", spec)
    pods = await simulation.settle()
    (first,) = simulation.cluster.objects("apps/v1", "ReplicaSet")
    set_name = first["metadata"]["name"]
    assert {owner(pod) for pod in pods} == {("ReplicaSet", set_name)}
    assert owner(first) == ("Deployment", "w")
    assert all(name.startswith(f"{set_name}-") for name in names(pods))
    assert {pod["metadata"]["labels"]["pod-template-hash"] for pod in pods} == {set_name.rpartition("-")[2]}
    status = simulation.cluster.get("apps/v1", "Deployment", "w", namespace="default")["status"]
    assert (status["readyReplicas"], status["updatedReplicas"]) == (3, 3)
    reasons = {each["type"]: each["reason"] for each in status["conditions"]}
    assert reasons == {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}

    simulation.cluster.remove("v1", "Pod", names(pods)[0], namespace="default")
    simulation.finish(pods[1], "Failed")
    simulation.change(made, replicas=2)
    pods = await simulation.settle()
    assert Counter(pod["status"]["phase"] for pod in pods) == {"Running": 2, "Failed": 1}

    simulation.change(made, template=template(hostNetwork=True))
    pods = await simulation.settle()
    sets = {
        one["metadata"]["name"]: one["spec"]["replicas"] for one in simulation.cluster.objects("apps/v1", "ReplicaSet")
    }
    assert sorted(sets.values()) == [0, 2]
    assert sets[set_name] == 0
    assert {owner(pod)[1] for pod in pods if pod["status"]["phase"] == "Running"} == set(sets) - {set_name}


async def test_deleting_a_workload_deletes_its_pods(simulation: Simulation) -> None:
    """In the background all pods go; orphans stay, and nobody replaces them."""
    spec = {"replicas": 2, "selector": SELECTOR, "template": template()}
    made = simulation.add("apps/v1", "Deployment", spec)
    await simulation.settle()
    simulation.delete(made)
    assert await simulation.settle() == []
    assert simulation.cluster.objects("apps/v1", "ReplicaSet") == []
    made = simulation.add("apps/v1", "ReplicaSet", spec)
    await simulation.settle()
    simulation.delete(made, "Orphan")
    assert len(await simulation.settle()) == 2


async def test_a_stateful_set_starts_in_order(simulation: Simulation) -> None:
    """The next pod is made when the one before is ready; each pod has a claim, which outlives it."""
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    spec = {
        "replicas": 3,
        "selector": SELECTOR,
        "serviceName": "s",
        "template": template(),
        "volumeClaimTemplates": [claim],
    }
    made = simulation.add("apps/v1", "StatefulSet", spec)
    assert names(await simulation.settle(bind=False)) == ["w-0"]
    pods = await simulation.settle()
    assert names(pods) == ["w-0", "w-1", "w-2"]
    assert pods[2]["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "2"
    assert pods[2]["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-w-2"}}]
    simulation.finish(pods[1], "Failed")
    pods = await simulation.settle()
    assert [pod["status"]["phase"] for pod in pods] == ["Running"] * 3
    simulation.change(made, replicas=1)
    assert names(await simulation.settle()) == ["w-0"]
    claims = simulation.cluster.objects("v1", "PersistentVolumeClaim")
    assert [(one["metadata"]["name"], one["status"]["phase"]) for one in claims] == [
        (f"data-w-{index}", "Bound") for index in range(3)
    ]
    volumes = simulation.cluster.objects("v1", "PersistentVolume")
    assert {one["spec"]["claimRef"]["name"] for one in volumes} == {f"data-w-{index}" for index in range(3)}


def storage_class(mode: str) -> Json:
    """Return a StorageClass."""
    fields = {"metadata": {"name": "c"}, "provisioner": "x", "volumeBindingMode": mode}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **fields}


async def test_a_claim_of_a_missing_class_stays_pending(simulation: Simulation) -> None:
    """An event says so, and there is no volume; the claim is bound as soon as the class exists."""
    simulation.add("v1", "PersistentVolumeClaim", {"accessModes": ["ReadWriteOnce"], "storageClassName": "c"})
    await simulation.settle()
    await simulation.clock.advance(600.0)
    assert simulation.cluster.objects("v1", "PersistentVolume") == []
    (claim,) = simulation.cluster.objects("v1", "PersistentVolumeClaim")
    assert claim["status"] == {"phase": "Pending"}
    (event,) = warnings(simulation, "PersistentVolumeClaim")
    assert (event["reason"], event["message"]) == ("ProvisioningFailed", 'storageclass.storage.k8s.io "c" not found')
    assert event["source"] == {"component": "persistentvolume-controller"}
    simulation.cluster.add(storage_class("Immediate"))
    await simulation.clock.advance(1.0)
    (claim,) = simulation.cluster.objects("v1", "PersistentVolumeClaim")
    assert claim["status"]["phase"] == "Bound"


async def test_a_late_claim_waits_for_a_node(simulation: Simulation) -> None:
    """A claim of a class that waits for its first consumer gets its volume once a node is selected."""
    simulation.cluster.add(storage_class("WaitForFirstConsumer"))
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "c"}
    made = simulation.add("v1", "PersistentVolumeClaim", spec)
    await simulation.settle()
    assert simulation.cluster.objects("v1", "PersistentVolume") == []
    resource = simulation.cluster.resource_of(made)
    record = simulation.cluster.registry.get(resource, "default", "w")
    chosen = record.decode()
    chosen["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n"}
    simulation.cluster.registry.put(resource, record, chosen)
    await simulation.settle()
    bound = simulation.cluster.get("v1", "PersistentVolumeClaim", "w", namespace="default")
    assert bound["status"]["phase"] == "Bound"
    assert len(simulation.cluster.objects("v1", "PersistentVolume")) == 1


async def test_a_daemon_set_has_a_pod_on_each_matching_node(simulation: Simulation) -> None:
    """Nodes that do not match, or whose taint is not tolerated, get none; a new node gets one."""
    taint = {"key": "k", "effect": "NoSchedule"}
    simulation.cluster.add(
        node_manifest("other"), {**node_manifest("tainted", labels={"role": "gpu"}), "spec": {"taints": [taint]}}
    )
    simulation.add("apps/v1", "DaemonSet", {"selector": SELECTOR, "template": template(nodeSelector={"role": "gpu"})})
    assert len(await simulation.settle(bind=False)) == 1
    simulation.cluster.add(node_manifest("late", labels={"role": "gpu"}))
    pods = await simulation.settle(bind=False)
    pinned = [
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        for pod in pods
    ]
    assert sorted(terms[0]["matchFields"][0]["values"][0] for terms in pinned) == ["late", "n"]


async def test_a_job_runs_to_its_completions(simulation: Simulation) -> None:
    """At most `parallelism` pods run; when enough have succeeded, the Job is complete."""
    spec = {"parallelism": 2, "completions": 3, "template": template(restartPolicy="Never")}
    simulation.add("batch/v1", "Job", spec)
    for left in (2, 2, 1, 0):
        pods = [pod for pod in await simulation.settle() if pod["status"]["phase"] == "Running"]
        assert len(pods) == left
        if pods:
            simulation.finish(pods[0])
    status = simulation.cluster.get("batch/v1", "Job", "w", namespace="default")["status"]
    assert (status["succeeded"], status["active"]) == (3, 0)
    assert [one["type"] for one in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]


async def test_an_indexed_job_repeats_the_index_that_failed(simulation: Simulation) -> None:
    """Each index has one pod; a failed pod is replaced until the limit, then the Job fails and its pods go."""
    spec = {
        "parallelism": 3,
        "completions": 3,
        "completionMode": "Indexed",
        "backoffLimit": 1,
        "template": template(restartPolicy="Never"),
    }
    simulation.add("batch/v1", "Job", spec)
    index = "batch.kubernetes.io/job-completion-index"
    pods = await simulation.settle()
    assert sorted(pod["metadata"]["annotations"][index] for pod in pods) == ["0", "1", "2"]
    assert sorted(pod["spec"]["hostname"] for pod in pods) == ["w-0", "w-1", "w-2"]
    simulation.finish(pods[1], "Failed")
    pods = [pod for pod in await simulation.settle() if pod["status"]["phase"] == "Running"]
    assert sorted(pod["metadata"]["annotations"][index] for pod in pods) == ["0", "1", "2"]
    simulation.finish(pods[0], "Failed")
    assert [pod for pod in await simulation.settle() if pod["status"]["phase"] == "Running"] == []
    status = simulation.cluster.get("batch/v1", "Job", "w", namespace="default")["status"]
    assert [one["reason"] for one in status["conditions"]] == ["BackoffLimitExceeded"]


async def test_a_suspended_job_has_no_pods(simulation: Simulation) -> None:
    """Suspending deletes the pods; resuming makes new ones and removes the condition."""
    made = simulation.add("batch/v1", "Job", {"suspend": True, "parallelism": 2, "template": template()})
    assert await simulation.settle() == []
    simulation.change(made, suspend=False)
    assert len(await simulation.settle()) == 2
    simulation.change(made, suspend=True)
    assert await simulation.settle() == []
    status = simulation.cluster.get("batch/v1", "Job", "w", namespace="default")["status"]
    assert [one["type"] for one in status["conditions"]] == ["Suspended"]


async def test_a_job_set_starts_in_order_if_asked(simulation: Simulation) -> None:
    """With InOrder, the second Job is made when the pods of the first run; labels name the place in the set."""
    jobs = [
        {"name": name, "replicas": count, "template": {"spec": {"parallelism": 2, "template": template()}}}
        for name, count in (("a", 1), ("b", 2))
    ]
    spec = {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": "InOrder"}}
    simulation.add("jobset.x-k8s.io/v1alpha2", "JobSet", spec)
    await simulation.settle(bind=False)
    assert names(simulation.cluster.objects("batch/v1", "Job")) == ["w-a-0"]
    pods = await simulation.settle()
    made = simulation.cluster.objects("batch/v1", "Job")
    assert names(made) == ["w-a-0", "w-b-0", "w-b-1"]
    assert {owner(one) for one in made} == {("JobSet", "w")}
    assert len(pods) == 6
    label = "jobset.sigs.k8s.io/replicatedjob-name"
    assert Counter(pod["metadata"]["labels"][label] for pod in pods) == {"a": 2, "b": 4}


async def test_a_leader_worker_set_makes_workers_for_each_leader(simulation: Simulation) -> None:
    """Workers belong to a StatefulSet that their leader owns; a deleted leader takes its workers along."""
    group = {"size": 3, "workerTemplate": template()}
    spec = {"replicas": 2, "leaderWorkerTemplate": group, "startupPolicy": "LeaderReady"}
    simulation.add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)
    assert names(await simulation.settle(bind=False)) == ["w-0", "w-1"]
    pods = {pod["metadata"]["name"]: pod for pod in await simulation.settle()}
    assert sorted(pods) == ["w-0", "w-0-1", "w-0-2", "w-1", "w-1-1", "w-1-2"]
    prefix = "leaderworkerset.sigs.k8s.io"
    indexes = {name: pod["metadata"]["labels"][f"{prefix}/worker-index"] for name, pod in pods.items()}
    assert (indexes["w-0"], indexes["w-0-1"], indexes["w-1-2"]) == ("0", "1", "2")
    groups = {name: pod["metadata"]["labels"][f"{prefix}/group-index"] for name, pod in pods.items()}
    assert [groups[name] for name in sorted(pods)] == ["0", "0", "0", "1", "1", "1"]
    workers = simulation.cluster.get("apps/v1", "StatefulSet", "w-1", namespace="default")
    assert owner(workers) == ("Pod", "w-1")
    before = {pods[name]["metadata"]["uid"] for name in ("w-1", "w-1-1", "w-1-2")}
    simulation.cluster.remove("v1", "Pod", "w-1", namespace="default")
    after = {pod["metadata"]["uid"] for pod in await simulation.settle()}
    assert len(after) == 6
    assert not before & after


async def test_kubeflow_jobs_label_their_roles(simulation: Simulation) -> None:
    """Names and labels are those of the training operator; a suspended job has no pods."""
    roles = {"Master": {"replicas": 1, "template": template()}, "Worker": {"replicas": 2, "template": template()}}
    made = simulation.add("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": roles})
    pods = await simulation.settle()
    assert names(pods) == ["w-master-0", "w-worker-0", "w-worker-1"]
    prefix = "training.kubeflow.org"
    assert pods[0]["metadata"]["labels"] == {
        "app": "w",
        f"{prefix}/operator-name": "pytorchjob-controller",
        f"{prefix}/job-name": "w",
        f"{prefix}/replica-index": "0",
        f"{prefix}/replica-type": "master",
        f"{prefix}/job-role": "master",
    }
    simulation.change(made, runPolicy={"suspend": True})
    assert await simulation.settle() == []


async def test_an_mpi_job_may_start_its_launcher_last(simulation: Simulation) -> None:
    """With WaitForWorkersReady the launcher's Job is made when all workers are ready; all are in Volcano's group."""
    volcano = template(schedulerName="volcano")
    roles = {"Launcher": {"replicas": 1, "template": volcano}, "Worker": {"replicas": 2, "template": volcano}}
    spec = {"mpiReplicaSpecs": roles, "launcherCreationPolicy": "WaitForWorkersReady"}
    simulation.add("kubeflow.org/v2beta1", "MPIJob", spec)
    assert names(await simulation.settle(bind=False)) == ["w-worker-0", "w-worker-1"]
    pods = await simulation.settle()
    assert Counter(owner(pod) for pod in pods) == {("MPIJob", "w"): 2, ("Job", "w-launcher"): 1}
    assert {pod["metadata"]["annotations"][VOLCANO_GROUP] for pod in pods} == {"w"}
    group = simulation.cluster.get("scheduling.volcano.sh/v1beta1", "PodGroup", "w", namespace="default")
    assert (group["spec"]["minMember"], group["spec"]["minResources"]["cpu"]) == (3, "6")


async def test_a_volcano_job_makes_its_group(simulation: Simulation) -> None:
    """The group has the minimum of the job and of each task; a changed minimum follows."""
    tasks = [{"name": name, "replicas": count, "template": template()} for name, count in (("ps", 1), ("worker", 2))]
    made = simulation.add("batch.volcano.sh/v1alpha1", "Job", {"minAvailable": 2, "tasks": tasks, "queue": "q"})
    pods = await simulation.settle()
    assert names(pods) == ["w-ps-0", "w-worker-0", "w-worker-1"]
    (group,) = simulation.cluster.objects("scheduling.volcano.sh/v1beta1", "PodGroup")
    assert group["metadata"]["name"] == f"w-{made['metadata']['uid']}"
    assert group["spec"]["minTaskMember"] == {"ps": 1, "worker": 2}
    needed = group["spec"]["minResources"]
    assert (needed["cpu"], needed["requests.memory"], needed["pods"]) == ("4", str(2 << 30), "2")
    annotations = pods[2]["metadata"]["annotations"]
    assert annotations[VOLCANO_GROUP] == group["metadata"]["name"]
    assert (annotations["volcano.sh/task-spec"], annotations["volcano.sh/task-index"]) == ("worker", "1")
    assert pods[2]["spec"]["schedulerName"] == "volcano"
    simulation.change(made, minAvailable=3)
    await simulation.settle()
    (group,) = simulation.cluster.objects("scheduling.volcano.sh/v1beta1", "PodGroup")
    assert group["spec"]["minMember"] == 3


@pytest.mark.parametrize(
    ("minimum", "cpus"),
    [
        # Of ps, which has the higher priority, first; its minimum of 1 and then its second pod.
        pytest.param(1, "5", id="below the minima"),
        pytest.param(3, "9", id="the minima"),
        pytest.param(4, "14", id="above the minima"),
        pytest.param(6, "18", id="all"),
    ],
)
async def test_min_resources_of_a_volcano_job_count_important_tasks_first(
    simulation: Simulation, minimum: int, cpus: str
) -> None:
    """Tasks of higher priority count first: the first pods, or all minima and then the first others."""
    simulation.cluster.add(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    )
    worker = {"name": "worker", "replicas": 4, "minAvailable": 2, "template": template()}
    large = template(priorityClassName="high")
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "5"
    ps = {"name": "ps", "replicas": 2, "minAvailable": 1, "template": large}
    simulation.add("batch.volcano.sh/v1alpha1", "Job", {"minAvailable": minimum, "tasks": [worker, ps]})
    await simulation.settle(bind=False)
    (group,) = simulation.cluster.objects("scheduling.volcano.sh/v1beta1", "PodGroup")
    assert group["spec"]["minResources"]["requests.cpu"] == cpus


async def test_a_spark_driver_makes_its_executors(simulation: Simulation) -> None:
    """Executors belong to the driver, and there are none before it runs; memory includes Spark's overhead."""
    spec = {"driver": {"cores": 2, "memory": "4g"}, "executor": {"instances": 2, "cores": 1, "memory": "512m"}}
    simulation.add("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec)
    assert names(await simulation.settle(bind=False)) == ["w-driver"]
    pods = await simulation.settle()
    roles = Counter((pod["metadata"]["labels"]["spark-role"], *owner(pod)) for pod in pods)
    assert roles == {("driver", "SparkApplication", "w"): 1, ("executor", "Pod", "w-driver"): 2}
    memory = {pod["spec"]["containers"][0]["resources"]["requests"]["memory"] for pod in pods}
    assert memory == {"4505Mi", "896Mi"}
    assert len({pod["metadata"]["labels"]["spark-app-selector"] for pod in pods}) == 1


async def test_a_ray_cluster_follows_its_replicas(simulation: Simulation) -> None:
    """Workers are counted times hosts, and never below the minimum; without the label there is no group."""
    group = {"groupName": "g", "replicas": 1, "minReplicas": 2, "numOfHosts": 2, "template": template()}
    spec = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [group]}
    made = simulation.add("ray.io/v1", "RayCluster", spec)
    pods = await simulation.settle()
    assert Counter(pod["metadata"]["labels"]["ray.io/group"] for pod in pods) == {"headgroup": 1, "g": 4}
    assert simulation.cluster.objects("scheduling.volcano.sh/v1beta1", "PodGroup") == []
    simulation.change(made, workerGroupSpecs=[{**group, "replicas": 3}])
    assert len(await simulation.settle()) == 7
    simulation.change(made, suspend=True)
    assert await simulation.settle() == []


async def test_a_workload_that_cannot_be_expanded_is_tried_again(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    """The reason is logged once; the pods are created once what was missing exists."""
    caplog.set_level(logging.WARNING)
    spec = {"replicas": 1, "selector": SELECTOR, "template": template(priorityClassName="late")}
    simulation.add("apps/v1", "ReplicaSet", spec)
    assert await simulation.settle() == []
    (line,) = [record.getMessage() for record in caplog.records]
    assert "workload=replicasets.apps/default/w was not expanded" in line
    assert "late" in line
    simulation.cluster.add(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "late"}, "value": 7}
    )
    assert len(await simulation.settle()) == 1


async def test_a_deployment_over_its_quota_says_so_until_its_pods_exist(simulation: Simulation) -> None:
    """The ReplicaSet has an event and the condition ReplicaFailure, which the Deployment takes over."""
    (limit,) = simulation.cluster.add(quota({"pods": "2"}))
    simulation.add("apps/v1", "Deployment", {"replicas": 3, "selector": SELECTOR, "template": template()})
    assert len(await simulation.settle()) == 2
    (replica_set,) = simulation.cluster.objects("apps/v1", "ReplicaSet")
    assert replica_set["status"]["readyReplicas"] == 2
    text = f'pods "{replica_set["metadata"]["name"]}-'
    reason = '" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    (event,) = warnings(simulation, "ReplicaSet")
    about = event["type"], event["reason"], event["reportingComponent"]
    assert about == ("Warning", "FailedCreate", "replicaset-controller")
    assert event["involvedObject"]["uid"] == replica_set["metadata"]["uid"]
    assert event["message"].startswith(f"Error creating: {text}")
    assert event["message"].endswith(reason)
    failure = conditions(simulation, "ReplicaSet")["ReplicaFailure"]
    assert (failure["status"], failure["reason"]) == ("True", "FailedCreate")
    assert failure["message"].startswith(text)
    assert failure["message"].endswith(reason)
    failure["lastUpdateTime"] = failure["lastTransitionTime"]
    assert conditions(simulation, "Deployment")["ReplicaFailure"] == failure
    simulation.change(limit, hard={"pods": "3"})
    await simulation.settle()
    assert len(await simulation.settle()) == 3
    assert conditions(simulation, "ReplicaSet") == {}
    assert set(conditions(simulation, "Deployment")) == {"Available", "Progressing"}


async def test_refused_pods_are_tried_again_after_growing_pauses(simulation: Simulation) -> None:
    """One event counts the attempts; ReplicaFailure keeps its time and its message; a pause is a minute at most."""
    simulation.cluster.add(quota({"pods": "0"}))
    simulation.add("apps/v1", "ReplicaSet", {"replicas": 1, "selector": SELECTOR, "template": template()})
    await simulation.settle()
    first = conditions(simulation, "ReplicaSet")["ReplicaFailure"]
    counts = []
    for _ in range(10):
        await simulation.clock.advance(60.0)
        (event,) = warnings(simulation, "ReplicaSet")
        counts.append(event["count"])
    assert counts[0] < 10
    assert counts[-1] - counts[4] == 5
    assert event["firstTimestamp"] < event["lastTimestamp"]
    assert conditions(simulation, "ReplicaSet")["ReplicaFailure"] == first
    assert event["message"] != f"Error creating: {first['message']}"


NO_PODS = {"pods": "0"}
APP = {"selector": SELECTOR, "template": template()}
DATA = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
NO_SET = 'ReplicaSetCreateError: Failed to create new replica set "w-'
CREATING = 'FailedCreate: Error creating: pods "w-'


@pytest.mark.parametrize(
    ("kind", "hard", "spec", "expected"),
    [
        pytest.param(
            ("apps/v1", "StatefulSet"),
            NO_PODS,
            APP,
            'FailedCreate: create Pod w-0 in StatefulSet w failed error: pods "w-0" is forbidden: exceeded quota: q',
            id="stateful-set",
        ),
        pytest.param(
            ("apps/v1", "StatefulSet"),
            {"persistentvolumeclaims": "0"},
            APP
            | {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]},
            "FailedCreate: create Pod w-0 in StatefulSet w failed error: failed to create PVC data-w-0: "
            'persistentvolumeclaims "data-w-0" is forbidden: exceeded quota: q',
            id="claim",
        ),
        pytest.param(("apps/v1", "DaemonSet"), NO_PODS, APP, CREATING, id="daemon-set"),
        pytest.param(("batch/v1", "Job"), NO_PODS, {"template": template()}, CREATING, id="job"),
        pytest.param(("apps/v1", "Deployment"), {"count/replicasets.apps": "0"}, APP, NO_SET, id="deployment"),
    ],
)
async def test_refused_objects_are_reported_on_their_workload(
    simulation: Simulation, kind: tuple[str, str], hard: Json, spec: Json, expected: str
) -> None:
    """Reason and text are kube-controller-manager's; the status is written."""
    simulation.cluster.add(quota(hard))
    simulation.add(*kind, spec)
    await simulation.settle()
    (event,) = warnings(simulation, kind[1])
    assert f"{event['reason']}: {event['message']}".startswith(expected)
    assert "is forbidden: exceeded quota: q" in event["message"]
    assert event["reportingComponent"] == f"{kind[1].lower()}-controller"
    assert simulation.cluster.get(*kind, "w", namespace="default")["status"]


@pytest.mark.parametrize(
    ("api_version", "kind", "spec"),
    [
        pytest.param("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": ["Worker"]}, id="roles"),
        pytest.param("ray.io/v1", "RayCluster", {"workerGroupSpecs": 7}, id="groups"),
        pytest.param("batch.volcano.sh/v1alpha1", "Job", {"tasks": ["a"]}, id="tasks"),
        pytest.param("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{}]}, id="nameless"),
    ],
)
async def test_malformed_workloads_do_no_harm(
    simulation: Simulation, caplog: pytest.LogCaptureFixture, api_version: str, kind: str, spec: Json
) -> None:
    """A malformed workload is reported, and others are expanded."""
    simulation.add(api_version, kind, spec, name="bad")
    simulation.add("batch/v1", "Job", {"template": template()})
    assert [owner(pod) for pod in await simulation.settle()] == [("Job", "w")]
    assert [record for record in caplog.records if "bad was not expanded" in record.getMessage()]


async def test_controllers_stop(simulation: Simulation) -> None:
    """After `stop` workloads stay as they are."""
    simulation.controllers.stop()
    simulation.add("batch/v1", "Job", {"template": template()})
    assert await simulation.settle() == []
