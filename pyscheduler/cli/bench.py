"""`pyscheduler bench`: schedule pods on a simulated cluster; report pods per second and each plugin's CPU time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from pyscheduler.cli.manifests import manifest_text
from pyscheduler.cli.shared_options import feature_gates_option, objects_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_objects.clock import Timer

__all__ = ["Costs", "command"]

#: These may wait for the API server; their time would include the work of others.
_MAY_WAIT: Final = frozenset({"PreBind", "Bind", "PostBind"})
_ZONES: Final = 3
_BATCH: Final = 50
_SECONDS_PER_BATCH: Final = 30.0


@attrs.define
class Costs:
    """The clock and the recorder of a profile's plugin calls: CPU seconds of the timed cycles, by plugin and point."""

    seconds: defaultdict[tuple[str, str], float] = attrs.Factory(lambda: defaultdict(float))
    calls: Counter[tuple[str, str]] = attrs.Factory(Counter)

    def now(self) -> float:
        """Return the CPU time of this thread in seconds."""
        return time.thread_time()

    def observe(self, family: str, seconds: float, *labels: str) -> None:
        """Add one call in a cycle whose plugins are timed; ignore other values."""
        if family == "scheduler_plugin_execution_duration_seconds":
            plugin, point, _status = labels
            self.seconds[plugin, point] += seconds
            self.calls[plugin, point] += 1

    def __getattr__(self, _name: str) -> Any:
        """Ignore what else is recorded."""
        return _ignore


def _ignore(*_: object, **__: object) -> Timer | None:
    return None


@click.command("bench")
@click.option("--config", "config_file", required=True, metavar="FILE", help="The configuration with the profile.")
@click.option("--profile", metavar="NAME", help="The profile, by its schedulerName. [default: the first]")
@click.option("--nodes", type=click.IntRange(1), default=1000, show_default=True, help="Number of nodes.")
@click.option("--pods", type=click.IntRange(1), default=1000, show_default=True, help="Number of pods to schedule.")
@objects_option("Manifest of objects that the cluster has besides the nodes, such as custom resources. Repeatable.")
@feature_gates_option
def command(
    config_file: str, profile: str | None, nodes: int, pods: int, objects: tuple[str, ...], feature_gates: str
) -> None:
    """Measure a profile on a simulated cluster: pods per second, and CPU time per pod of each plugin.

    The real scheduler runs on an API server in memory, in this process; the rate includes both. The plugins are timed
    in one cycle of ten, up to Permit. With an equivalence cache, equal pods cost less: most answers are reused.

    \b
    Example:
      pyscheduler bench --config profile.yaml --nodes 5000
    """
    for line in asyncio.run(_bench(config_file, profile, nodes, pods, manifest_text(objects), feature_gates)):
        click.echo(line)


async def _bench(
    config_file: str, profile_name: str | None, nodes: int, pods: int, objects: str, gates: str
) -> list[str]:
    from pyscheduler.cli.offline_scheduler import offline_scheduler
    from pyscheduler.config.dump import dump
    from pyscheduler.config.feature_gates import parse
    from pyscheduler.config.load import load
    from pyscheduler.config.problems import found_in
    from pyscheduler.framework.errors import ConfigError
    from pyscheduler.runtime.assembly.discovery import discover
    from pyscheduler.testing import FakeCluster
    from pyscheduler.testing.checks.subject import serve_watched

    config = load(config_file)
    with found_in(config_file):
        offline_scheduler(config, discover(), gates=parse(gates))  # reports mistakes with the name of the file
    cluster = FakeCluster()
    for number in range(nodes):
        labels = {"topology.kubernetes.io/zone": f"zone-{number % _ZONES}"}
        cluster.add_node(f"node-{number}", allocatable={"cpu": "32", "memory": "128Gi"}, labels=labels)
    if objects:
        cluster.server.load(objects)
    framework = cluster.framework(config=dump(config), feature_gates=gates)
    serve_watched(framework, cluster)
    profiles = framework.scheduler.profiles
    name = profile_name or next(iter(profiles))
    if name not in profiles:
        raise ConfigError(f"--profile: {config_file} has no profile {name!r}; choose from {', '.join(profiles)}")
    costs, calls = Costs(), profiles[name].calls
    calls.clock = calls.recorder = costs
    try:
        await framework.start()
        spent = time.process_time()
        for first in range(0, pods, _BATCH):
            for number in range(first, min(first + _BATCH, pods)):
                cluster.add_pod(f"pod-{number}", requests={"cpu": "100m", "memory": "128Mi"}, scheduler_name=name)
            # Bindings may wait for their turn (`clientConnection.qps`).
            await cluster.clock.advance(_SECONDS_PER_BATCH)
        spent = time.process_time() - spent
        bound = sum(bool(pod.node_name) for pod in cluster.pods())
    finally:
        await cluster.close()
    cache = "on" if profiles[name].equivalence_cache is not None else "off"
    rate = f"{pods / spent:,.0f} pods/s of CPU time" if spent else "too quick to measure"
    head = [f"profile {name}: {nodes} nodes, {pods} pods, {bound} bound", f"{rate}, equivalence cache {cache}"]
    return [*head, *_table(costs)]


def _table(costs: Costs) -> Iterator[str]:
    """Return the lines of the table, the most expensive plugin first; microseconds per pod in a timed cycle."""
    shown = {key: seconds for key, seconds in costs.seconds.items() if key[1] not in _MAY_WAIT}
    if not shown:
        yield "no plugin was timed; schedule more pods with --pods"
        return
    # A filter for one node is called many times in a cycle.
    cycles = max([costs.calls[key] for key in shown if key[1] == "PreFilter"] or [min(costs.calls.values())])
    width, points = (max(len(key[part]) for key in shown) for part in (0, 1))
    yield f"{'plugin':<{width}}  {'point':<{points}}  {'us/pod':>8}"
    for (plugin, point), seconds in sorted(shown.items(), key=lambda each: -each[1]):
        yield f"{plugin:<{width}}  {point:<{points}}  {seconds / cycles * 1e6:>8.1f}"
