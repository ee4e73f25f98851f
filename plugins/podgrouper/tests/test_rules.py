"""Rules of single kinds where the file of cases does not reach."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.podgrouper.tests.workloads import Json, error_of, group_of, item, minima, pod
from pyscheduler_podgrouper.table import GROUPERS

WORKER = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"}


def kubeflow(kind: str, roles: str, /, version: str = "v1", **spec: Any) -> Json:
    """Return a Kubeflow job; replicas by role are a mapping of role and number."""
    replicas = {role: {"replicas": count} for role, count in spec.pop("replicas", {}).items()}
    return item(f"kubeflow.org/{version}", kind, "train", spec={roles: replicas, **spec})


def grouped(top: Json, name: str = "train-0", **fields: Any) -> Json:
    """Return the group of a pod of `top`."""
    return group_of(pod(name, top, **fields), objects=[top])


def refused(top: Json, name: str = "train-0", **fields: Any) -> str:
    """Return why a pod of `top` has no group."""
    return error_of(pod(name, top, **fields), objects=[top])


def test_the_table_has_each_kind_and_version() -> None:
    """A kind is found in each of its versions, and no two rows claim one."""
    pairs = [(row.group, version, row.kind) for row in GROUPERS for version in row.versions]
    assert len(pairs) == len(set(pairs)) == 43


# --- Kubeflow -------------------------------------------------------------------------------------


def test_a_scheduling_policy_makes_replicas_unnecessary() -> None:
    """With `minAvailable` roles are not checked, so a mandatory role may be missing."""
    policy = {"schedulingPolicy": {"minAvailable": 3}}
    job = kubeflow("XGBoostJob", "xgbReplicaSpecs", replicas={"Worker": 0}, runPolicy=policy)
    assert grouped(job)["minMember"] == 3


@pytest.mark.parametrize(
    ("job", "said"),
    [
        pytest.param(kubeflow("TFJob", "other"), "doesn't have a tfReplicaSpecs field", id="no section"),
        pytest.param(kubeflow("TFJob", "tfReplicaSpecs"), "Must be greater than 0, but got 0", id="no roles"),
        pytest.param(
            kubeflow("JAXJob", "jaxReplicaSpecs", replicas={"Other": 1}),
            "doesn't have a Worker replica spec which is required",
            id="no worker",
        ),
        pytest.param(
            kubeflow("MPIJob", "mpiReplicaSpecs", replicas={"Worker": 2}), "a Launcher replica spec", id="no launcher"
        ),
        pytest.param(
            kubeflow("TFJob", "tfReplicaSpecs", replicas={"PS": "two"}),
            "accessor error: two is of the type string, expected int64",
            id="a text",
        ),
        pytest.param(
            kubeflow("TFJob", "tfReplicaSpecs", replicas={"PS": True}), "is of the type bool", id="a truth value"
        ),
        pytest.param(
            kubeflow("PyTorchJob", "none", runPolicy={"schedulingPolicy": {"minAvailable": 2}}),
            "pytorchReplicaSpecs not found in PyTorchJob ml/train",
            id="a PyTorchJob without roles",
        ),
    ],
)
def test_a_job_without_usable_replicas_is_refused(job: Json, said: str) -> None:
    """The message names what is wrong with the replicas."""
    assert said in refused(job)


def test_a_delayed_launcher_lowers_an_explicit_minimum() -> None:
    """The launcher does not count before it exists, also in `minAvailable`; a terminating launcher does not exist."""
    job = kubeflow(
        "MPIJob",
        "mpiReplicaSpecs",
        version="v2beta1",
        replicas={"Launcher": 1, "Worker": 4},
        runPolicy={"schedulingPolicy": {"minAvailable": 5}},
        launcherCreationPolicy="WaitForWorkersReady",
    )
    labels = {"training.kubeflow.org/job-name": "train", "training.kubeflow.org/job-role": "launcher"}
    ending = pod("old", job, labels=labels, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert group_of(pod("w", job), ending, objects=[job])["minMember"] == 4
    assert group_of(pod("w", job), pod("launcher", job, labels=labels), objects=[job])["minMember"] == 5


@pytest.mark.parametrize(
    ("spec", "total", "expected"),
    [
        pytest.param({"replicas": {"Worker": 2}}, 2, {"worker": 2}, id="no master"),
        pytest.param(
            {"replicas": {"Master": 1, "Worker": 4}, "elasticPolicy": {"minReplicas": 3}},
            3,
            {"master": 1, "worker": 2},
            id="elastic",
        ),
        pytest.param(
            {"replicas": {"Master": 2, "Worker": 4}, "elasticPolicy": {"minReplicas": 1}},
            1,
            {"master": 2, "worker": 0},
            id="fewer than masters",
        ),
        pytest.param({"replicas": {"Master": 1}}, 1, {"master": 1}, id="only a master"),
        pytest.param(
            {"replicas": {"Worker": 4}, "elasticPolicy": {"minReplicas": "2"}}, 4, {"worker": 4}, id="not a number"
        ),
    ],
)
def test_pytorch_minimum_and_sub_groups(spec: Json, total: int, expected: dict[str, int]) -> None:
    """The workers need what the masters leave of the minimum."""
    group = grouped(kubeflow("PyTorchJob", "pytorchReplicaSpecs", **spec), labels=WORKER)
    assert (group["minMember"], minima(group)) == (total, expected)


def test_a_pytorch_role_may_have_a_minimum_of_its_own() -> None:
    """`minReplicas` of a role counts for that role, before the elastic policy."""
    job = kubeflow("PyTorchJob", "pytorchReplicaSpecs", elasticPolicy={"minReplicas": 5})
    job["spec"]["pytorchReplicaSpecs"] = {"Master": {"replicas": 1}, "Worker": {"replicas": 6, "minReplicas": 2}}
    group = grouped(job, labels=WORKER)
    assert (group["minMember"], minima(group)) == (3, {"master": 1, "worker": 2})


def segmented(workers: int, size: str, **annotations: str) -> Json:
    """Return a PyTorchJob whose worker template has a segment size."""
    job = kubeflow("PyTorchJob", "pytorchReplicaSpecs", replicas={"Master": 1, "Worker": workers})
    template = {"metadata": {"annotations": {"kai.scheduler/segment-size": size, **annotations}}}
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"] = template
    return job


def test_the_last_pytorch_segment_may_be_smaller() -> None:
    """The last segment holds the rest; a pod's own size counts before the template's; masters have no segment."""
    labels = {**WORKER, "training.kubeflow.org/replica-index": "6"}
    group = grouped(segmented(7, "3"), labels=labels)
    assert minima(group) == {"master": 1, "worker": 7, "worker-0": 3, "worker-1": 3, "worker-2": 1}
    assert group["podSubGroup"] == "worker-2"
    own = grouped(segmented(7, "3"), labels=labels, annotations={"kai.scheduler/segment-size": "4"})
    assert (minima(own)["worker-1"], own["podSubGroup"]) == (3, "worker-1")
    assert (
        grouped(segmented(7, "3"), labels={"training.kubeflow.org/replica-type": "master"})["podSubGroup"] == "master"
    )


def test_segments_share_a_topology_if_it_is_complete() -> None:
    """A level without a topology constrains nothing; annotations of the pod count before those of the template."""
    level = {"kai.scheduler/segment-topology-preferred-placement": "rack"}
    assert "topologyConstraint" not in grouped(segmented(2, "2", **level), labels=WORKER)["subGroups"][2]
    job = segmented(2, "2", **level, **{"kai.scheduler/topology": "template"})
    pods_own = {"kai.scheduler/segment-topology-preferred-placement": "block"}
    constraint = grouped(job, labels=WORKER, annotations=pods_own)["subGroups"][2]["topologyConstraint"]
    assert constraint == {
        "topology": "template",
        "requiredTopologyLevel": "",
        "preferredTopologyLevel": "block",
    }


@pytest.mark.parametrize(
    ("size", "labels", "said"),
    [
        pytest.param("two", WORKER, "invalid segment size two on worker podTemplate", id="no number"),
        pytest.param("0", WORKER, "needs to be a positive integer", id="zero"),
        pytest.param(
            "2", {"training.kubeflow.org/replica-type": "worker"}, "replica index label not found", id="no index"
        ),
        pytest.param("2", {**WORKER, "training.kubeflow.org/replica-index": "x"}, "invalid replica index x", id="x"),
    ],
)
def test_pytorch_segments_that_cannot_be_read_are_refused(size: str, labels: dict[str, str], said: str) -> None:
    """A wrong size or index is an error."""
    assert said in refused(segmented(4, size), labels=labels)


# --- Ray ------------------------------------------------------------------------------------------


def ray(kind: str = "RayCluster", name: str = "ray", **fields: Any) -> Json:
    """Return a Ray object."""
    return item("ray.io/v1", kind, name, **fields)


GROUPS = {"workerGroupSpecs": [{"groupName": "a", "replicas": 2}, {"replicas": 3, "minReplicas": 1, "numOfHosts": 4}]}


def test_an_active_ray_service_counts_before_a_pending_one() -> None:
    """The pods of a service belong to the cluster that serves; its priority is a label that nobody checks."""
    names = {
        "activeServiceStatus": {"rayClusterName": "ray"},
        "pendingServiceStatus": {"rayClusterName": "next"},
    }
    service = ray("RayService", "svc", status=names, labels={"ray.io/priority-class-name": "not-there"})
    clusters = [ray(spec=GROUPS), ray(name="next", spec={})]
    group = group_of(pod("p", service, labels={"ray.io/group": "worker-group-1"}), objects=[service, *clusters])
    assert (group["minMember"], group["podSubGroup"]) == (7, "worker-group-1")
    assert minima(group) == {"headgroup": 1, "a": 2, "worker-group-1": 4}
    assert (group["owner"]["kind"], group["priorityClassName"]) == ("RayService", "not-there")


@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [
        pytest.param("RayService", {"pendingServiceStatus": {}}, "failed to extract rayClusterName", id="no name"),
        pytest.param("RayJob", {"rayClusterName": ""}, "failed to extract rayClusterName", id="an empty name"),
        pytest.param("RayJob", {"rayClusterName": "gone"}, '"gone" not found', id="no cluster"),
    ],
)
def test_a_ray_object_without_a_cluster_is_refused(kind: str, status: Json, said: str) -> None:
    """The pods are grouped once the operator has made the cluster."""
    assert said in refused(ray(kind, status=status))


def test_more_ray_workers_at_least_than_at_all_is_an_error() -> None:
    """`minReplicas` above `replicas` is refused; it does not matter in a suspended group."""
    wrong = {"minReplicas": 3, "replicas": 2}
    assert "can't be less than minReplicas" in refused(ray(spec={"workerGroupSpecs": [wrong]}))
    group = grouped(ray(spec={"workerGroupSpecs": [{**wrong, "suspended": True}, {"replicas": 0}]}))
    assert minima(group) == {"headgroup": 1}


def test_a_ray_group_from_before_sub_groups_keeps_having_none() -> None:
    """Its pods have no sub-group label, so that sub-groups would never be complete."""
    cluster = ray(spec=GROUPS)
    old = item("scheduling.run.ai/v2alpha2", "PodGroup", "pg-ray-uid-ray", spec={"minMember": 3, "queue": "q"})
    group = group_of(pod("p", cluster, labels={"ray.io/group": "a"}), objects=[cluster, old])
    assert (group["minMember"], group["subGroups"], group["podSubGroup"]) == (7, [], None)
    old["spec"]["subGroups"] = [{"name": "headgroup", "minMember": 1}]
    assert len(group_of(pod("p", cluster), objects=[cluster, old])["subGroups"]) == 3


def test_ray_templates_constrain_their_sub_groups() -> None:
    """A level makes a constraint; a topology alone makes none, and a level without a topology is an error."""

    def template(**annotations: str) -> Json:
        named = {f"kai.scheduler/{key.replace('_', '-')}": value for key, value in annotations.items()}
        return {"template": {"metadata": {"annotations": named}}}

    head = template(topology="dc", topology_required_placement="rack")
    group = grouped(ray(spec={"headGroupSpec": head, "workerGroupSpecs": [{"replicas": 1, **template(topology="dc")}]}))
    assert [each.get("topologyConstraint") for each in group["subGroups"]] == [
        {"topology": "dc", "requiredTopologyLevel": "rack", "preferredTopologyLevel": ""},
        None,
    ]
    wrong = {"workerGroupSpecs": [{"groupName": "w", "replicas": 1, **template(topology_preferred_placement="rack")}]}
    assert "topology annotation (kai.scheduler/topology) is required for workerGroupSpecs.w" in refused(ray(spec=wrong))


# --- JobSet ---------------------------------------------------------------------------------------

JOB_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"


@pytest.mark.parametrize(
    ("jobs", "order", "expected"),
    [
        pytest.param([{"name": "a", "replicas": 0}], None, ("-a", 1), id="no replicas"),
        pytest.param(
            [{"name": "a", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 3}}}],
            "InOrder",
            ("-a", 6),
            id="fewer completions",
        ),
        pytest.param([{"name": "b", "replicas": 7}], None, ("-a", 1), id="unknown job"),
        pytest.param([], "AnyOrder", ("", 1), id="no jobs"),
        pytest.param(
            [{"name": "a", "replicas": 2}, {"name": "b", "template": {"spec": {"parallelism": 3}}}, {"replicas": 9}],
            "AnyOrder",
            ("", 5),
            id="all jobs with names",
        ),
    ],
)
def test_jobset_minimum(jobs: list[Json], order: str | None, expected: tuple[str, int]) -> None:
    """Jobs that start in order have a group each, all others one together."""
    policy = {} if order is None else {"startupPolicy": {"startupPolicyOrder": order}}
    top = item("jobset.x-k8s.io/v1alpha2", "JobSet", "js", spec={"replicatedJobs": jobs, **policy})
    group = grouped(top, labels={JOB_LABEL: "a"})
    assert (group["name"], group["minMember"]) == (f"pg-js-uid-js{expected[0]}", expected[1])


def test_a_jobset_that_is_too_large_is_refused() -> None:
    """The minimum must fit into the field of a PodGroup."""
    spec = {"replicatedJobs": [{"name": "a", "replicas": 2**31}]}
    top = item("jobset.x-k8s.io/v1alpha2", "JobSet", "js", spec=spec)
    assert "exceeds int32 max value" in refused(top, labels={JOB_LABEL: "a"})


# --- other kinds ----------------------------------------------------------------------------------


def test_a_knative_revision_keeps_groups_of_single_pods() -> None:
    """Pods with different groups, or with a group that a pod owns, were grouped one by one before; they stay so."""
    service = item("serving.knative.dev/v1", "Service", "svc")
    revision = item("serving.knative.dev/v1", "Revision", "rev", annotations={"autoscaling.knative.dev/min-scale": "x"})
    label = {"serving.knative.dev/revision": "rev"}

    def member(name: str, group: str = "") -> Json:
        return pod(name, service, labels=label, annotations={"pod-group-name": group} if group else {})

    def name_of(*others: Json, objects: tuple[Json, ...] = ()) -> str:
        group = group_of(member("new"), *others, objects=[service, revision, *objects])
        assert group["minMember"] == 1
        return str(group["name"])

    def owned(kind: str) -> Json:
        owner = item("v1", kind, "a")
        return item("scheduling.run.ai/v2alpha2", "PodGroup", "pg-a", owners=[owner], spec={"queue": "q"})

    assert name_of() == "pg-rev-uid-rev"
    assert name_of(member("a", "pg-a"), member("b", "pg-b")) == "pg-new-uid-new"
    assert name_of(member("a", "pg-a"), member("b", "pg-a")) == "pg-rev-uid-rev"
    assert name_of(member("a", "pg-a")) == "pg-rev-uid-rev"  # the group is gone
    assert name_of(member("a", "pg-a"), objects=(owned("Pod"),)) == "pg-new-uid-new"
    assert name_of(member("a", "pg-a"), objects=(owned("Revision"),)) == "pg-rev-uid-rev"
    objects = [service, revision, owned("Other")]
    assert "unexpected owner reference" in error_of(member("new"), member("a", "pg-a"), objects=objects)


def test_a_knative_pod_without_a_revision_is_refused() -> None:
    """The revision is named by a label, and must exist."""
    service = item("serving.knative.dev/v1", "Service", "svc")
    assert "revisionName not found for knative service pod ml/train-0" in refused(service)
    assert 'Revision "gone" not found' in refused(service, labels={"serving.knative.dev/revision": "gone"})


@pytest.mark.parametrize("count", [pytest.param({}, id="missing"), pytest.param("4", id="a text")])
def test_an_aml_job_needs_a_node_count(count: Any) -> None:
    """The count must be an integer."""
    envs = {"AZUREML_NODE_COUNT": count} if count else {}
    job = item("amlarc.azureml.com/v1alpha1", "AmlJob", "aml", spec={"job": {"options": {"envs": envs}}})
    assert "azureml envs count not found in spec" in refused(job)


@pytest.mark.parametrize(
    ("parallelism", "legacy", "expected"),
    [
        pytest.param(None, "pg-run-uid-run", "pg-run-uid-run", id="the job's name"),
        pytest.param(1, "pg-run-1-uid-run", "pg-run-uid-run", id="without parallelism not the pod's name"),
        pytest.param(2, "pg-run-1-uid-run", "pg-run-1-uid-run", id="the pod's name"),
        pytest.param("2", "pg-run-uid-run", "pg-run-uid-run", id="not a number"),
    ],
)
def test_a_runai_job_keeps_a_legacy_name(parallelism: Any, legacy: str, expected: str) -> None:
    """A group with the name of an older version is used as long as it exists."""
    top = item("run.ai/v1", "RunaiJob", "run", spec={} if parallelism is None else {"parallelism": parallelism})
    old = item("scheduling.run.ai/v2alpha2", "PodGroup", legacy, spec={"queue": "q"})
    assert group_of(pod("run-1", top), objects=[top, old])["name"] == expected
    config = {"searchForLegacyPodGroups": False}
    assert group_of(pod("run-1", top), objects=[top, old], config=config)["name"] == "pg-run-uid-run"
    assert group_of(pod("plain", top), objects=[top], config=config)["name"] == "pg-plain-uid-run"


def test_a_cron_job_needs_a_job() -> None:
    """The pod must name a Job among its owners, and the Job must exist."""
    cron = item("batch/v1", "CronJob", "cron")
    assert "no owner reference of type 'Job'" in refused(cron)


# --- Grove ----------------------------------------------------------------------------------------


def gang(**fields: Any) -> Json:
    """Return a PodGang with one group of pods."""
    one = {"name": "a", "minReplicas": 2, "podReferences": [{"namespace": "ml", "name": "train-0"}]}
    spec = {"podgroups": [one], **fields.pop("spec", {})}
    return item("scheduler.grove.io/v1alpha1", "PodGang", "gang", spec=spec, **fields)


def groved(the_gang: Json | None, **top: Any) -> tuple[list[Json], Json]:
    """Return the objects and the pod of a PodCliqueSet with a PodGang."""
    owner = item("grove.io/v1alpha1", "PodCliqueSet", "set", **top)
    return [owner, *([the_gang] if the_gang else [])], pod("train-0", owner, labels={"grove.io/podgang": "gang"})


def test_grove_parents_and_constraints() -> None:
    """Groups of a topology config get a parent without a minimum; the name of the topology is an annotation."""
    pack = {"topologyConstraint": {"packConstraint": {"required": "rack"}}}
    spec = {
        "priorityClassName": "not-checked",
        "topologyConstraint": {"packConstraint": {"preferred": "block"}},
        "topologyConstraintGroupConfigs": [{"name": "p", "podGroupNames": ["a"], **pack}, {"name": "empty"}],
    }
    objects, member = groved(gang(spec=spec, annotations={"grove.io/topology-name": "dc"}))
    group = group_of(member, objects=objects)
    rack = {"topology": "dc", "requiredTopologyLevel": "rack", "preferredTopologyLevel": ""}
    assert group["subGroups"] == [
        {"name": "p", "minMember": 0, "topologyConstraint": rack},
        {"name": "a", "minMember": 2, "parent": "p"},
    ]
    assert group["topologyConstraint"] == {
        "topology": "dc",
        "requiredTopologyLevel": "",
        "preferredTopologyLevel": "block",
    }
    assert (group["minMember"], group["podSubGroup"], group["priorityClassName"]) == (2, "a", "not-checked")


def test_grove_takes_what_the_top_owner_says() -> None:
    """Labels of the top owner set priority and preemptibility, but not the queue."""
    labels = {
        "priorityClassName": "not-checked",
        "kai.scheduler/preemptibility": "preemptible",
        "kai.scheduler/queue": "late",
    }
    annotations = {"kai.scheduler/topology": "dc", "kai.scheduler/topology-required-placement": "rack"}
    objects, member = groved(gang(), labels=labels, annotations=annotations)
    group = group_of(member, objects=objects)
    assert (group["priorityClassName"], group["preemptibility"]) == ("not-checked", "preemptible")
    assert (group["queue"], group["labels"]["kai.scheduler/queue"]) == ("default-queue", "late")
    assert group["topologyConstraint"]["requiredTopologyLevel"] == "rack"


@pytest.mark.parametrize(
    ("the_gang", "top", "said"),
    [
        pytest.param(None, {}, "failed to get PodGang ml/gang", id="no gang"),
        pytest.param(gang(spec={"podgroups": [{"name": "a"}]}), {}, "'minReplicas'", id="no minimum"),
        pytest.param(gang(spec={"podgroups": [{}]}), {}, "missing required 'name'", id="no name"),
        pytest.param(
            gang(spec={"podgroups": [{"name": "a", "minReplicas": 0}]}), {}, "Must be greater than 0", id="zero"
        ),
        pytest.param(
            gang(spec={"podgroups": [{"name": "a", "minReplicas": 1}]}), {}, "'podReferences'", id="no references"
        ),
        pytest.param(
            gang(
                spec={
                    "podgroups": [
                        {"name": "a", "minReplicas": 1, "podReferences": [{"namespace": "other", "name": "x"}]}
                    ]
                }
            ),
            {},
            "cross-namespace pod reference not allowed",
            id="another namespace",
        ),
        pytest.param(
            gang(spec={"topologyConstraint": {"packConstraint": {"required": "rack"}}}),
            {},
            "topology name cannot be empty",
            id="no topology",
        ),
        pytest.param(
            gang(), {"labels": {"kai.scheduler/preemptibility": "maybe"}}, "failed to parse preemptibility", id="maybe"
        ),
    ],
)
def test_a_broken_pod_gang_is_refused(the_gang: Json | None, top: Json, said: str) -> None:
    """The message names the field."""
    objects, member = groved(the_gang, **top)
    assert said in error_of(member, objects=objects)
