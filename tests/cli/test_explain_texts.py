"""`pyscheduler explain` says how near a pod came: the texts of each plugin with a filter, on clusters in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.testing import node_manifest, pod_manifest
from tests.cli.conftest import Run
from tests.plugins.storage import ZONE, claim, csi_node, storage_class, volume

Object = dict[str, Any]
GPU = "nvidia.com/gpu"


def nodes(*zones: str, **allocatable: str) -> list[Object]:
    """Return a node for each zone."""
    amounts = {"cpu": "8", "pods": "9", **allocatable}
    return [
        node_manifest(f"n{number}", allocatable=amounts, labels={ZONE: zone, "kubernetes.io/hostname": f"n{number}"})
        for number, zone in enumerate(zones, 1)
    ]


def using(*names: str) -> Object:
    """Return the volumes of a pod that uses claims."""
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return {"volumes": volumes}


def claimed(name: str, **more: Any) -> Object:
    """Return a claim of the default namespace."""
    made = claim(name, **more)
    made["metadata"]["namespace"] = "default"
    return made


def disk(read_only: bool = False) -> Object:
    """Return a disk that a pod names itself."""
    return {"volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "pd", "readOnly": read_only}}]}


def explained(run: Run, folder: Path, objects: list[Object], spec: Object, *options: object, **more: Any) -> str:
    """Return the explanation of a pod with this spec."""
    file = folder / "cluster.yaml"
    pod = pod_manifest("p", spec=spec, **more)
    file.write_text(yaml.safe_dump_all([*objects, pod]))
    code, out, err = run("explain", "p", "--objects", file, *options)
    assert (code, err) == (0, "")
    assert "Verdict: waits: Unschedulable" in out
    return " ".join(out.split())


def at(zone: str) -> Object:
    """Return the node affinity of a volume."""
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    return {"required": {"nodeSelectorTerms": terms}}


def named(operator: str, *values: str, key: str = ZONE, part: str = "matchExpressions") -> Object:
    """Return the spec of a pod that requires nodes by a label or by name."""
    terms = [{part: [{"key": key, "operator": operator, "values": [*values]}]}]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


def beside(kind: str, app: str) -> Object:
    """Return the spec of a pod with an affinity of a kind to the pods of an app in its zone."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def tainted(name: str, cpu: str, **labels: str) -> Object:
    """Return a node with a taint of its own."""
    taints = [{"key": name, "effect": "NoSchedule"}]
    return node_manifest(name, allocatable={"cpu": cpu, "pods": "9"}, labels=labels, taints=taints)


SPREAD = {
    "maxSkew": 1,
    "minDomains": 3,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
ELSEWHERE = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z"]}]}]
BY_HAND = "kubernetes.io/no-provisioner"
LARGE = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "14"}}}]}
LIMITED = [storage_class(), csi_node("n1", **{"csi.example.com": 1}), csi_node("n2", **{"csi.example.com": 2})]


@pytest.mark.parametrize(
    ("objects", "spec", "words"),
    [
        pytest.param(
            [
                node_manifest("n1", unschedulable=True),
                *nodes("a", cpu="0")[:0],
                node_manifest("n2", unschedulable=True),
            ],
            {},
            "2 of 2 nodes are cordoned, and the pod has no toleration of node.kubernetes.io/unschedulable",
            id="cordoned",
        ),
        pytest.param(
            nodes("a", "b"),
            {"hostNetwork": True, "hostUsers": False},
            "UserNamespacesHostNetworkSupport: declared by no nodes",
            id="feature",
        ),
        pytest.param(
            [*nodes("a", "b"), claimed("c", volume="v"), volume("v", labels={ZONE: "z"})],
            using("c"),
            f"claim default/c: volume v is in {ZONE}=z; no node there: never fits",
            id="zone without nodes",
        ),
        pytest.param(
            [
                node_manifest("x", labels={ZONE: "z"}, unschedulable=True),
                *nodes("a", "b"),
                claimed("c", volume="v"),
                volume("v", labels={ZONE: "z"}),
            ],
            using("c"),
            f"claim default/c: volume v is in {ZONE}=z; 1 node there",
            id="zone with a node",
        ),
        pytest.param(
            [*nodes("a", "b"), claimed("c", volume="v"), volume("v", nodeAffinity=at("z"))],
            using("c"),
            f"claim default/c is bound to volume v, which 0 of 2 nodes reach, those with {ZONE} In z: never fits",
            id="volume elsewhere",
        ),
        pytest.param(
            [
                *nodes("a", "b"),
                claimed("c", accessModes=["ReadWriteOncePod"], volume="v"),
                volume("v"),
                pod_manifest("user", node_name="n2", spec=using("c")),
            ],
            using("c"),
            "claim default/c is used by default/user on n2",
            id="claim of one pod",
        ),
        pytest.param(
            [*nodes("a"), pod_manifest("user", node_name="n1", spec=disk())],
            disk(read_only=True),
            "disk gce/pd is mounted by default/user on n1",
            id="disk",
        ),
        pytest.param(
            nodes("a", "b"),
            named("In", "n9", key="metadata.name", part="matchFields"),
            "NodeAffinity info - 2 of 2 nodes: metadata.name In n9: no node is called n9",
            id="name of no node",
        ),
        pytest.param(
            nodes("a", "b"),
            named("NotIn", "a", "b"),
            f"{ZONE} NotIn a|b: no node; 1 have {ZONE}=a, 1 have {ZONE}=b",
            id="label that all nodes have",
        ),
        pytest.param(
            [*nodes("a"), pod_manifest("web-0", node_name="n1", labels={"app": "web"})],
            {"topologySpreadConstraints": [SPREAD]},
            f"maxSkew 1 per {ZONE}, minDomains 3 with 1 there, so the least count is 0: pods by domain: a 1",
            id="too few domains",
        ),
        pytest.param(
            [*nodes("a"), storage_class(allowedTopologies=ELSEWHERE), claimed("c")],
            using("c"),
            f"claim default/c is not bound; class slow makes volumes only for nodes with {ZONE} In z: 0 of 1",
            id="topologies of a class",
        ),
        pytest.param(
            [*nodes("a"), storage_class(provisioner=BY_HAND), claimed("c")],
            using("c"),
            "claim default/c is not bound; class slow makes no volumes; free volumes of it: none",
            id="class without a provisioner",
        ),
        pytest.param(
            nodes("a"),
            beside("podAffinity", "db"),
            f"its affinity per {ZONE} to pods with app=db: no placed pods match",
            id="affinity to nobody",
        ),
        pytest.param(
            [*nodes("a"), pod_manifest("web-0", node_name="n1", spec=beside("podAntiAffinity", "web"))],
            {},
            f"the anti-affinity of default/web-0 on n1 per {ZONE}",
            id="anti-affinity of another pod",
        ),
        pytest.param(
            [*nodes("a", pods="1"), *nodes("a", "b", pods="110")[1:], pod_manifest("x", node_name="n1")],
            {"nodeSelector": {ZONE: "a"}},
            "1 pod; n1 has 1 of 1, the largest node takes 110",
            id="full node",
        ),
        pytest.param(
            [*nodes("a"), tainted("g1", "16", pool="gpu"), tainted("d1", "16")],
            {"nodeSelector": {"pool": "gpu"}},
            "closest info - only NodeAffinity rejects n1; only TaintToleration rejects g1: not tolerated: "
            "g1:NoSchedule (1 node: g1) preemption",
            id="taint of the selected node",
        ),
        pytest.param(
            [*nodes("a"), tainted("g1", "16"), tainted("d1", "4")],
            LARGE,
            "14 cpu; most free 8 on n1, largest node 16 (g1)",
            id="largest node is tainted",
        ),
        pytest.param(
            [*nodes("a"), tainted("g1", "16"), tainted("d1", "4")],
            LARGE,
            "only TaintToleration rejects g1: not tolerated: g1:NoSchedule (1 node: g1)",
            id="room on a tainted node",
        ),
        pytest.param(
            [*nodes("a"), tainted("g1", "16"), tainted("d1", "4")],
            {"nodeSelector": {"pol": "gpu"}},
            "closest info - NodeAffinity rejects all nodes; nothing else rejects n1 ",
            id="selector that no node meets",
        ),
        pytest.param(
            [*nodes("a"), claimed("c", of="none")],
            {**using("c"), "nodeSelector": {"pol": "gpu"}},
            "NodeAffinity info - 1 of 1 nodes: pol=gpu: no node; no node has the label",
            id="unbound claim and a selector",
        ),
        pytest.param(
            [*nodes("a", "b"), *LIMITED, *(claimed(name) for name in "cde")],
            using("c", "d", "e"),
            "3 volumes of csi.example.com; most attachable 2 on n2, largest limit 2: never fits",
            id="more volumes than any node attaches",
        ),
        pytest.param(
            [
                *nodes("a", "b"),
                *LIMITED,
                *(claimed(name) for name in "cde"),
                pod_manifest("user-c", node_name="n1", spec=using("c")),
                pod_manifest("user-d", node_name="n2", spec=using("d")),
            ],
            using("c", "e"),
            "2 volumes of csi.example.com; most attachable 1 on n2, largest limit 2 ",
            id="volumes of others",
        ),
    ],
)
def test_text_names_what_was_asked_and_the_best_there_is(
    tmp_path: Path, run: Run, objects: list[Object], spec: Object, words: str
) -> None:
    """Amounts, objects and their users are named; so is what no node could ever have."""
    assert words in explained(run, tmp_path, objects, spec, labels={"app": "web"}) + " "


def profile(folder: Path, plugin: str, **args: Any) -> Path:
    """Write a configuration with one plugin more."""
    made = {
        "schedulerName": "pyscheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": plugin}]}},
        "pluginConfig": [{"name": plugin, "args": args}],
    }
    body = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [made]}
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(body))
    return file


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        pytest.param({"gpu-fraction": "0.5"}, "0.5 of 1 GPU; most free of a shared GPU 0.25 on n1; ", id="share"),
        pytest.param(
            {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "3"},
            "0.5 of 3 GPUs; most free of a shared GPU 0.25 on n1; most whole GPUs free 0 on n1, "
            "largest node 1: never fits",
            id="shares of more GPUs than a node has",
        ),
    ],
)
def test_gpu_sharing_names_the_freest_gpu(tmp_path: Path, run: Run, annotations: Object, words: str) -> None:
    """The text has the requested part, the freest shared GPU, and the whole GPUs."""
    namespace = "kai-resource-reservation"
    labels = {"runai-gpu-group": "g1"}
    objects = [
        *nodes("a", **{GPU: "1"}),
        pod_manifest("reservation", namespace=namespace, node_name="n1", labels=labels, requests={GPU: "1"}),
        pod_manifest("user", node_name="n1", labels=labels, annotations={"gpu-fraction": "0.75"}),
    ]
    config = profile(tmp_path, "GpuSharing")
    text = explained(run, tmp_path, objects, {}, "--config", config, annotations=annotations)
    assert words in text


def test_coscheduling_compares_min_resources_with_the_cluster(tmp_path: Path, run: Run) -> None:
    """The amounts are those of the group, of the free room, and of all nodes."""
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 1, "minResources": {"cpu": "20"}},
    }
    objects = [*nodes("a", "b"), group, pod_manifest("user", node_name="n1", requests={"cpu": "3"})]
    config = Path(__file__).parents[2] / "configs/coscheduling.yaml"
    more: Object = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}, "scheduler_name": "pyscheduler-coscheduling"}
    text = explained(run, tmp_path, objects, {}, "--config", config, **more)
    assert "resource gap: map[cpu:7]: minResources ask for 20 cpu; free 13, all nodes together 16: never fits" in text
