"""The workload of the gang demo: gangs that together request several times as many GPUs as the cluster has."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_testserver.controllers.lifecycle import RUN_DURATION
from pyscheduler.podgroup import DialectTable
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.demo.gang_record import GPU, GROUP_LABEL
from pyscheduler_lab.simulation.group_objects import definitions, group_manifest
from pyscheduler_lab.simulation.scenario import CreatePodGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["GANG_PROFILE", "GPUS_PER_NODE", "Gang", "cluster_manifests", "gang_manifests", "make_gangs"]

GPUS_PER_NODE: Final = 8
_SIGS: Final = DialectTable().named("sigs")
#: Sizes of gangs and their frequencies; the largest want half of the cluster.
_SIZES: Final = {2: 5, 4: 8, 6: 4, 8: 8, 12: 5, 16: 5, 24: 3, 32: 2}
_RUN_SECONDS: Final = (2.0, 4.0)
#: Number of gangs submitted at once. Their pods are created in turns, the order in which gangs block each other most.
_WAVE: Final = 8

GANG_PROFILE: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 5000, burst: 10000}
# These gangs run for seconds, not hours: one that failed is tried again soon.
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
profiles:
  - schedulerName: pyscheduler-demo-gang
    plugins:
      queueSort:
        disabled: [{name: "*"}]
        enabled: [{name: Coscheduling}]
      multiPoint:
        enabled: [{name: Coscheduling}]
    pluginConfig:
      - name: Coscheduling
        args:
          deniedPGExpirationTimeSeconds: 1
"""
"""The profile without a configuration file: Coscheduling, with short windows."""


@attrs.frozen(kw_only=True)
class Gang:
    """A gang whose members must all run at the same time, each on one GPU."""

    name: str
    size: int
    run_seconds: float


def make_gangs(count: int, *, largest: int, seed: int) -> list[Gang]:
    """Return `count` gangs of mixed size, none larger than `largest`."""
    rng = random.Random(seed)
    sizes = [size for size in _SIZES if size <= largest] or [largest]
    weights = [_SIZES.get(size, 1) for size in sizes]
    return [
        Gang(
            name=f"gang-{number:02}",
            size=rng.choices(sizes, weights)[0],
            run_seconds=round(rng.uniform(*_RUN_SECONDS), 1),
        )
        for number in range(1, count + 1)
    ]


def cluster_manifests(nodes: int) -> list[dict[str, Any]]:
    """Return the nodes and the definition of PodGroups."""
    return [*Cluster.uniform(nodes, gpus=GPUS_PER_NODE).manifests(), *definitions([_SIGS])]


def gang_manifests(gangs: Sequence[Gang], scheduler_name: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the waves: some PodGroups, then their pods in turns."""
    for begin in range(0, len(gangs), _WAVE):
        wave = gangs[begin : begin + _WAVE]
        turns = range(max(gang.size for gang in wave))
        yield [
            *(group_manifest(CreatePodGroup(name=gang.name, min=gang.size), _SIGS) for gang in wave),
            *(_pod(gang, turn, scheduler_name) for turn in turns for gang in wave if turn < gang.size),
        ]


def _pod(gang: Gang, number: int, scheduler_name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{gang.name}-{number}",
            "namespace": "default",
            "labels": {GROUP_LABEL: gang.name},
            "annotations": {RUN_DURATION: f"{gang.run_seconds}s"},
        },
        "spec": {
            "schedulerName": scheduler_name,
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "worker",
                    "image": "trainer",
                    "resources": {"requests": {"cpu": "4", GPU: "1"}, "limits": {GPU: "1"}},
                }
            ],
        },
    }
