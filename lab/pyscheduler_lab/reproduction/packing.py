"""Place tasks one by one, and compute the allocation and fragmentation of the GPUs after each."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import msgspec
import numpy as np
from msgspec import structs

from pyscheduler.api import Pod, decode
from pyscheduler.config.feature_gates import default_gates
from pyscheduler.config.fields import camel
from pyscheduler.config.load import loads
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import Settings
from pyscheduler_batch.gpu_sharing.plugin import GpuSharing
from pyscheduler_fgd.fragmentation import Fragmentation, Free
from pyscheduler_fgd.typical_tasks import WHOLE, TypicalTask, typical
from pyscheduler_lab.clusters.node import MODEL_LABEL
from pyscheduler_lab.simulation.one_by_one import OneByOne
from pyscheduler_lab.simulation.replay_objects import pod_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.podgroup import Dialect
    from pyscheduler_lab.clusters import Cluster
    from pyscheduler_lab.traces import Job

__all__ = ["POLICIES", "Curves", "curves_of", "place_all", "profile_of", "renamed"]

#: The policies of the paper, in the order of its results.
POLICIES: Final = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
#: The other plugins of the profile; the last two are those that every profile must have.
_PLUGINS: Final = ("NodeResourcesFit", "NodeAffinity", "GpuSharing", "PrioritySort", "DefaultBinder")
_COVERAGE: Final = 0.95
_NAME: Final = "experiment"
#: The experiment has no limit of its own for the pods of a node.
_PODS: Final = "10000"

#: The request of a task.
_Kind: TypeAlias = tuple[int, int, int, int, tuple[str, ...]]


def profile_of(policy: str, tasks: Sequence[Job], seed: int) -> str:
    """Return the configuration: the filters of the experiment, and the policy, which alone scores.

    The filters compare CPU, memory, GPU models and GPUs by device. Nothing preempts.
    """
    args: dict[str, Any] = {}
    if policy == "Random":
        args = {"seed": seed}
    elif policy == "FGD":
        given = map(attrs.asdict, typical(_kinds(tasks), 1.0))
        args = {
            "typicalTasks": [{camel(key): value for key, value in kind.items()} for kind in given],
            "coverage": _COVERAGE,
            "modelLabel": MODEL_LABEL,
        }
    profile = {
        "schedulerName": _NAME,
        "plugins": {
            "multiPoint": {"enabled": [{"name": name} for name in _PLUGINS], "disabled": [{"name": "*"}]},
            "score": {"enabled": [{"name": policy}], "disabled": [{"name": "*"}]},
        },
        "pluginConfig": [{"name": policy, "args": args}] if args else [],
    }
    text = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    return msgspec.json.encode(text).decode()


def _kinds(tasks: Sequence[Job]) -> Sequence[TypicalTask]:
    return [
        TypicalTask(cpu_milli=task.cpu_milli, gpus=task.gpus, gpu_milli=task.gpu_milli, models=task.gpu_models)
        for task in tasks
    ]


def _kind(task: Job) -> _Kind:
    return (task.cpu_milli, task.memory_mib, task.gpus, task.gpu_milli, task.gpu_models)


def renamed(cluster: Cluster, seed: int) -> Cluster:
    """Return the cluster with a number before the name of each node, drawn once for the seed.

    Of nodes with equal scores, the first one by name is chosen. The authors' simulator numbers the nodes in this way,
    too. In the order of their own names, `GpuClustering` and `GpuPacking` allocate about 0.7 points less.
    """
    numbers = list(range(len(cluster.nodes)))
    random.Random(f"fgd/nodes/{seed}").shuffle(numbers)
    nodes = [
        attrs.evolve(node, name=f"{number:04}-{node.name}") for number, node in zip(numbers, cluster.nodes, strict=True)
    ]
    return attrs.evolve(cluster, nodes=nodes)


def _node_manifests(cluster: Cluster) -> Iterator[dict[str, Any]]:
    for made in cluster.manifests(shares_gpus=True):
        room = {**made["status"]["allocatable"], "pods": _PODS}
        yield {**made, "status": {**made["status"], "allocatable": room, "capacity": room}}


def _pod_infos(tasks: Sequence[Job], dialect: Dialect) -> Iterator[PodInfo]:
    """Yield the pods of tasks; those of tasks that differ only in their name are decoded once."""
    made: dict[_Kind, PodInfo] = {}
    for task in tasks:
        kind = _kind(task)
        known = made.get(kind)
        if known is None:
            manifest = pod_of(task, 0, dialect, scheduler_name=_NAME, has_group=False)
            known = made[kind] = PodInfo.of(decode(Pod, msgspec.json.encode(manifest)))
        named = structs.replace(known.pod.metadata, name=task.name, uid=task.name)
        yield known.with_pod(structs.replace(known.pod, metadata=named))


def place_all(
    policy: str, cluster: Cluster, tasks: Sequence[Job], order: Sequence[Job], *, seed: int
) -> tuple[list[int], list[int]]:
    """Place the tasks of `order`; return for each the number of its node, and the number of the GPU that it shares.

    -1 stands for a task that was dropped, and for a task that shares no GPU. The GPUs of a node are numbered as they
    are shared. `tasks` is the list from which the typical tasks are counted.

    Nothing ever leaves, so room never grows: once a task was dropped, those that differ only in their name are dropped
    without a scheduling cycle of their own.
    """
    cluster = renamed(cluster, seed)
    registry = discover()
    config = loads(profile_of(policy, tasks, seed))
    # Batching helps only if equal pods follow each other.
    gates = {**default_gates(), "OpportunisticBatching": False}
    settings = Settings(ties="first", feature_gates=gates)
    placing = OneByOne(config, _node_manifests(cluster), registry=registry, settings=settings)
    sharing = placing.plugin("GpuSharing")
    assert isinstance(sharing, GpuSharing)
    numbers = {node.name: number for number, node in enumerate(cluster.nodes)}
    devices: dict[str, int] = {}
    counts = [0] * len(numbers)
    placed, shared = [], []
    dropped: set[_Kind] = set()
    pods = _pod_infos(order, next(iter(registry.dialect_table())))
    for kind, info in zip(map(_kind, order), pods, strict=True):
        name = placing.place(info) if kind not in dropped else ""
        if not name:
            dropped.add(kind)
        node = numbers.get(name, -1)
        held = sharing.devices_of(info.pod.uid) if name else ()
        if held and held[0] not in devices:
            devices[held[0]] = counts[node]
            counts[node] += 1
        placed.append(node)
        shared.append(devices[held[0]] if held else -1)
    return placed, shared


@attrs.frozen
class Curves:
    """Measurements after each task; float64[tasks], all in percent.

    `arrived`: requested GPUs so far, dropped tasks included, of all GPUs. `allocated`: GPUs that tasks have, of all
    GPUs. `fragmented`: fragmented GPUs, of all GPUs. `fragmented_idle`: fragmented GPUs, of the free GPUs.
    """

    arrived: NDArray[np.float64]
    allocated: NDArray[np.float64]
    fragmented: NDArray[np.float64]
    fragmented_idle: NDArray[np.float64]

    def at(self, level: int) -> Mapping[str, float]:
        """Return the mean of each quantity over the steps at which the requested GPUs round to `level` percent.

        If there is no such step, those of the next level below or above count.
        """
        levels = np.rint(self.arrived).astype(np.int64)
        distance = np.abs(levels - level)
        steps = distance == distance.min()
        measured = ("allocated", "fragmented", "fragmented_idle")
        return {name: float(getattr(self, name)[steps].mean()) for name in measured}


def curves_of(
    cluster: Cluster, tasks: Sequence[Job], order: Sequence[Job], placed: Sequence[int], shared: Sequence[int]
) -> Curves:
    """Return the curves of the placements that `place_all` returned."""
    table, nodes = Fragmentation(typical(_kinds(tasks), _COVERAGE)), cluster.nodes
    models = table.model_ids([node.gpu_model for node in nodes])
    most = max(node.gpus for node in nodes)
    cpu = [node.cpu_milli for node in nodes]
    whole = [node.gpus for node in nodes]
    parts: list[list[int]] = [[] for _ in nodes]
    # The state of all nodes at the beginning, and then that of the node of each task that was placed.
    rows = list(range(len(nodes)))
    states = [(cpu[row], whole[row], [0] * most) for row in rows]
    for task, node, device in zip(order, placed, shared, strict=True):
        if node < 0:
            continue
        cpu[node] -= task.cpu_milli
        if device < 0:
            whole[node] -= task.gpus
        else:
            if device == len(parts[node]):
                parts[node].append(WHOLE)
                whole[node] -= 1
            parts[node][device] -= task.gpu_milli
        rows.append(node)
        states.append((cpu[node], whole[node], parts[node] + [0] * (most - len(parts[node]))))
    free = Free(
        models[rows],
        np.array([state[0] for state in states], dtype=np.int64),
        np.array([state[2] for state in states], dtype=np.int64).T,
        np.array([state[1] for state in states], dtype=np.int64),
    )
    amounts = table.amounts(free)
    now = amounts[: len(nodes)].copy()
    first = float(now.sum())
    changes = np.zeros(len(order))
    step = len(nodes)
    for number, node in enumerate(placed):
        if node >= 0:
            changes[number] = amounts[step] - now[node]
            now[node] = amounts[step]
            step += 1
    capacity = WHOLE * cluster.gpus
    demands = np.array([task.worker_gpu_milli for task in order], dtype=np.float64)
    allocated = np.cumsum(np.where(np.array(placed) >= 0, demands, 0.0))
    fragmented = first + np.cumsum(changes)
    idle = np.maximum(capacity - allocated, 1.0)
    return Curves(
        100 * np.cumsum(demands) / capacity,
        100 * allocated / capacity,
        100 * fragmented / capacity,
        100 * fragmented / idle,
    )
