"""Read the openb trace as API objects: nodes of a production GPU cluster, and tasks that ran on them.

Source: "Beware of Fragmentation" (Weng et al., USENIX ATC 2023).
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

_GPU: Final = "nvidia.com/gpu"

#: Thousandths of a GPU.
GPU_MILLI: Final = "openb.io/gpu-milli"
#: Shares of a GPU, as the plugin `GpuSharing` reads them: the memory of a device is said to be 1000.
_MEMORY_ANNOTATION: Final = "gpu-memory"
_NUM_DEVICES_ANNOTATION: Final = "gpu-fraction-num-devices"
_MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
_NODES: Final = "openb_node_list_all_node.csv.gz"
_PODS: Final = "openb_pod_list_default.csv.gz"
#: The kubelet's default.
_PODS_PER_NODE: Final = "110"


def openb_nodes(folder: Path, *, per_device: bool = False) -> Iterator[dict[str, object]]:
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
            allocatable[_GPU if per_device else GPU_MILLI] = str(gpus if per_device else gpus * 1000)
            if per_device:
                labels[_MEMORY_LABEL] = "1000"
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


def openb_pods(
    folder: Path, *, scheduler_name: str, namespace: str = "default", per_device: bool = False
) -> Iterator[dict[str, object]]:
    """Read the tasks as pods for `scheduler_name`; raise `ConfigError` as `openb_nodes` does."""
    columns = {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "qos"}
    for row in _rows(folder / _PODS, columns):
        columns_read = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
        cpu, memory, gpus, gpu_milli = (_number(folder / _PODS, row, column) for column in columns_read)
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        annotations: dict[str, str] = {}
        name, amount = GPU_MILLI, gpus * gpu_milli
        if per_device and 0 < gpu_milli < 1000:
            annotations = {_MEMORY_ANNOTATION: str(gpu_milli), _NUM_DEVICES_ANNOTATION: str(gpus)}
            amount = 0
        elif per_device:
            name, amount = _GPU, amount // 1000
        resources: dict[str, object] = {"requests": requests}
        if amount:
            requests[name] = str(amount)
            # An extended resource cannot be overcommitted: the API server requires the limit to equal the request.
            resources["limits"] = {name: str(amount)}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": row["name"],
                "namespace": namespace,
                "labels": {"openb.io/qos": row["qos"]},
                **({"annotations": annotations} if annotations else {}),
            },
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
            "which is lab/pyscheduler_lab/data/openb in a checkout of pyscheduler"
        ) from error


def _number(path: Path, row: dict[str, str], column: str) -> int:
    text = row[column]
    if not (text or "").isdecimal():
        raise ConfigError(
            f"{path} is invalid: {column} of {row.get('sn') or row.get('name')} is {text!r}, not a number"
        )
    return int(text)
