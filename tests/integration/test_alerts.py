"""The alert rules and the dashboards with a real Prometheus, and a scheduler that is hurt in every way at once."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import time
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from deploy.monitoring.dashboards import DASHBOARDS
from deploy.monitoring.rules import RULES, Rule
from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from lab.tests.conftest import hooks, install
from tests.deploy import mixin
from tests.deploy.prometheus import Prometheus, prometheus, tools
from tests.integration.alert_faults import PLUGIN, Trial, add_system, compete, configuration
from tests.integration.conftest import Served
from tests.integration.programs import free_port, program
from tests.processes import PATIENCE_SECONDS

#: All faults and repairs take no longer, in seconds, on an idle machine.
LIMIT_SECONDS = 240
#: Shorter times and smaller limits: seconds instead of minutes.
FASTER: Mapping[str, Mapping[str, Any]] = {
    "OldestPending": {"limit": 5},
    "QueueGrows": {"window": 10, "limit": 10},
    "PluginFails": {"window": 15},
    "PluginSlow": {"window": 15},
    "BindingErrors": {"window": 15},
    "WatchBroken": {"limit": 3},
    "KubeletRejects": {"window": 15},
}
#: The alerts that the faults cause, with labels that name the cause.
HURT: Mapping[str, Mapping[str, str]] = {
    "PyschedulerTwoLeaders": {"name": "pyscheduler"},
    "PyschedulerOldestPending": {"profile": "pyscheduler", "reason": "Unschedulable"},
    "PyschedulerQueueGrows": {"job": "pyscheduler"},
    "PyschedulerPluginFails": {"plugin": "Faulty", "extension_point": "Filter"},
    "PyschedulerPluginSlow": {"plugin": "Faulty", "extension_point": "Filter"},
    "PyschedulerLoopBlocked": {"job": "pyscheduler"},
    "PyschedulerBindingErrors": {"profile": "pyscheduler"},
    "PyschedulerWatchBroken": {"resource": "nodes"},
    "PyschedulerKubeletRejects": {"reason": "OutOfcpu", "other_scheduler": "true"},
    "PyschedulerQueueStarves": {"queue_name": "default-queue"},
    "PyschedulerConfigStale": {"job": "pyscheduler"},
    "PyschedulerMemoryNearLimit": {"job": "pyscheduler"},
}
KILLED: Mapping[str, Mapping[str, str]] = {"PyschedulerNoLeader": {"severity": "critical"}}


def page(port: int) -> str:
    """Return the metrics of a scheduler."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_SECONDS) as answer:
        text: str = answer.read().decode()
        return text


def value(text: str, name: str) -> float:
    """Return the value of a metric without labels."""
    (found,) = re.findall(rf"(?m)^{name} (\S+)$", text)
    return float(found)


def faster(rule: Rule, text: str) -> Rule:
    """Return a rule with times for a test; the limit of memory is 100 MiB above what the metrics show now."""
    memory, limit = (value(text, f"{name}_bytes") for name in ("process_resident_memory", "pyscheduler_memory_limit"))
    limits = {"MemoryNearLimit": {"limit": (memory + (100 << 20)) / limit}}
    return attrs.evolve(rule, hold=1, **{**FASTER, **limits}.get(rule.name, {}))


def expressions() -> Mapping[str, str]:
    """Return the expressions of our dashboards and of kubernetes-mixin's, by readable names."""
    meant = {"$__rate_interval": "2m", "$job": ".*pyscheduler.*", "$instance": ".+"}
    found = dict(mixin.EXPRESSIONS)
    for board in DASHBOARDS:
        for panel in board.panels:
            for number, text in enumerate(panel.expressions()):
                for variable, matcher in meant.items():
                    text = text.replace(variable, matcher)
                found[f"{board.name}: {panel.title} {number}"] = text
    return found


async def has_data(found: Prometheus, text: str) -> bool:
    """Return True if an expression has a number; a quantile of nothing is none."""
    return any(series["value"][1] != "NaN" for series in await found.query(text))


async def until_data(found: Prometheus) -> None:
    """Wait until each expression has data, except those that never have."""
    wanted = {name: text for name, text in expressions().items() if name not in mixin.WITHOUT_DATA}
    assert len(wanted) > 60
    end = time.monotonic() + PATIENCE_SECONDS
    while wanted:
        wanted = {name: text for name, text in wanted.items() if not await has_data(found, text)}
        assert time.monotonic() < end, f"no data: {wanted}"
        await asyncio.sleep(0.5)
    for name in mixin.WITHOUT_DATA:
        assert not await has_data(found, mixin.EXPRESSIONS[name])


@asynccontextmanager
async def other_api_server() -> AsyncIterator[tuple[EmbeddedCluster, str]]:
    """Serve a second cluster: a lease cannot prevent a leader in each of two clusters."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(2))
    server = cluster.server()
    await server.start()
    try:
        yield cluster, server.url
    finally:
        await server.stop()


def prepare(cluster: EmbeddedCluster, *systems: str) -> None:
    """Add what jobs of these systems need, and kubelets for all nodes."""
    cluster.add(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 80}
    )
    for system in systems:
        add_system(cluster, system)
    cluster.lifecycle().start()


@pytest.mark.packages
@pytest.mark.slow
async def test_each_alert_fires_and_clears(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, served_cluster: Served
) -> None:
    """Each alert fires after its fault and clears after its repair, and the dashboards show data meanwhile."""
    assert {*HURT, *KILLED} == {rule.alert for rule in RULES}
    binaries = await asyncio.to_thread(tools, tmp_path_factory.getbasetemp() / "tools")
    environment = install(tmp_path / "site", "faulty", hooks("Faulty", "faulty_plugin:Faulty"), faulty_plugin=PLUGIN)
    cluster = served_cluster.cluster
    prepare(cluster, "kai")
    trial = Trial(cluster, tmp_path / "config.yaml", configuration("kai"))
    trial.begin()
    other = tmp_path / "other.yaml"
    other.write_text(configuration("volcano", "kube-batch"))
    port, other_port = free_port(), free_port()

    def run(url: str, config: Path, health: int) -> Any:
        arguments = ("run", "--master", url, "--config", str(config), "--secure-port=0", f"--health-port={health}")
        return program(*arguments, env=environment)

    async with run(served_cluster.url, trial.config, port) as leader, other_api_server() as (second, other_url):
        prepare(second, "volcano", "kube-batch")
        await leader.said("Successfully acquired lease")
        before = await asyncio.to_thread(page, port)
        async with prometheus(
            binaries, tmp_path, [faster(rule, before) for rule in RULES], (port, other_port)
        ) as found:
            await asyncio.sleep(12)  # the first look at the configuration, and some scrapes
            assert await found.firing() == set()
            began = time.monotonic()
            await trial.hurt()
            flood = asyncio.create_task(trial.flood())
            async with run(other_url, other, other_port) as rival:
                await rival.said("Successfully acquired lease")
                await compete(second, "volcano")
                await compete(second, "kube-batch")
                await compete(cluster, "kai")
                await found.until_fired(HURT)
                await until_data(found)
            flood.cancel()
            await asyncio.gather(flood, return_exceptions=True)
            trial.mend()
            await found.until_quiet()
            leader.send(signal.SIGKILL)
            await leader.ended()
            await found.until_fired(KILLED)
            async with run(served_cluster.url, trial.config, port):
                await found.until_quiet()
            assert found.fired.keys() == {*HURT, *KILLED}
            assert time.monotonic() - began < LIMIT_SECONDS
