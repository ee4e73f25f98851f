"""Clusters: the forms of `--nodes`, node lists, objects of a live cluster, and power."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.clusters import Cluster, Node, Watts

GIBI = 1024


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        pytest.param("24x8gpu", [(24, 8, 96_000, 1 << 20, "")], id="as in the documentation"),
        pytest.param("3", [(3, 8, 96_000, 1 << 20, "")], id="a number of nodes"),
        pytest.param("2x4gpu,32cpu", [(2, 4, 32_000, 1 << 20, "")], id="with CPUs"),
        pytest.param("2x4gpu,32cpu,512Gi", [(2, 4, 32_000, 524_288, "")], id="all"),
        pytest.param("1x0gpu,2Ti", [(1, 0, 96_000, 2 << 20, "")], id="with memory"),
        pytest.param(
            "4x8gpu:A100,2x4gpu:T4", [(4, 8, 96_000, 1 << 20, "A100"), (2, 4, 96_000, 1 << 20, "T4")], id="mixed"
        ),
        pytest.param(
            "1x8gpu:A100,128cpu,2Ti,3,1x0gpu,16cpu",
            [(1, 8, 128_000, 2 << 20, "A100"), (3, 8, 96_000, 1 << 20, ""), (1, 0, 16_000, 1 << 20, "")],
            id="mixed with CPUs and memory",
        ),
    ],
)
def test_clusters_are_read(text: str, nodes: list[tuple[int, int, int, int, str]]) -> None:
    """A node has 8 GPUs, 96 CPUs and 1 Ti unless something else is said; the nodes are numbered throughout."""
    found = Cluster.read(text).nodes
    wanted = [shape for count, *shape in nodes for _ in range(count)]
    assert [[node.gpus, node.cpu_milli, node.memory_mib, node.gpu_model] for node in found] == wanted
    assert [node.name for node in found] == [f"node-{number}" for number in range(len(wanted))]
    assert Cluster.read("3").nodes == Cluster.uniform(3).nodes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x8gpu",
        "0x8gpu",
        "-1",
        "24x8",
        "24x8gpu,",
        "8gpux24",
        "24x8gpu,1Ti,96cpu",
        "²",
        "2x8gpu:",
        "2x8gpu,,3",
        "a.yaml",
    ],
)
def test_invalid_nodes_are_rejected(text: str) -> None:
    """The message has an example of a file and of a shape."""
    with pytest.raises(ConfigError, match=r"nodes: .* is neither a file nor a shape; .* nodes.yaml.* such as 24x8gpu"):
        Cluster.read(text)


def test_openb_has_the_nodes_of_its_notice() -> None:
    """The paper's cluster, and the same with nodes without GPUs."""
    openb, whole = Cluster.read("openb"), Cluster.read("openb-all")
    assert (len(openb.nodes), openb.gpus) == (1213, 6212)
    assert (len(whole.nodes), whole.gpus) == (1523, 6212)
    assert sum(node.cpu_milli for node in openb.nodes) == 107_018_000
    assert sum(node.memory_mib for node in whole.nodes) == 612_028_416
    assert sum(node.gpu_model == "G2" and node.gpus == 8 for node in openb.nodes) == 549


def node_object(name: str, **labels: str) -> dict[str, Any]:
    """Return a node as a server gives it."""
    room = {"cpu": "7910m", "memory": "30Gi", "pods": "29", "nvidia.com/gpu": "4", "example.com/nic": "2"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": "u", "resourceVersion": "7", "labels": labels},
        "spec": {"providerID": "x", "taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        "status": {"allocatable": room, "capacity": room, "daemonEndpoints": {}},
    }


def test_nodes_of_a_live_cluster_are_kept_as_they_are(tmp_path: Path) -> None:
    """Labels, taints and all resources stay; what the server wrote about them goes."""
    path = tmp_path / "nodes.json"
    items = [node_object("a", **{"nvidia.com/gpu.product": "T4"}), {"kind": "Pod", "metadata": {"name": "p"}}]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    (node,) = Cluster.read(path).nodes
    assert (node.name, node.gpus, node.cpu_milli, node.memory_mib, node.gpu_model) == ("a", 4, 7910, 30 * GIBI, "T4")
    made = node.as_object()
    assert made["metadata"] == {"name": "a", "labels": {"nvidia.com/gpu.product": "T4"}}
    assert made["spec"] == {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    assert made["status"]["allocatable"]["example.com/nic"] == "2"
    shared = node.as_object(shares_gpus=True)
    assert shared["metadata"]["labels"] == {"nvidia.com/gpu.product": "T4", "nvidia.com/gpu.memory": "1000"}
    assert "nvidia.com/gpu.memory" not in node.as_object()["metadata"]["labels"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("kind: Pod\nmetadata: {name: p}\n", "the file has no nodes"),
        ("kind: Node\nmetadata: {name: a}\n", "node a: status.allocatable: has no cpu"),
        ("kind: Node\n", "an object has no metadata"),
        ("kind: [\n", "error converting YAML to JSON"),
        ("a,b\n1,2\n", "not a list of nodes; give what kubectl get nodes -o yaml prints"),
        ("sn,cpu_milli,memory_mib,gpu,model\na,1,1,-2,\n", "line 2, column gpu: the value is '-2'"),
        ("sn,cpu_milli,memory_mib,gpu,model\na,1,1,2,\na,1,1,2,\n", "two nodes have the name a"),
    ],
)
def test_mistakes_in_files_of_nodes_are_reported(content: str, complaint: str, tmp_path: Path) -> None:
    """In one line that names the file."""
    path = tmp_path / "nodes"
    path.write_text(content)
    with pytest.raises(ConfigError) as raised:
        Cluster.read(path)
    assert raised.value.source == str(path)
    assert complaint in " ".join(raised.value.problems)


def test_watts_are_those_of_the_gpu_model() -> None:
    """A node whose model is not named has no watts."""
    cluster = Cluster.read("1x8gpu:A100,1x4gpu:T4", watts="A100=400+350")
    assert [node.watts for node in cluster.nodes] == [Watts(400, 350), None]


@pytest.mark.parametrize(
    ("watts", "complaint"),
    [
        ("A100", r'watts: "A100" must be like A100=400\+350'),
        ("T4=1+1,T4=2+2", r'watts: "T4=2\+2" must be like'),
        ("H100=1+1", "watts: no node has GPUs of model H100; models are A100"),
    ],
)
def test_wrong_watts_are_rejected(watts: str, complaint: str) -> None:
    """With the models of the cluster."""
    with pytest.raises(ConfigError, match=complaint):
        Cluster.read("2x8gpu:A100", watts=watts)


def test_cluster_made_in_python() -> None:
    """Names are unique; equal nodes have an equal hash."""
    nodes = [Node(name="a", gpus=4, gpu_model="T4"), Node(name="b", gpus=0)]
    assert Cluster(nodes=nodes).sha256 == Cluster(nodes=nodes).sha256 != Cluster.uniform(2).sha256
    assert Cluster(nodes=nodes).gpus == 4
    labels = {"kubernetes.io/hostname": "a", "nvidia.com/gpu.product": "T4"}
    assert [made["metadata"]["labels"] for made in Cluster(nodes=nodes).manifests()] == [
        labels,
        {"kubernetes.io/hostname": "b"},
    ]
    with pytest.raises(ConfigError, match="two nodes have the name a"):
        Cluster(nodes=[nodes[0], nodes[0]])
