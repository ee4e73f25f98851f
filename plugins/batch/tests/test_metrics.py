"""Metrics of queues: values under the names of each system, and the limit on the number of queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pyscheduler.framework.recorder import NullRecorder
from pyscheduler_batch.model.queue_spec import QueueSpec
from pyscheduler_batch.status.metrics import MOST_QUEUES, OTHERS, QueueMetrics
from pyscheduler_batch.status.queues import QueueSums
from pyscheduler_kai.reports import KaiReports
from pyscheduler_lab.testing import gpus

GPU = "nvidia.com/gpu"


@pytest.mark.slow
async def test_kai_metrics(kai: Any) -> None:
    """What queues hold, their quota and fair share, and how many pods each action evicted."""
    kai.nodes(1, cpu="64", **{GPU: "2"})
    for name in ("a", "b"):
        kai.queue(name, resources=gpus(1))
    scheduler = await kai.start()
    kai.group("one", "a", 1)
    kai.pods("one", 2, requests={"cpu": "500m", "memory": "1Gi", GPU: "1"})
    await kai.pass_time()
    kai.job("two", "b", 1, requests={"cpu": "1", GPU: "1"})
    await kai.pass_time(0.04)
    assert kai.values("kai_queue_allocated_gpus", "a", "b") == {"a": 2, "b": 0}
    assert kai.values("kai_queue_allocated_cpu_cores", "a", "b") == {"a": 1, "b": 0}
    assert kai.values("kai_queue_allocated_memory_bytes", "a", "b") == {"a": 2**31, "b": 0}
    await kai.pass_time()
    assert kai.values("kai_queue_deserved_gpus", "a", "b") == {"a": 1, "b": 1}
    assert kai.values("kai_queue_quota_cpu_cores", "a", "b") == {"a": -1, "b": -1}
    assert kai.values("kai_queue_fair_share_gpu", "a", "b") == {"a": 1, "b": 1}
    evicted = "kai_pod_group_evicted_pods_total"
    assert scheduler.metric(evicted) == scheduler.metric(evicted, action="reclaim") == 1


@pytest.mark.slow
async def test_volcano_metrics(volcano: Any) -> None:
    """Amounts, other resources by name, weight, and groups by phase."""
    volcano.nodes(1, cpu="4", **{GPU: "4"})
    volcano.queue("default", weight=3)
    scheduler = await volcano.start()
    volcano.job("one", "default", 1, requests={"cpu": "1500m", GPU: "2"})
    await volcano.pass_time()
    volcano.go("Running", "one-0")
    await volcano.pass_time()
    for name, value in {
        "allocated_milli_cpu": 1500,
        "request_milli_cpu": 1500,
        "deserved_milli_cpu": 1500,
        "weight": 3,
        "pod_group_running_count": 1,
        "pod_group_pending_count": 0,
    }.items():
        assert scheduler.metric(f"volcano_queue_{name}", queue_name="default") == value, name
    assert scheduler.metric("volcano_queue_allocated_scalar_resources", resource=GPU) == 2


class Gauges(NullRecorder):
    """Keeps what reads each gauge."""

    def __init__(self) -> None:
        self.found: dict[str, Callable[[], Mapping[tuple[tuple[str, str], ...], float]]] = {}

    def gauge(
        self, name: str, read: Callable[[], Mapping[tuple[tuple[str, str], ...], float]], *, description: str = ""
    ) -> None:
        """Keep a gauge."""
        assert description
        self.found[name] = read


def test_queues_beyond_the_limit_are_summed() -> None:
    """The oldest queues have values of their own, the others one sum; nothing is lost."""
    recorder, count = Gauges(), MOST_QUEUES + 5
    metrics = QueueMetrics("kai")
    KaiReports().register(metrics, recorder)
    metrics.specs = {
        f"q{number}": QueueSpec(name=f"q{number}", uid=str(number), dialect="kai", created=-number)
        for number in range(count)
    }
    metrics.totals = {name: QueueSums(allocated={"cpu": 1000.0}) for name in metrics.specs}
    found = recorder.found["kai_queue_allocated_cpu_cores"]()
    assert len(found) == MOST_QUEUES + 1
    assert found[("queue_name", OTHERS),] == 5
    assert (("queue_name", f"q{count - 1}"),) in found
    assert sum(found.values()) == count
