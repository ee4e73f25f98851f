"""Workloads at the edges of their rules: missing fields, other versions, long chains, permissions.

The expected answers follow from the source of KAI-Scheduler, `pkg/podgrouper`.
"""

from __future__ import annotations

from typing import Any

import pytest

from plugins.podgrouper.tests.workloads import Json, answers, item, pod

QUEUE = "kai.scheduler/queue"
REPLICATED = "jobset.sigs.k8s.io/replicatedjob-name"
ROLE = "training.kubeflow.org/replica-type"


def roles(**counts: int | None) -> Json:
    """Return the roles of a Kubeflow job."""
    return {name: {} if count is None else {"replicas": count} for name, count in counts.items()}


def job_set(*jobs: Json, order: Any = "AnyOrder") -> Json:
    """Return a JobSet."""
    spec = {"replicatedJobs": list(jobs), "startupPolicy": {"startupPolicyOrder": order}}
    return item("jobset.x-k8s.io/v1alpha2", "JobSet", "js", spec=spec)


def ray(*groups: Any, version: str = "v1", **spec: Any) -> Json:
    """Return a RayCluster."""
    return item(f"ray.io/{version}", "RayCluster", "rc", spec={"workerGroupSpecs": list(groups), **spec})


def lws(size: Any, **template: Any) -> Json:
    """Return a LeaderWorkerSet."""
    spec = {"leaderWorkerTemplate": {"size": size, **template}}
    return item("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws", spec=spec)


def member(index: str, group: str = "0") -> dict[str, str]:
    """Return the labels of a pod of a LeaderWorkerSet."""
    prefix = "leaderworkerset.sigs.k8s.io"
    return {f"{prefix}/worker-index": index, f"{prefix}/group-index": group}


def kubeflow(kind: str, section: str, version: str = "v1", **spec: Any) -> Json:
    """Return a Kubeflow job with roles and other fields."""
    return item(f"kubeflow.org/{version}", kind, "train", spec={section: spec.pop("roles"), **spec})


def chain(*kinds: tuple[str, str], **top_fields: Any) -> list[Json]:
    """Return objects from the top owner down, each owned by the one before it."""
    found: list[Json] = []
    for api_version, kind in kinds:
        fields = {} if found else top_fields
        found.append(item(api_version, kind, kind.lower(), owners=found[-1:], **fields))
    return found


def answer(objects: list[Json], labels: dict[str, str] | None = None, **case: Any) -> Json:
    """Return the answer for a pod of the last object."""
    found = answers(pod("p-0", *objects[-1:], labels=labels or {}), objects=objects, **case)[0]
    return {**found.get("podGroup", {}), **found}


GROUPED: list[Any] = [
    # Kubeflow
    pytest.param(
        [
            kubeflow(
                "PyTorchJob", "pytorchReplicaSpecs", roles=roles(Master=1, Worker=4), elasticPolicy={"maxReplicas": 8}
            )
        ],
        {},
        {"minMember": 5},
        id="elastic without a minimum",
    ),
    pytest.param(
        [kubeflow("PyTorchJob", "pytorchReplicaSpecs", roles=roles(Master=1, Worker=2))],
        {ROLE: "Master"},
        {"podSubGroup": None},
        id="roles in labels are lower case",
    ),
    pytest.param(
        [kubeflow("TFJob", "tfReplicaSpecs", roles=roles(Worker=4), runPolicy={"suspend": True})],
        {},
        {"minMember": 4},
        id="a suspended job",
    ),
    pytest.param(
        [kubeflow("PyTorchJob", "pytorchReplicaSpecs", "v2", roles=roles(Worker=4))],
        {},
        {"minMember": 1, "subGroups": []},
        id="an unknown version of a kind",
    ),
    pytest.param(
        [item("kubeflow.org/v1", "Notebook", "nb")],
        {},
        {"priorityClassName": "train"},
        id="an unknown version of Notebook",
    ),
    # Ray
    pytest.param(
        [ray({"groupName": "w", "replicas": 4, "minReplicas": 0, "numOfHosts": 2})],
        {"ray.io/group": "w"},
        {"minMember": 9, "podSubGroup": "w"},
        id="workers without a minimum",
    ),
    pytest.param([ray()], {"ray.io/group": "headgroup"}, {"minMember": 1, "podSubGroup": "headgroup"}, id="no workers"),
    pytest.param(
        [ray({"groupName": "w", "minReplicas": 0, "maxReplicas": 9})],
        {},
        {"minMember": 1},
        id="workers may scale to zero",
    ),
    pytest.param([ray(version="v2")], {}, {"minMember": 1, "subGroups": []}, id="an unknown version of RayCluster"),
    # JobSet
    pytest.param(
        [job_set({"name": "a", "replicas": 2}, order="")],
        {REPLICATED: "a"},
        {"name": "pg-js-uid-js"},
        id="an empty order",
    ),
    # LeaderWorkerSet
    pytest.param([lws(1)], member("0"), {"minMember": 1, "podSubGroup": "leader"}, id="a leader alone"),
    pytest.param(
        [lws(4)], member("3", "x"), {"name": "pg-lws-uid-lws", "podSubGroup": "workers"}, id="a group without a number"
    ),
    pytest.param([lws(4)], {}, {"name": "pg-lws-uid-lws", "podSubGroup": "workers"}, id="no labels"),
    pytest.param(
        [lws(5, subGroupPolicy={"subGroupSize": 2, "subGroupPolicyType": "Other"})],
        member("1", "007"),
        {
            "name": "pg-lws-uid-lws-group-7",
            "podSubGroup": "segment-0",
            "subGroups": [{"name": "segment-0", "minMember": 2}, {"name": "segment-1", "minMember": 2}],
        },
        id="segments of an unknown type",
    ),
    # Owners
    pytest.param(
        chain(("batch/v1beta1", "CronJob"), ("batch/v1", "Job"), labels={QUEUE: "q"}),
        {},
        {"name": "pg-cronjob-uid-cronjob", "queue": "q", "minMember": 1},
        id="an old version of CronJob counts",
    ),
    pytest.param(
        chain(("a.io/v1", "Top"), ("b.io/v1", "Middle"), ("apps/v1", "StatefulSet"), labels={QUEUE: "q"}),
        {QUEUE: "other", "priorityClassName": "build"},
        {"name": "pg-top-uid-top", "queue": "q", "priorityClassName": "build", "minMember": 1},
        id="three owners",
    ),
    pytest.param(
        chain(("run.ai/v2", "InferenceWorkload"), ("run.ai/v2", "TrainingWorkload"), ("apps/v1", "ReplicaSet")),
        {},
        {"name": "pg-trainingworkload-uid-trainingworkload"},
        id="any version is passed over once",
    ),
    pytest.param(
        chain(("serving.knative.dev/v1", "Configuration"), ("apps/v1", "Deployment"), ("apps/v1", "ReplicaSet")),
        {"serving.knative.dev/revision": "r"},
        {"name": "pg-configuration-uid-configuration", "priorityClassName": "train"},
        id="Knative without its Service",
    ),
    pytest.param(
        [item("v1", "Pod", "driver", spec={"schedulerName": "default-scheduler"})],
        {"spark-app-selector": "spark-1"},
        {"name": "pg-driver-uid-driver"},
        id="an executor lacks a label",
    ),
    # Labels and annotations
    pytest.param(
        [item("apps/v1", "DaemonSet", "d", annotations={"priorityClassName": "urgent"})],
        {},
        {"priorityClassName": "train"},
        id="an annotation names no priority",
    ),
    pytest.param(
        [item("apps/v1", "DaemonSet", "d", labels={QUEUE: ""})],
        {QUEUE: "pods"},
        {"queue": ""},
        id="an empty queue counts",
    ),
    pytest.param(
        [item("apps/v1", "DaemonSet", "d", labels={"project": "", "user": "owner"})],
        {"project": "p", "user": "pod"},
        {"queue": "default-queue"},
        id="an empty project hides that of the pod",
    ),
    pytest.param(
        [item("apps/v1", "DaemonSet", "d", labels={"kai.scheduler/preemptibility": ""})],
        {"kai.scheduler/preemptibility": "preemptible"},
        {"preemptibility": ""},
        id="an empty preemptibility counts",
    ),
]


@pytest.mark.parametrize(("objects", "labels", "expected"), GROUPED)
def test_odd_workloads_are_grouped(objects: list[Json], labels: dict[str, str], expected: Json) -> None:
    """The fields of the group that matter, and the sub-group of the pod."""
    found = answer(objects, labels)
    assert {name: found.get(name, found) for name in expected} == expected


REFUSED: list[Any] = [
    pytest.param(
        [kubeflow("PyTorchJob", "pytorchReplicaSpecs", roles={"Worker": {"replicas": None}})],
        {},
        "accessor error: <nil> is of the type <nil>, expected int64",
        id="replicas are null",
    ),
    pytest.param([job_set(order=5)], {REPLICATED: "a"}, "failed to read spec.startupPolicy", id="an order is a number"),
    pytest.param(
        [job_set({"name": "a", "replicas": "2"})],
        {REPLICATED: "a"},
        "failed to read replicas from JobSet ml/js replicatedJob a",
        id="a number of jobs is a text",
    ),
    pytest.param(
        [lws(4, subGroupPolicy={"subGroupSize": 9})],
        member("0"),
        "failed to get sub group policy for LWS ml/lws",
        id="9",
    ),
    pytest.param([lws("4")], member("0"), "failed to get leaderWorkerTemplate.size from LWS ml/lws", id="size"),
    pytest.param([ray({"replicas": 1, "suspended": "no"})], {}, "expected bool", id="suspended is a text"),
]


@pytest.mark.parametrize(("objects", "labels", "said"), REFUSED)
def test_odd_workloads_are_refused(objects: list[Json], labels: dict[str, str], said: str) -> None:
    """The error is in the words of KAI."""
    assert said in answer(objects, labels).get("error", "none")


@pytest.mark.parametrize(
    ("forbidden", "name"),
    [
        pytest.param("Deployment/deployment", "pg-replicaset-uid-replicaset", id="the top owner"),
        pytest.param("ReplicaSet/replicaset", "pg-p-0-uid-p-0", id="the first owner"),
    ],
)
def test_the_last_readable_owner_of_a_chain_counts(forbidden: str, name: str) -> None:
    """An owner that may not be read ends the chain."""
    objects = chain(("apps/v1", "Deployment"), ("apps/v1", "ReplicaSet"))
    assert answer(objects, faults={"forbidden": [forbidden]})["name"] == name


def test_an_object_is_found_in_each_version_of_its_kind() -> None:
    """A RayJob of v1 names a RayCluster that the case holds as v1alpha1, as an API server would convert it."""
    cluster = ray({"replicas": 3}, version="v1alpha1")
    top = item("ray.io/v1", "RayJob", "rj", status={"rayClusterName": "rc"})
    assert answer([cluster, top])["minMember"] == 4


def test_defaults_of_kinds_may_have_other_fields() -> None:
    """A field that nobody reads may have any value, and null is no text."""
    rows = '[{"typeName": "DaemonSet", "group": null, "priorityName": "urgent", "weight": 5}]'
    defaults = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d", "namespace": "kai"}}
    objects = [{**defaults, "data": {"types": rows}}, item("apps/v1", "DaemonSet", "d")]
    config = {"defaultsConfigMap": "d", "defaultsConfigMapNamespace": "kai"}
    assert answer(objects, config=config)["priorityClassName"] == "urgent"
