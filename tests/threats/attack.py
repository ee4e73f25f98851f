"""Objects as an attacker would write them, and what they cost the scheduler: CPU time of the loop, and memory."""

from __future__ import annotations

import asyncio
import gc
import time
from asyncio import events
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from hypothesis import settings

from pyscheduler.testing import FakeCluster, node_manifest, pod_manifest
from pyscheduler.testing.fake_framework import FakeFramework
from tests.cpu import slowness

#: CPU time for which a single turn of the event loop may last, in seconds, where no single object is huge.
HOLD_SECONDS = 0.05
#: Entries of a huge pod. 10,000, in `make test-long`, are about as many as an API server takes.
MANY = min(600 * settings.default.max_examples, 10_000)
#: The same limit for one attempt of a pod with so many terms or constraints. Up to 30 µs for each were measured.
HUGE_HOLD_SECONDS = MANY * 60e-6

_numbers = iter(range(1, 1 << 30))


@attrs.define
class Holds:
    """CPU time of the callbacks of the event loop, in seconds of an idle machine."""

    longest: float = 0.0


@contextmanager
def measured_holds() -> Iterator[Holds]:
    """Measure the CPU time of each callback of the event loop, the embedded API server's included.

    CPU time and not wall time, because the machine may be busy; without garbage collections, which the command makes
    rare and which depend on what else the process of the tests holds; and divided by how much slower than an idle one
    the machine is meanwhile.
    """
    holds = Holds()
    run = events.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        seconds = time.thread_time() - began
        holds.longest = max(holds.longest, seconds)

    slow = slowness()
    gc.disable()
    events.Handle._run = timed  # type: ignore[method-assign]  # as a profiler would
    try:
        yield holds
    finally:
        events.Handle._run = run  # type: ignore[method-assign]  # same
        gc.enable()
    holds.longest /= max(slow, slowness())


def resident_mib() -> float:
    """Return the memory of this process, in MiB."""
    with Path("/proc/self/status").open(encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024


def huge_pod(name: str = "huge", *, spec: Mapping[str, Any] | None = None, **keywords: Any) -> dict[str, Any]:
    """Return a pod's manifest; keywords as for `pod_manifest`, what is in `spec` counts as it stands."""
    manifest = pod_manifest(name, **keywords)
    manifest["spec"] |= spec or {}
    return manifest


def plant(cluster: FakeCluster, manifests: Iterable[dict[str, Any]]) -> None:
    """Put objects into the cluster as they are, without the API server's own checks and defaults."""
    for manifest in manifests:
        manifest["metadata"].setdefault("uid", f"uid-{next(_numbers)}")
        manifest["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        cluster.server.plant(manifest)


def add_nodes(cluster: FakeCluster, count: int) -> None:
    """Add nodes in five zones, each with much room."""
    room = {"cpu": "64", "memory": "64Gi", "pods": "500"}
    plant(
        cluster,
        (node_manifest(f"n{i}", allocatable=room, labels={"zone": f"z{i % 5}"}) for i in range(count)),
    )


async def settled_holds(cluster: FakeCluster, *, seconds: int = 0) -> Holds:
    """Let all happen that can, then so many seconds pass; return how long the loop was held."""
    with measured_holds() as holds:
        await cluster.clock.advance(0)
        for _ in range(seconds):
            await cluster.clock.advance(1)
    return holds


async def assert_ordinary_pod_is_bound(framework: FakeFramework, *, scheduler_name: str = "pyscheduler") -> None:
    """Check that a pod of somebody else finds its node at once."""
    result = await framework.schedule(f"ordinary-{next(_numbers)}", scheduler_name=scheduler_name)
    assert result.bound, result.message
