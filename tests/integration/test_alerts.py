"""The alert rules and the dashboards with a real Prometheus, and a scheduler that is hurt in every way at once."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import re
import signal
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from deploy.monitoring.dashboards import DASHBOARDS
from deploy.monitoring.rules import RULES, Rule, rules_text
from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.serving.faults import Fault
from pyscheduler.testing import node_manifest, pod_manifest
from tests import processes
from tests.deploy.prometheus import tools
from tests.integration.conftest import Served
from tests.integration.programs import Program, free_port, program
from tests.integration.test_bad_input import hooks, install
from tests.processes import PATIENCE_SECONDS

CRDS = Path(__file__).parents[2] / "configs" / "crds"
#: All faults and repairs take no longer, in seconds, on an idle machine.
LIMIT_SECONDS = 240

#: Does what the label of a pod says; memory is held until another pod says so.
PLUGIN = """
import time
from pyscheduler import FilterPlugin

held = []

class Faulty(FilterPlugin):
    def filter(self, state, pod, node):
        fault = pod.labels.get("fault", "")
        if fault == "raises":
            raise RuntimeError("as the test wants it")
        if fault == "slow":
            time.sleep(0.25)
        elif fault == "blocks":
            time.sleep(2)
        elif fault == "hoards":
            held.append(b"x" * (200 << 20))
        elif fault == "frees":
            held.clear()
        return None
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
leaderElection: {leaseDuration: 5s, renewDeadline: 4s, retryPeriod: 1s}
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: Faulty}]}}
- schedulerName: batch
  plugins: {multiPoint: {enabled: [{name: Batch}], disabled: [{name: DefaultPreemption}]}}
  pluginConfig: [{name: Batch, args: {preset: PRESET}}]
"""
#: Shorter times and smaller limits: seconds instead of minutes.
FASTER: dict[str, dict[str, Any]] = {
    "OldestPending": {"limit": 5},
    "QueueGrows": {"window": 10, "limit": 10},
    "PluginFails": {"window": 15},
    "PluginSlow": {"window": 15},
    "BindingErrors": {"window": 15},
    "WatchBroken": {"limit": 3},
    "KubeletRejects": {"window": 15},
}
#: Panels without data here, and why.
WITHOUT_DATA = {"Evicted pods": "nothing is evicted"}


class Prometheus:
    """A running Prometheus, and what it has seen."""

    def __init__(self, url: str) -> None:
        self._url = url
        #: Alerts that have fired so far.
        self.fired: set[str] = set()

    async def query(self, text: str) -> list[Any]:
        """Return the series of an expression."""
        answer = await asyncio.to_thread(self._get, "query", {"query": text})
        found: list[Any] = answer["result"]
        return found

    async def firing(self) -> set[str]:
        """Return the alerts that fire now."""
        answer = await asyncio.to_thread(self._get, "alerts", {})
        now = {each["labels"]["alertname"] for each in answer["alerts"] if each["state"] == "firing"}
        self.fired |= now
        return now

    def _get(self, name: str, query: dict[str, str]) -> Any:
        url = f"{self._url}/api/v1/{name}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)["data"]

    async def until_fired(self, names: Iterable[str]) -> None:
        """Wait until each of these alerts has fired at least once."""
        wanted, end = set(names), time.monotonic() + PATIENCE_SECONDS
        while True:
            await self.firing()
            if wanted <= self.fired:
                return
            assert time.monotonic() < end, f"did not fire: {wanted - self.fired}"
            await asyncio.sleep(0.5)

    async def until_quiet(self) -> None:
        """Wait until no alert fires."""
        end = time.monotonic() + PATIENCE_SECONDS
        while now := await self.firing():
            assert time.monotonic() < end, f"did not clear: {now}"
            await asyncio.sleep(0.5)


@asynccontextmanager
async def prometheus(
    binaries: Path, folder: Path, rules: Iterable[Rule], ports: Iterable[int]
) -> AsyncIterator[Prometheus]:
    """Run Prometheus, which scrapes these ports each second."""
    (folder / "rules.yaml").write_text(rules_text(rules))
    targets = [f"127.0.0.1:{port}" for port in ports]
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": [{"job_name": "pyscheduler", "static_configs": [{"targets": targets}]}],
    }
    (folder / "prometheus.yaml").write_text(json.dumps(config))
    port = free_port()
    running = await processes.start(
        str(binaries / "prometheus"),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
        env=dict(os.environ),
    )
    output = Program(running)
    found = Prometheus(f"http://127.0.0.1:{port}")
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    await found.query("up")
                except OSError:
                    assert running.returncode is None, output.err
                    await asyncio.sleep(0.2)
                else:
                    break
        yield found
    finally:
        await output.kill()


def page(port: int) -> str:
    """Return the metrics of a scheduler."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_SECONDS) as answer:
        text: str = answer.read().decode()
        return text


def value(text: str, name: str) -> float:
    """Return the value of a metric without labels."""
    (found,) = re.findall(rf"(?m)^{name} (\S+)$", text)
    return float(found)


def pod(name: str, fault: str = "", **keywords: Any) -> dict[str, Any]:
    """Return a pod that makes the plugin fail in its way."""
    return pod_manifest(name, labels={"fault": fault}, **keywords)


def kai(name: str, parent: str = "") -> dict[str, Any]:
    """Return a queue of KAI."""
    resources = {name: {"quota": 10, "limit": -1, "overQuotaWeight": 1} for name in ("cpu", "gpu", "memory")}
    spec = {"resources": resources, **({"parentQueue": parent} if parent else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


@attrs.define
class Trial:
    """A cluster whose scheduler is hurt and mended."""

    cluster: EmbeddedCluster
    config: Path
    text: str
    nodes: Fault = attrs.Factory(lambda: Fault(method="GET", path="^/api/v1/nodes$", status=503))

    async def hurt(self) -> None:
        """Cause everything that has an alert, except the end of the leader."""
        add = self.cluster.add
        self.cluster.faults.add(Fault(method="POST", path="/pods/refused[^/]*/binding$", status=403))
        add(*(pod(f"refused-{number}") for number in range(10)))
        add(pod("raises", "raises"), pod("hoards", "hoards"), pod("never", requests={"cpu": "10k"}))
        add(pod("starves", scheduler_name="batch", requests={"nvidia.com/gpu": "2"}, node_selector={"no": "node"}))
        self.config.write_text(self.text + "parallelism: 4\n")
        add(pod("rejected"))
        await self.until_bound("rejected")
        self.reject("rejected")
        add(pod("blocks", "blocks"))
        await self.until_bound("blocks")
        self.cluster.faults.add(self.nodes)
        self.cluster.router.drop_watches(how="cut")

    async def flood(self) -> None:
        """Create pods twice as fast as the plugin lets them be scheduled, until cancelled."""
        for number in itertools.count():
            self.cluster.add(*(pod(f"slow-{number}-{each}", "slow") for each in range(8)))
            await asyncio.sleep(1)

    def mend(self) -> None:
        """Repair everything."""
        self.cluster.faults.clear()
        self.config.write_text(self.text)
        for each in self.cluster.pods():
            self.cluster.remove("v1", "Pod", each["metadata"]["name"], namespace="default")
        self.cluster.add(pod("frees", "frees"))

    def reject(self, name: str) -> None:
        """Fail a bound pod as a kubelet does that has no room for it."""
        collection = self.cluster.registry.collection(self.cluster.resource("v1", "Pod"))
        record = collection.get(f"default/{name}")
        body = record.decode()
        body["status"] |= {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: no cpu"}
        collection.replace(record, body)

    async def until_bound(self, name: str) -> None:
        """Wait until a pod has a node."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if self.cluster.get("v1", "Pod", name, namespace="default")["spec"].get("nodeName"):
                    return
                await asyncio.sleep(0.1)


def filled(cluster: EmbeddedCluster, *groups: str) -> None:
    """Add the definitions of a batch system, and a node."""
    for group in groups:
        cluster.load((CRDS / f"{group}.yaml").read_bytes())
    cluster.add(node_manifest("n", allocatable={"cpu": "1000", "pods": "1000", "nvidia.com/gpu": "8"}))


def faster(rule: Rule, text: str) -> Rule:
    """Return a rule with times for a test; the limit of memory is 100 MiB above what the metrics show now."""
    memory, limit = (value(text, f"{name}_bytes") for name in ("process_resident_memory", "pyscheduler_memory_limit"))
    limits = {"MemoryNearLimit": {"limit": (memory + (100 << 20)) / limit}}
    return attrs.evolve(rule, hold=1, **{**FASTER, **limits}.get(rule.name, {}))


async def empty_panels(found: Prometheus) -> set[str]:
    """Return the panels of which an expression has no data."""
    empty = set()
    for board in DASHBOARDS:
        for panel in board.panels:
            for text in panel.expressions():
                for variable, meant in (("$__rate_interval", "2m"), ("$job", ".*pyscheduler.*"), ("$instance", ".+")):
                    text = text.replace(variable, meant)
                if not await found.query(text):
                    empty.add(panel.title)
    return empty


@asynccontextmanager
async def other_api_server() -> AsyncIterator[tuple[EmbeddedCluster, str]]:
    """Serve a second cluster with queues of Volcano: a lease cannot prevent a leader in each of two clusters."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(2))
    filled(cluster, "queues.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh")
    cluster.add({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}})
    server = cluster.server()
    await server.start()
    try:
        yield cluster, server.url
    finally:
        await server.stop()


@pytest.mark.packages
@pytest.mark.slow
async def test_each_alert_fires_and_clears(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, served_cluster: Served
) -> None:
    """Each alert fires after its fault and clears after its repair, and the dashboards show data meanwhile."""
    binaries = await asyncio.to_thread(tools, tmp_path_factory.getbasetemp() / "tools")
    environment = install(tmp_path / "site", "faulty", hooks("Faulty", "faulty_plugin:Faulty"), faulty_plugin=PLUGIN)
    cluster = served_cluster.cluster
    filled(cluster, "queues.scheduling.run.ai", "podgroups.scheduling.run.ai")
    cluster.add(kai("top"), kai("default-queue", "top"))
    trial = Trial(cluster, tmp_path / "config.yaml", CONFIG.replace("PRESET", "kai"))
    trial.config.write_text(trial.text)
    other = tmp_path / "other.yaml"
    other.write_text(CONFIG.replace("PRESET", "volcano"))
    port, other_port = free_port(), free_port()
    expected = {rule.alert for rule in RULES if rule.name != "NoLeader"}
    without = dict(WITHOUT_DATA)

    def run(url: str, config: Path, health: int) -> Any:
        arguments = ("run", "--master", url, "--config", str(config), "--secure-port=0", f"--health-port={health}")
        return program(*arguments, env=environment)

    async with run(served_cluster.url, trial.config, port) as leader, other_api_server() as (second, other_url):
        await leader.said("Successfully acquired lease")
        before = await asyncio.to_thread(page, port)
        if "pyscheduler_oldest_pending_seconds" not in before:  # it comes with the stories of pods
            expected.discard("PyschedulerOldestPending")
            without["Oldest pending pod"] = "the metric is not there yet"
        rules = [faster(rule, before) for rule in RULES]
        async with prometheus(binaries, tmp_path, rules, (port, other_port)) as found:
            await asyncio.sleep(12)  # the first look at the configuration, and some scrapes
            assert await found.firing() == set()
            began = time.monotonic()
            await trial.hurt()
            flood = asyncio.create_task(trial.flood())
            async with run(other_url, other, other_port) as rival:
                await rival.said("Successfully acquired lease")
                second.add(pod("theirs", scheduler_name="batch", requests={"cpu": "1"}))
                await found.until_fired(expected)
                assert await empty_panels(found) == set(without)
            flood.cancel()
            await asyncio.gather(flood, return_exceptions=True)
            trial.mend()
            await found.until_quiet()
            leader.send(signal.SIGKILL)
            await leader.ended()
            await found.until_fired({"PyschedulerNoLeader"})
            async with run(served_cluster.url, trial.config, port):
                await found.until_quiet()
            assert found.fired == expected | {"PyschedulerNoLeader"}
            assert time.monotonic() - began < LIMIT_SECONDS
