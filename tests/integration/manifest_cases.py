"""What becomes of each manifest in `tests/podgroup/manifests`. The cases were written by hand, from notes and fields.

A case is a manifest on a cluster with a few nodes. `bound` and `waiting` count pods by the beginning of their names;
together they are all pods of the manifest. `groups` are the minima of the PodGroups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kube_testserver.resources.open_definitions import open_definition
from pyscheduler.testing import node_manifest

Json = dict[str, Any]

VOLCANO_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
KAI_GROUPS = "/apis/scheduling.run.ai/v2alpha2/podgroups"
GPU = "nvidia.com/gpu"
TAINTS = [{"key": GPU, "value": "present", "effect": "NoSchedule"}]


def nodes(
    count: int,
    *,
    taints: list[Json] | None = None,
    labels: Mapping[str, str] | None = None,
    gpus: int = 8,
    shares: int = 0,
) -> list[Json]:
    """Return nodes with 128 CPUs, 2 TiB and `gpus`; `shares` are percents of GPUs, as Koordinator counts them.

    Neighbours are in different zones, racks and blocks.
    """
    room = {"cpu": "128", "memory": "2Ti", "pods": "110", GPU: str(gpus)}
    if shares:
        room |= {"koordinator.sh/gpu-core": str(shares), "koordinator.sh/gpu-memory-ratio": str(shares)}
    found = []
    for index in range(count):
        own = {
            "topology.kubernetes.io/zone": f"zone-{index % 3}",
            "topology.example.com/rack": f"rack-{index % 3}",
            "example.com/rack": f"rack-{index % 4}",
            "example.com/block": f"block-{index % 2}",
            "example.com/spine": "spine-0",
            **(labels or {}),
        }
        made = node_manifest(f"node-{index}", allocatable=room, labels=own)
        made["spec"] = {**made.get("spec", {}), "taints": taints or []}
        found.append(made)
    return found


@attrs.frozen
class Outcome:
    """The pods of a case when it has ended, and the nodes."""

    pods: list[Json]
    nodes: Mapping[str, Json]

    def domains(self, key: str, base: str = "") -> Counter[str]:
        """Count the bound pods, of those whose names begin with `base`, by a label of their node."""
        return Counter(
            self.nodes[pod["spec"]["nodeName"]]["metadata"]["labels"][key]
            for pod in self.pods
            if pod["spec"].get("nodeName") and pod["metadata"]["name"].startswith(base)
        )


@attrs.frozen
class Case:
    """A manifest, the cluster that it meets, and the state in which it ends."""

    file: str
    bound: Mapping[str, int] = {}
    waiting: Mapping[str, int] = {}
    nodes: list[Json] = attrs.field(factory=lambda: nodes(2))
    #: Objects that the manifest expects to exist.
    setup: tuple[Json, ...] = ()
    #: Minima of the groups that someone makes for the pods, and where they are listed.
    groups: list[int] = attrs.field(factory=list)
    groups_path: str = VOLCANO_GROUPS
    #: Create the nodes when all pods exist, so that the order of creation decides nothing.
    is_decided_at_once: bool = False
    #: Names of objects that the API server refuses.
    refused: frozenset[str] = frozenset()
    check: Callable[[Outcome], None] | None = None
    #: Changes the documents of the manifest.
    edit: Callable[[list[Json]], None] | None = None
    #: Lines that the scheduler logs.
    logged: tuple[str, ...] = ()


def priority_class(name: str, value: int) -> Json:
    """Return a PriorityClass."""
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def kai_queue(name: str, parent: str = "") -> Json:
    """Return an unlimited queue of KAI."""
    amounts = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec: Json = {"resources": dict.fromkeys(("cpu", "gpu", "memory"), amounts)}
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def volcano_queue(name: str) -> Json:
    """Return a queue of Volcano."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1},
    }


def hyper_nodes(label: str, *values: str) -> list[Json]:
    """Return a HyperNode of tier 1 for each value of a label of nodes."""
    return [
        {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": value},
            "spec": {
                "tier": 1,
                "members": [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {label: value}}}}],
            },
        }
        for value in values
    ]


def cluster_network_topology(*layers: str) -> Json:
    """Return the layers of Koordinator above the nodes, the widest first; `aLayer` is in the label `example.com/a`."""
    spec = [
        {
            "topologyLayer": layer,
            "parentTopologyLayer": parent,
            "labelKey": [f"example.com/{layer.removesuffix('Layer')}"],
        }
        for layer, parent in zip(layers, ("", *layers), strict=False)
    ]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "ClusterNetworkTopology",
        "metadata": {"name": "default"},
        "spec": {
            "networkTopologySpec": [*spec, {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": layers[-1]}]
        },
    }


def kube_batch_queue(name: str) -> Json:
    """Return a queue of kube-batch, in its oldest version."""
    return {
        "apiVersion": "scheduling.incubator.k8s.io/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1},
    }


# --- checks beyond counts -------------------------------------------------------------------------


def _in_two_zones_at_least(outcome: Outcome) -> None:
    assert len(outcome.domains("topology.kubernetes.io/zone")) > 1


def _evenly_over_zones(outcome: Outcome) -> None:
    counts = outcome.domains("topology.kubernetes.io/zone").values()
    assert len(counts) == 3
    assert max(counts) - min(counts) <= 1


def _on_nodes_of_their_own(outcome: Outcome) -> None:
    assert set(outcome.domains("kubernetes.io/hostname").values()) == {1}


def _in_one(key: str, *bases: str) -> Callable[[Outcome], None]:
    """Return a check that the pods with each beginning of a name are in one domain of `key`."""

    def check(outcome: Outcome) -> None:
        for base in bases:
            assert len(outcome.domains(key, base)) == 1, base

    return check


def _one_job_in_each_rack(outcome: Outcome) -> None:
    key = "topology.example.com/rack"
    racks = [set(outcome.domains(key, base)) for base in ("maxtext-driver", "maxtext-slice-0", "maxtext-slice-1")]
    assert all(len(each) == 1 for each in racks)
    assert len(set.union(*racks)) == 3


def _on_gpu_nodes_with_two_cpus(outcome: Outcome) -> None:
    assert set(outcome.domains("kubernetes.io/hostname")) == {"node-0", "node-1"}


def _have_device_groups(outcome: Outcome) -> None:
    assert all("runai-gpu-group" in pod["metadata"].get("labels", {}) for pod in outcome.pods)


# --- changes of manifests -------------------------------------------------------------------------


def _start_in_any_order(documents: list[Json]) -> None:
    documents[0]["spec"]["startupPolicy"] = {"startupPolicyOrder": "AnyOrder"}


def _move_to_kai(documents: list[Json]) -> None:
    documents[0]["spec"]["schedulerName"] = "kai-scheduler"


def _leave_volcano(documents: list[Json]) -> None:
    del documents[0]["metadata"]["labels"]["ray.io/scheduler-name"]


# --- the tables -----------------------------------------------------------------------------------

SCHEDULER_PLUGINS = (
    Case("01-sigs-podgroup-4workers.yaml", {"bert": 4}, nodes=nodes(1, taints=TAINTS)),
    # On three GPUs all or nothing means nothing.
    Case("01-sigs-podgroup-4workers.yaml", {}, {"bert": 4}, nodes=nodes(1, taints=TAINTS, gpus=3)),
    Case("02-sigs-podgroup-minresources.yaml", {"etl": 6}),
    # Five GPUs: more than the minimum of 3, fewer than the 8 members.
    Case("03-sigs-elastic-min3-of-8.yaml", {"hpo": 5}, {"hpo": 3}, nodes=nodes(1, gpus=5)),
    Case("04-sigs-group-incomplete.yaml", {}, {"incomplete": 3}),
    # One node: between two, beta would be tried without enough room, and alpha might be placed during beta's backoff.
    Case(
        "05-sigs-two-groups-contend.yaml", {"beta": 4}, {"alpha": 4}, nodes=nodes(1, gpus=16), is_decided_at_once=True
    ),
    Case("06-sigs-same-name-two-namespaces.yaml", {"train": 4}),
    Case("07-sigs-label-without-podgroup.yaml", {}, {"orphan": 2}),
    Case("08-sigs-elasticquota-and-gang.yaml", {"llm-sft": 2}, nodes=nodes(2, taints=TAINTS)),
    Case("09-lightweight-labels.yaml", {"light": 3}),
    Case("10-lightweight-in-statefulset.yaml", {"zk-batch": 5}),
    Case("33-pytorchjob-sigs.yaml", {"ddp-vit-master": 1, "ddp-vit-worker": 3}),
    Case("40-job-indexed-gang.yaml", {"genome": 10}, check=_in_two_zones_at_least),
    Case("42-spark-driver-executors.yaml", {"spark-pi-driver": 1, "spark-pi-exec": 4}),
)
KOORDINATOR = (
    Case("11-koordinator-gang-annotations.yaml", {"gang-a": 4}),
    Case(
        "12-koordinator-ganggroup-ps-worker.yaml",
        {"ps": 1, "worker": 4},
        nodes=nodes(2, shares=800),
    ),
    # Without GPUs the workers have no room, so the parameter server stays behind as well.
    Case("12-koordinator-ganggroup-ps-worker.yaml", {}, {"ps": 1, "worker": 4}),
    Case("13-koordinator-podgroup-annotations.yaml", {"actor": 6, "learner": 1}, nodes=nodes(2, shares=800)),
    Case(
        "14-koordinator-nonstrict-shared-gpu.yaml",
        {"infer": 6},
        nodes=nodes(1, shares=200),
    ),
    Case("16-koordinator-groups-missing-member.yaml", {}, {"half": 2}),
    # The other pods of this manifest are another scheduler's, or refused. A bad list of gangs is as good as none.
    Case(
        "47-malformed-values.yaml",
        {"bad-groups": 1},
        {"bad-min": 1, "total-lt-min": 1, "bad-light": 1},
        refused=frozenset({"zero", "negative", "bad-qty"}),
        logged=("'three'", "'not-json'", "'2' is less than the minimum", "'x' is not an integer"),
    ),
)
KOORDINATOR_NETWORK = (
    Case(
        "15-koordinator-network-topology.yaml",
        {"moe": 8},
        nodes=nodes(16),
        setup=(cluster_network_topology("spineLayer", "blockLayer"),),
        check=_in_one("example.com/block", "moe"),
    ),
)
_DEFAULT_QUEUES = (volcano_queue("default"), priority_class("train-high", 1000), priority_class("train-low", 100))
BATCH = (
    Case("17-kube-batch-indexed-job.yaml", {"render-farm": 8}, setup=(kube_batch_queue("default"),)),
    Case("18-kube-batch-v1alpha2-queue.yaml", {"mc-sim": 3}, setup=(priority_class("train-low", 100),)),
    Case("19-volcano-queue-podgroup.yaml", {"detr": 3}, setup=_DEFAULT_QUEUES),
    Case(
        "20-volcano-job-mpi.yaml", {"allreduce-launcher": 1, "allreduce-worker": 4}, setup=_DEFAULT_QUEUES, groups=[5]
    ),
    Case(
        "21-volcano-job-elastic-minperTask.yaml", {"tf-ps-ps": 2, "tf-ps-worker": 6}, setup=_DEFAULT_QUEUES, groups=[3]
    ),
    # The minimum of two workers has no room.
    Case(
        "21-volcano-job-elastic-minperTask.yaml",
        {},
        {"tf-ps-ps": 2, "tf-ps-worker": 6},
        nodes=nodes(1, gpus=1),
        setup=_DEFAULT_QUEUES,
        groups=[3],
    ),
    Case(
        "22-volcano-network-topology.yaml",
        {"llm-128": 16},
        nodes=nodes(32, taints=TAINTS),
        setup=(*_DEFAULT_QUEUES, *hyper_nodes("example.com/block", "block-0", "block-1")),
        groups=[16],
        check=_in_one("example.com/block", "llm-128"),
    ),
    Case("23-volcano-minTaskMember.yaml", {"mixed-driver": 1, "mixed-exec": 3}, setup=_DEFAULT_QUEUES),
    Case(
        "35-mpijob.yaml",
        {"hpl-launcher": 1, "hpl-worker": 8},
        nodes=nodes(4),
        setup=_DEFAULT_QUEUES,
        groups=[9],
    ),
    Case(
        "36-tfjob-ps-chief-worker.yaml",
        {"wide-deep-chief": 1, "wide-deep-ps": 2, "wide-deep-worker": 4},
        setup=_DEFAULT_QUEUES,
        groups=[7],
    ),
    # The minimum is the head and the least workers of both groups, as Ray asks Volcano.
    Case(
        "37-raycluster.yaml",
        {"ray-tune-head": 1, "ray-tune-gpu": 4, "ray-tune-cpu": 2},
        setup=_DEFAULT_QUEUES,
        groups=[3],
    ),
    Case("43-sparkapplication-volcano.yaml", {"tpcds-driver": 1, "tpcds-": 10}, setup=_DEFAULT_QUEUES, groups=[1]),
    Case("29-k8s136-workload-gang.yaml", {"resnet": 4}),
    Case("30-k8s136-two-templates-basic-and-gang.yaml", {"learner": 2, "actor": 6}),
    Case(
        "31-k8s136-topology-preemption.yaml",
        {"gpt-0": 4, "gpt-1": 4},
        nodes=nodes(12),
        check=_in_one("topology.example.com/rack", "gpt-0", "gpt-1"),
    ),
    Case("32-k8s136-podgroup-without-workload.yaml", {"adhoc": 3}, {"stray": 1}),
    # The suspended Job has no pods.
    Case("41-job-suspended-kueue.yaml", {}, {"kq": 2}),
    Case("44-deployment-web-mixed.yaml", {"frontend": 12}, nodes=nodes(3), check=_evenly_over_zones),
    Case("45-statefulset-ordered.yaml", {"etcd": 3}, nodes=nodes(3), check=_on_nodes_of_their_own),
    # The init container needs two CPUs, so the pod of a third GPU node with one CPU waits.
    Case(
        "46-daemonset-and-init-containers.yaml",
        {"dcgm": 2},
        {"dcgm": 1},
        nodes=[
            *nodes(2, labels={"nvidia.com/gpu.present": "true"}),
            node_manifest(
                "small", allocatable={"cpu": "1", "memory": "8Gi"}, labels={"nvidia.com/gpu.present": "true"}
            ),
            node_manifest("plain", allocatable={"cpu": "8", "memory": "8Gi"}),
        ],
        check=_on_gpu_nodes_with_two_cpus,
    ),
)
_KAI = (
    priority_class("train", 50),
    kai_queue("default-parent-queue"),
    kai_queue("default-queue", "default-parent-queue"),
)
_TEAM = (*_KAI, kai_queue("dept-a"), kai_queue("team-nlp", "dept-a"))
KAI = (
    Case("24-kai-queues-and-podgroup.yaml", {"nlp-ddp": 2}, setup=_KAI, groups=[2], groups_path=KAI_GROUPS),
    # Seven GPUs: the minima of both sub-groups fit, the fourth decode pod does not.
    Case(
        "25-kai-subgroups-prefill-decode.yaml",
        {"prefill": 2, "decode": 3},
        {"decode": 1},
        nodes=nodes(1, gpus=7),
        setup=_KAI,
        groups=[5],
        groups_path=KAI_GROUPS,
    ),
    # Six GPUs: no three decode pods beside two prefill pods.
    Case(
        "25-kai-subgroups-prefill-decode.yaml",
        {},
        {"prefill": 2, "decode": 4},
        nodes=nodes(1, gpus=6),
        setup=_KAI,
        groups=[5],
        groups_path=KAI_GROUPS,
    ),
    Case(
        "26-kai-gpu-fraction.yaml",
        # Three shared devices: 0.5 + 0.25 + 0.25, 0.5, and memory on nodes whose labels do not say how much they have.
        {"nb": 5, "gpu-reservation": 3},
        setup=(*_KAI, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kai-resource-reservation"}}),
        groups=[1] * 5,
        groups_path=KAI_GROUPS,
        check=_have_device_groups,
    ),
    Case(
        "27-kai-topology.yaml",
        {"pp8": 8},
        nodes=nodes(16),
        setup=(
            *_KAI,
            {
                "apiVersion": "kai.scheduler/v1alpha1",
                "kind": "Topology",
                "metadata": {"name": "dc-topology"},
                "spec": {"levels": [{"nodeLabel": f"example.com/{level}"} for level in ("block", "rack")]},
            },
        ),
        groups=[8],
        groups_path=KAI_GROUPS,
        check=_in_one("example.com/block", "pp8"),
    ),
    Case("28-kai-batch-job-queue-label.yaml", {"preproc": 4}, setup=_TEAM, groups=[1] * 4, groups_path=KAI_GROUPS),
    Case(
        "34-pytorchjob-elastic-kai.yaml",
        {"elastic-llama": 8},
        nodes=nodes(4),
        setup=_TEAM,
        groups=[2],
        groups_path=KAI_GROUPS,
    ),
    # Room for four of two to eight workers.
    Case(
        "34-pytorchjob-elastic-kai.yaml",
        {"elastic-llama": 4},
        {"elastic-llama": 4},
        setup=_TEAM,
        groups=[2],
        groups_path=KAI_GROUPS,
    ),
    # Its minimum is the sum of its tasks, so each task is a sub-group.
    Case(
        "20-volcano-job-mpi.yaml",
        {"allreduce-launcher": 1, "allreduce-worker": 4},
        setup=_KAI,
        groups=[5],
        groups_path=KAI_GROUPS,
        edit=_move_to_kai,
    ),
    # Without Volcano the PodGrouper groups the cluster: a group of workers with minReplicas 0 counts its replicas.
    Case(
        "37-raycluster.yaml",
        {"ray-tune-head": 1, "ray-tune-gpu": 4, "ray-tune-cpu": 2},
        setup=_KAI,
        groups=[5],
        groups_path=KAI_GROUPS,
        edit=_leave_volcano,
    ),
    Case(
        "38-jobset-two-replicatedjobs.yaml",
        {"maxtext-driver": 1, "maxtext-slice": 8},
        nodes=nodes(6),
        setup=_KAI,
        groups=[1, 8],
        groups_path=KAI_GROUPS,
        check=_one_job_in_each_rack,
    ),
    Case(
        "38-jobset-two-replicatedjobs.yaml",
        {"maxtext-driver": 1, "maxtext-slice": 8},
        nodes=nodes(6),
        setup=_KAI,
        groups=[9],
        groups_path=KAI_GROUPS,
        check=_one_job_in_each_rack,
        edit=_start_in_any_order,
    ),
    Case(
        "39-leaderworkerset.yaml",
        {"llama-405b-0": 2, "llama-405b-1": 2},
        nodes=nodes(4),
        setup=_KAI,
        groups=[2, 2],
        groups_path=KAI_GROUPS,
    ),
)
#: Kinds that manifests need and that `configs/crds` does not define.
DEFINITIONS = (
    open_definition("scheduling.x-k8s.io", "ElasticQuota", "elasticquotas", ["v1alpha1"]),
    open_definition(
        "scheduling.koordinator.sh",
        "ClusterNetworkTopology",
        "clusternetworktopologies",
        ["v1alpha1"],
        namespaced=False,
    ),
)
