"""The openb trace as nodes and pods."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pyscheduler.cli.demo.openb_trace import GPU_MILLI, openb_nodes, openb_pods
from pyscheduler.framework.errors import ConfigError

CARRIED = Path(__file__).parents[2] / "lab" / "pyscheduler_lab" / "data" / "openb"
NODES = "openb_node_list_all_node.csv.gz"
PODS = "openb_pod_list_default.csv.gz"


def write(folder: Path, name: str, *lines: str) -> None:
    """Write a compressed list."""
    with gzip.open(folder / name, "wt") as file:
        file.write("\n".join(lines) + "\n")


def test_nodes(tmp_path: Path) -> None:
    """CPU in thousandths, memory in Mi, a thousand per GPU; a node without GPUs has no such resource."""
    write(tmp_path, NODES, "sn,cpu_milli,memory_mib,gpu,model", "a,64000,262144,2,P100", "b,32000,1024,0,")
    first, second = openb_nodes(tmp_path)
    assert first["metadata"] == {
        "name": "a",
        "labels": {"kubernetes.io/hostname": "a", "openb.io/gpu-model": "P100"},
    }
    expected = {"cpu": "64000m", "memory": "262144Mi", "pods": "110", GPU_MILLI: "2000"}
    status = first["status"]
    assert isinstance(status, dict)
    assert status["allocatable"] == status["capacity"] == expected
    assert second["metadata"] == {"name": "b", "labels": {"kubernetes.io/hostname": "b"}}
    assert isinstance(second["status"], dict)
    assert GPU_MILLI not in second["status"]["allocatable"]


def test_pods(tmp_path: Path) -> None:
    """GPU demand is num_gpu times gpu_milli, as request and as limit; pods without carry no limits."""
    write(
        tmp_path, PODS,
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos",
        "p,12000,16384,2,500,LS", "q,6000,12288,0,0,BE",
    )  # fmt: skip
    first, second = openb_pods(tmp_path, scheduler_name="mine", namespace="ns")
    spec = first["spec"]
    assert isinstance(spec, dict)
    assert spec["schedulerName"] == "mine"
    assert spec["containers"][0]["resources"] == {
        "requests": {"cpu": "12000m", "memory": "16384Mi", GPU_MILLI: "1000"},
        "limits": {GPU_MILLI: "1000"},
    }
    assert first["metadata"] == {"name": "p", "namespace": "ns", "labels": {"openb.io/qos": "LS"}}
    assert isinstance(second["spec"], dict)
    assert second["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "6000m", "memory": "12288Mi"}}


@pytest.mark.slow
def test_openb_trace_of_this_repository() -> None:
    """The lists in the repository are whole: 1,523 nodes and 8,152 pods, each with a name of its own."""
    nodes = [node["metadata"] for node in openb_nodes(CARRIED)]
    pods = [pod["metadata"] for pod in openb_pods(CARRIED, scheduler_name="s")]
    assert (len(nodes), len(pods)) == (1523, 8152)
    for found in (nodes, pods):
        assert len({each["name"] for each in found if isinstance(each, dict)}) == len(found)


HEADER = "sn,cpu_milli,memory_mib,gpu,model"

BROKEN = [
    pytest.param(
        None, "cannot be read: No such file or directory; set --trace to the folder of the trace", id="missing"
    ),
    pytest.param(b"sn,cpu_milli", "cannot be read: Not a gzipped file", id="not compressed"),
    pytest.param(gzip.compress(b"a,b\n1,2\n"), "missing columns: cpu_milli, gpu, memory_mib, model, sn", id="others"),
    pytest.param(gzip.compress(b""), "missing columns: cpu_milli, gpu, memory_mib, model, sn", id="empty"),
    pytest.param(gzip.compress(f"{HEADER}\na,1,1,1,x\n".encode())[:-9], "cannot be read: ", id="cut off"),
    pytest.param(gzip.compress(b"\xff\xfe\n"), "cannot be read: ", id="not text"),
    pytest.param(
        gzip.compress(f"{HEADER}\na,1,1,many,x\n".encode()), "is invalid: gpu of a is 'many', not a number", id="number"
    ),
    pytest.param(
        gzip.compress(f"{HEADER}\na,1.5,1,0,x\n".encode()),
        "is invalid: cpu_milli of a is '1.5', not a number",
        id="fraction",
    ),
    pytest.param(
        gzip.compress(f"{HEADER}\na,1\n".encode()), "is invalid: memory_mib of a is None, not a number", id="short row"
    ),
]


@pytest.mark.parametrize(("content", "message"), BROKEN)
def test_invalid_trace_is_reported(tmp_path: Path, content: bytes | None, message: str) -> None:
    """The message names the file and what is wrong with it, on one line."""
    if content is not None:
        (tmp_path / NODES).write_bytes(content)
    with pytest.raises(ConfigError) as raised:
        list(openb_nodes(tmp_path))
    text = str(raised.value)
    assert str(tmp_path / NODES) in text
    assert message in text
    assert "\n" not in text


def test_gpus_one_by_one(tmp_path: Path) -> None:
    """Whole GPUs are a resource; a part of each of some GPUs is an annotation, in thousandths of a GPU's memory."""
    write(tmp_path, NODES, "sn,cpu_milli,memory_mib,gpu,model", "a,64000,262144,2,P100")
    write(
        tmp_path, PODS,
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos",
        "whole,1000,1,2,1000,LS", "part,1000,1,1,460,LS", "parts,1000,1,2,500,LS", "none,1000,1,0,0,BE",
    )  # fmt: skip
    (node,) = openb_nodes(tmp_path, per_device=True)
    assert isinstance(node["status"], dict)
    assert isinstance(node["metadata"], dict)
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert GPU_MILLI not in node["status"]["allocatable"]
    assert node["metadata"]["labels"]["nvidia.com/gpu.memory"] == "1000"
    found = {}
    for pod in openb_pods(tmp_path, scheduler_name="mine", per_device=True):
        metadata, spec = pod["metadata"], pod["spec"]
        assert isinstance(metadata, dict)
        assert isinstance(spec, dict)
        resources = spec["containers"][0]["resources"]
        found[metadata["name"]] = (resources.get("limits"), metadata.get("annotations"))
    assert found == {
        "whole": ({"nvidia.com/gpu": "2"}, None),
        "part": (None, {"gpu-memory": "460", "gpu-fraction-num-devices": "1"}),
        "parts": (None, {"gpu-memory": "500", "gpu-fraction-num-devices": "2"}),
        "none": (None, None),
    }
