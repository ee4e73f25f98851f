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
            "claim default/c is bound to volume v, which 0 of 2 nodes reach: never fits",
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
    assert words in explained(run, tmp_path, objects, spec) + " "


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
