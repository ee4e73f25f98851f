"""The rows of `make bench`: what is measured, and what it should come to."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from tests.bench import client, clusters, cycle, preemption, programs, waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["FIGURES", "Row", "growth", "rows"]

#: How figures are called and written.
FIGURES: Final[Mapping[str, tuple[str, str]]] = {
    "pods_per_second": ("throughput", "{:,.0f} pods/s"),
    "cpu_us_per_pod": ("CPU per pod", "{:,.0f} us"),
    "attempt_p50_ms": ("attempt, p50", "{:.2f} ms"),
    "attempt_p99_ms": ("attempt, p99", "{:.2f} ms"),
    "sync_seconds": ("first sync", "{:.2f} s"),
    "sync_cpu_seconds": ("CPU of the first sync", "{:.2f} s"),
    "cpu_seconds": ("CPU", "{:.2f} s"),
    "reaction_p50_ms": ("pod created to binding received, p50", "{:.1f} ms"),
    "reaction_p99_ms": ("pod created to binding received, p99", "{:.1f} ms"),
    "search_ms": ("one search for victims", "{:.0f} ms"),
    "longest_hold_ms": ("longest hold of the loop", "{:.0f} ms"),
    "peak_mib": ("peak memory of the scheduler", "{:,.0f} MiB"),
    "hold_p99_ms": ("holds of the loop, p99", "{:.0f} ms"),
    "resident_mib": ("memory of the scheduler", "{:,.0f} MiB"),
    "waiting_mib": ("memory of the waiting alone", "{:,.1f} MiB"),
    "growth_mib": ("growth after the first rounds", "{:+,.1f} MiB"),
    "after_stop_seconds": ("standby leads after a clean stop", "{:.1f} s"),
    "after_kill_seconds": ("standby leads after a kill", "{:.1f} s"),
    "problems": ("problems found by the checker", "{:.0f}"),
    "seconds": ("time", "{:.2f} s"),
    "times": ("time per pod", "{:.2f} times"),
}


@attrs.frozen(kw_only=True)
class Row:
    """One measurement, made in a process of its own; it returns figures by the names of `FIGURES`."""

    name: str
    what: str
    measure: Callable[[], dict[str, float]]
    targets: Mapping[str, str] = attrs.Factory(dict)


def _cycle(nodes: int, pods: int, distinct: int, shape: str = "") -> dict[str, float]:
    result = cycle.run(nodes, pods, distinct=distinct, shape=shape)
    return {
        "pods_per_second": result.pods_per_second,
        "cpu_us_per_pod": result.cpu_per_pod * 1e6,
        "attempt_p50_ms": result.attempt_p50 * 1e3,
        "attempt_p99_ms": result.attempt_p99 * 1e3,
        "sync_seconds": result.sync_seconds,
        "longest_hold_ms": result.longest_hold * 1e3,
    }


def _help() -> dict[str, float]:
    return {"seconds": programs.help_seconds(5)}


def _ready(nodes: int) -> dict[str, float]:
    return {"seconds": programs.ready_seconds(nodes)}


def rows(*, short: bool) -> Sequence[Row]:
    """Return all rows; `short` ones are so small that they prove no more than that they run."""
    small, large = (100, 500) if short else (1000, 5000)
    pods = 500 if short else 10_000
    distinct = 50 if short else 500
    demo_pods = 500 if short else 8152
    fast = {"pods_per_second": ">= 1,500 pods/s"}
    made = [
        Row(
            name=f"cycle-{name}{kind}",
            what=f"cycles alone: {nodes:,} nodes, {pods:,} pods{what}",
            measure=partial(_cycle, nodes, pods, specs),
            targets=fast if (name, kind) == ("large", "") else {},
        )
        for kind, what, specs in (("", "", 1), ("-distinct", f" of {distinct} kinds", distinct))
        for name, nodes in (("small", small), ("large", large))
    ]
    made += [
        Row(
            name=f"cycle-{shape}",
            what=f"cycles alone: {large:,} nodes, {large:,} pods, {shape.replace('-', ' ')}",
            measure=partial(_cycle, large, large, 1, shape),
            targets={"pods_per_second": ">= 700 pods/s"},
        )
        for shape in clusters.SHAPES
        if shape
    ]
    made += _client_rows(short=short)
    made.append(
        Row(
            name="waiting",
            what=f"{pods:,} pods wait at Permit, then all are allowed",
            measure=partial(waiting.waiting, 10 if short else 100, pods),
            targets={"waiting_mib": "<= 60 MiB", "seconds": "<= 1 s"},
        )
    )
    made += [
        Row(
            name=f"preemption{name}",
            what=f"search for victims: {large:,} full nodes, {what}",
            measure=partial(preemption.search, large, in_vain=in_vain),
            targets={"longest_hold_ms": "<= 50 ms"},
        )
        for name, what, in_vain in (("", "a tenth is enough", False), ("-in-vain", "none would do", True))
    ]
    made += [
        Row(
            name="demo",
            what=f"demo over HTTP: 1,523 nodes, {demo_pods:,} pods",
            measure=partial(programs.demo, demo_pods),
            targets={"pods_per_second": ">= 400 pods/s", "peak_mib": "<= 300 MiB", "problems": "0"},
        ),
        Row(name="help", what="pyscheduler --help", measure=_help, targets={"seconds": "< 0.3 s"}),
        Row(
            name="ready",
            what=f"pyscheduler run until ready: {large:,} nodes",
            measure=partial(_ready, large),
            targets={"seconds": "< 3 s"},
        ),
    ]
    return made


def _client_rows(*, short: bool) -> Sequence[Row]:
    """Return the rows about the client path, over HTTP."""
    nodes, pods, created = (200, 800, 100) if short else (5000, 20_000, 600)
    size = f"{nodes:,} nodes, {pods:,} pods"
    calm = {"longest_hold_ms": "<= 50 ms", "peak_mib": "<= 400 MiB"}
    return [
        Row(
            name="reaction",
            what="an idle scheduler meets a pod: 1,000 nodes, over HTTP",
            measure=partial(client.reaction, 100 if short else 1000, created),
            targets={"reaction_p99_ms": "<= 20 ms"},
        ),
        Row(
            name="sync",
            what=f"first list over HTTP: {size}",
            measure=partial(client.sync, nodes, pods),
            targets={"sync_cpu_seconds": "<= 6 s", "peak_mib": "<= 400 MiB"},
        ),
        *(
            Row(
                name=f"relist{name}",
                what=f"relist while {created} pods arrive: {size}{what}",
                measure=partial(client.relist, nodes, pods, created, touch=touch),
                targets=calm,
            )
            for name, what, touch in (("", "", False), ("-changed", ", each of them changed", True))
        ),
        Row(
            name="memory",
            what=f"pods come and go: 500 nodes, {3 if short else 9} rounds of {created * 5:,} pods",
            measure=partial(client.memory, 500, 3 if short else 9, created * 5),
            targets={"growth_mib": "about 0"},
        ),
        Row(
            name="leadership",
            what="two replicas, leaseDuration 15s, retryPeriod 2s",
            measure=programs.leadership,
            targets={"after_stop_seconds": "<= 2 s", "after_kill_seconds": "<= 17 s"},
        ),
    ]


def growth(found: Mapping[str, Mapping[str, float]]) -> dict[str, float] | None:
    """Return how much longer a pod takes on the larger cluster; None where one of the two rows was left out."""
    small, large = found.get("cycle-small"), found.get("cycle-large")
    if small is None or large is None:
        return None
    return {"times": small["pods_per_second"] / large["pods_per_second"]}
