"""Read the openb trace as API objects.

openb is the trace of the paper "Beware of Fragmentation" (Weng et al., USENIX ATC 2023): the nodes of a production GPU
cluster and the tasks that ran on it. GPU demand becomes an extended resource in thousandths of a GPU: a pod requests
`num_gpu` times `gpu_milli`, and a node offers a thousand per GPU. Devices are not modeled, so two tasks of 600 and one
of 800 "fit" a node of two GPUs. All pods are created at once and none completes.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["GPU_MILLI", "openb_nodes", "openb_pods"]

#: Thousandths of a GPU.
GPU_MILLI: Final = "openb.io/gpu-milli"
_NODES: Final = "openb_node_list_all_node.csv.gz"
_PODS: Final = "openb_pod_list_default.csv.gz"
#: The kubelet's default.
_PODS_PER_NODE: Final = "110"


def openb_nodes(folder: Path) -> Iterator[dict[str, object]]:
    """Read the nodes; raise `ConfigError` if the file is missing or has another format."""
    for row in _rows(folder / _NODES, {"sn", "cpu_milli", "memory_mib", "gpu", "model"}):
        cpu, memory, gpus = (_number(folder / _NODES, row, column) for column in ("cpu_milli", "memory_mib", "gpu"))
        allocatable = {
            "cpu": f"{cpu}m",
            "memory": f"{memory}Mi",
            "pods": _PODS_PER_NODE,
        }
        labels = {"kubernetes.io/hostname": row["sn"]}
        if gpus:
            allocatable[GPU_MILLI] = str(gpus * 1000)
            labels["openb.io/gpu-model"] = row["model"] or "unknown"
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": row["sn"], "labels": labels},
            "status": {
                "capacity": allocatable,
                "allocatable": allocatable,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }


def openb_pods(folder: Path, *, scheduler_name: str, namespace: str = "default") -> Iterator[dict[str, object]]:
    """Read the tasks as pods for `scheduler_name`; raise `ConfigError` as `openb_nodes` does."""
    columns = {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "qos"}
    for row in _rows(folder / _PODS, columns):
        columns_read = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
        cpu, memory, gpus, gpu_milli = (_number(folder / _PODS, row, column) for column in columns_read)
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        gpu = gpus * gpu_milli
        resources: dict[str, object] = {"requests": requests}
        if gpu:
            requests[GPU_MILLI] = str(gpu)
            # An extended resource cannot be overcommitted: the API server requires the limit to equal the request.
            resources["limits"] = {GPU_MILLI: str(gpu)}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": row["name"], "namespace": namespace, "labels": {"openb.io/qos": row["qos"]}},
            "spec": {
                "schedulerName": scheduler_name,
                "containers": [{"name": "task", "image": "openb/task", "resources": resources}],
            },
        }


def _rows(path: Path, columns: set[str]) -> Iterator[dict[str, str]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = columns - set(reader.fieldnames or ())
            if missing:
                raise ConfigError(f"{path} is not an openb list: missing columns: {', '.join(sorted(missing))}")
            yield from reader
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(
            f"trace {path} cannot be read: {why}; set --trace to the folder of the trace, "
            "which is examples/traces/openb in a checkout of pyscheduler"
        ) from error


def _number(path: Path, row: dict[str, str], column: str) -> int:
    text = row[column]
    if not (text or "").isdecimal():
        raise ConfigError(
            f"{path} is invalid: {column} of {row.get('sn') or row.get('name')} is {text!r}, not a number"
        )
    return int(text)
