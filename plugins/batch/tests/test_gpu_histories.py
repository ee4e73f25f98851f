"""Random histories of shared GPUs: tenants who write nonsense, and operators who delete and relabel what they like."""

from __future__ import annotations

import logging
import random

import pytest

from plugins.batch.tests.test_gpu_sharing import RESERVED, Sharing
from pyscheduler.api import Node, Pod
from pyscheduler.testing import FakeCluster
from pyscheduler_batch.gpu_sharing.books import GROUP_LABEL
from pyscheduler_batch.gpu_sharing.plugin import GpuSharing

FRACTIONS = ("NaN", "1e-400", "-1", "2", "0.3333333333333333333", "0.001", "1e-320", "", "0.9", "0.5", "0.5", "0.2")
STEPS = ("pod",) * 5 + ("delete",) * 3 + ("whole", "relabel", "unlabel", "annotate", "reservation", "forge", "node")


class History:
    """Changes a cluster at random."""

    def __init__(self, sharing: Sharing, seed: int) -> None:
        self.sharing = sharing
        self.rng = random.Random(seed)
        self.made = 0

    def step(self) -> None:
        """Change something."""
        cluster, rng = self.sharing.cluster, self.rng
        reservations = cluster.objects(Pod, namespace=RESERVED)
        device = rng.choice([pod.labels[GROUP_LABEL] for pod in reservations] + ["forged"])
        pods = [pod.name for pod in cluster.pods() if pod.namespace != RESERVED]
        what, name = rng.choice(STEPS), rng.choice(pods or [""])
        self.made += 1
        if what == "pod":
            cluster.add_pod(f"p{self.made}", requests={"cpu": "1"}, annotations=self.annotations())
        elif what == "whole":
            self.sharing.pod(f"p{self.made}", gpus=rng.choice([1, 2]))
        elif what == "forge":
            labels = {GROUP_LABEL: device, f"{GROUP_LABEL}/q": "other"}
            cluster.add_pod(
                f"p{self.made}", labels=labels, node_name=rng.choice(["", "n0"]), annotations=self.annotations()
            )
        elif what == "node":
            labels = {"nvidia.com/gpu.memory": rng.choice(["100", "16000", "0", "x"])}
            cluster.patch(Node, "n0", {"metadata": {"labels": labels}})
        elif what == "reservation" and reservations:
            cluster.delete_pod(rng.choice(reservations).name, namespace=RESERVED)
        elif what == "delete" and name:
            cluster.delete_pod(name)
        elif what == "annotate" and name:
            cluster.patch(Pod, name, {"metadata": {"annotations": self.annotations()}})
        elif what in {"relabel", "unlabel"} and name:
            value = device if what == "relabel" else None
            cluster.patch(Pod, name, {"metadata": {"labels": {GROUP_LABEL: value}}})

    def annotations(self) -> dict[str, str]:
        """Return annotations that request a share, as a rule none that can be used."""
        rng = self.rng
        made = {"gpu-fraction": rng.choice(FRACTIONS)}
        if rng.random() < 0.2:
            made = {"gpu-memory": rng.choice(["abc", "10", "60", str(10**18)])}
        if rng.random() < 0.2:
            made["gpu-fraction-num-devices"] = rng.choice(["2", "1000000000", "-1"])
        return made


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
async def test_histories_end_without_errors_and_leave_nothing_behind(
    pyscheduler_cluster: FakeCluster, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """No handler fails; when all pods are gone, so are shares, reservation pods and locks."""
    sharing = Sharing(pyscheduler_cluster, nodes=2)
    measured = await sharing.start()
    history = History(sharing, seed)
    shared = 0
    for _ in range(80):
        history.step()
        await sharing.pass_time(history.rng.choice([0.01, 0.2, 1.0]))
        shared += len(sharing.reservations())
    assert shared > 0
    for pod in sharing.cluster.pods():
        if pod.namespace != RESERVED:
            sharing.cluster.delete_pod(pod.name)
    await sharing.pass_time(60)
    assert [each.getMessage() for each in caplog.records if each.exc_info and each.levelno >= logging.WARNING] == []
    assert "plugin_error" not in measured.warnings
    plugin = measured.scheduler.profiles["pyscheduler"].plugins["GpuSharing"]
    assert isinstance(plugin, GpuSharing)
    assert (plugin.books.shares, plugin.books.nodes, sharing.reservations()) == ({}, {}, {})
    assert len(plugin.reservations.locks) == 0
    sharing.pod("last", gpus=2)
    await sharing.pass_time(20)
    assert sharing.cluster.pod("last").node_name
