"""Measure a benchmark case several times, each time with a new scheduler on the same cluster.

A measurement begins when all measured pods are queued, and ends when the scheduler has seen the last of them bound.
"""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click
import numpy as np

from benchmarks.measured_clusters import opened
from benchmarks.phases import Phases, sampled
from benchmarks.plan import MEASURED, make_plan
from benchmarks.schedulers import TimedCycles, make_scheduler
from pyscheduler.serving.gc_tuning import keep_for_good, rare_collections

if TYPE_CHECKING:
    from benchmarks.measured_clusters import MeasuredCluster, Setting
    from benchmarks.plan import Plan
    from pyscheduler.api import Pod
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["measure", "memory_of", "played", "watch_holds"]

#: What is enough: so many pods, or so many seconds.
_ENOUGH_PODS: Final = 20_000
_ENOUGH_SECONDS: Final = 10.0
#: Of CPU time; a thousand samples where the kernel ticks 250 times a second.
_ENOUGH_SAMPLED_SECONDS: Final = 4.0
#: A round has failed when so long no pod was tried or bound, or when it takes so long.
_STALLED_SECONDS: Final = 120.0
_ROUND_SECONDS: Final = 600.0
_ENTRIES: Final = 200_000


@attrs.define
class _Rounds:
    """The results of the rounds, in seconds."""

    pods: int = 0
    rounds: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    #: Of these, those until the last binding.
    cpu_until_bound: float = 0.0
    server_cpu_seconds: float | None = None
    #: When each pod was seen bound; rounds follow each other without a pause.
    moments: list[float] = attrs.Factory(list)
    attempts: list[float] = attrs.Factory(list)
    syncs: list[float] = attrs.Factory(list)
    sync_cpus: list[float] = attrs.Factory(list)
    first_binds: list[float] = attrs.Factory(list)
    holds: list[float] = attrs.Factory(list)
    #: In MiB, of the first round.
    memory: dict[str, float] = attrs.Factory(dict)


class _Bindings:
    """When each measured pod was seen bound."""

    def __init__(self, scheduler: Scheduler, count: int) -> None:
        self.moments: list[float] = []
        self.complete = asyncio.Event()
        self._count = count
        self._scheduler = scheduler
        # After the scheduler's own handler, which is what makes the cache see the pod bound.
        scheduler.pods.add_event_handler(on_update=self._look)

    def _look(self, old: Pod, new: Pod) -> None:
        if new.node_name and not old.node_name and new.name.startswith(MEASURED):
            self.moments.append(time.perf_counter())
            if len(self.moments) == self._count:
                self.complete.set()

    async def wait(self) -> None:
        """Return when all are; a `ClickException` when nothing happens any more, or nothing comes of it."""
        before, begun = (-1, -1), time.perf_counter()
        while not self.complete.is_set():
            seconds = time.perf_counter() - begun
            # All members of a large gang are bound after the last of them was tried.
            now = (self._scheduler.cycles, len(self.moments))
            if now == before or seconds > _ROUND_SECONDS:
                raise click.ClickException(
                    f"after {seconds:.0f} s {len(self.moments):,} of {self._count:,} pods are bound, "
                    f"in {self._scheduler.cycles:,} attempts"
                )
            before = now
            try:
                async with asyncio.timeout(_STALLED_SECONDS):
                    await self.complete.wait()
            except TimeoutError:
                continue


async def watch_holds(holds: list[float], cpu: list[float] | None = None) -> None:
    """Note how late each turn of the loop comes; in `cpu`, how much CPU time the loop's thread spent meanwhile."""
    while True:
        before, cpu_before = time.perf_counter(), time.thread_time()
        await asyncio.sleep(0.001)
        holds.append(time.perf_counter() - before - 0.001)
        if cpu is not None:
            cpu.append(time.thread_time() - cpu_before)


async def _round(world: MeasuredCluster, plan: Plan, rounds: _Rounds, *, phases: Phases | None = None) -> None:
    """Play one round; with `phases` the samples are what it is for."""
    # The last round's scheduler was kept for good, too.
    gc.unfreeze()
    gc.collect()
    await world.fill()
    begun, cpu = time.perf_counter(), time.process_time()
    scheduler = make_scheduler(await world.transport(), configuration=plan.case.configuration)
    timed = TimedCycles(scheduler)
    bindings = _Bindings(scheduler, plan.measured_count)
    await scheduler.start()
    rounds.syncs.append(time.perf_counter() - begun)
    rounds.sync_cpus.append(time.process_time() - cpu)
    keep_for_good()
    server = await world.server_cpu_seconds()
    await world.begin()
    with ExitStack() as stack:
        if phases is not None:
            watcher = asyncio.create_task(watch_holds(rounds.holds))
            stack.callback(watcher.cancel)
            stack.enter_context(sampled(phases))
        cpu, wall = time.process_time(), time.perf_counter()
        loop = asyncio.create_task(scheduler.run())
        await bindings.wait()
        rounds.cpu_until_bound += time.process_time() - cpu
        # Bindings go before events; what those cost belongs to the pods all the same.
        while not scheduler.client.idle:  # noqa: ASYNC110 - a scheduler has no use for being told
            await asyncio.sleep(0.01)
        rounds.cpu_seconds += time.process_time() - cpu
    if server is not None:
        after = await world.server_cpu_seconds()
        assert after is not None
        rounds.server_cpu_seconds = (rounds.server_cpu_seconds or 0.0) + after - server
    rounds.moments += [rounds.seconds + moment - wall for moment in bindings.moments]
    rounds.first_binds.append(bindings.moments[0] - begun)
    rounds.seconds += bindings.moments[-1] - wall
    rounds.pods += plan.measured_count
    rounds.rounds += 1
    rounds.attempts += timed.seconds
    if not rounds.memory:
        # The first round's: a process that has done nothing else.
        gc.collect()
        rounds.memory = memory_of("self")
    await scheduler.stop()
    await loop
    await world.clear()


async def played(setting: Setting, *, short: bool) -> dict[str, Any]:
    """Measure a case in the running event loop."""
    plan = make_plan(setting.case, setting.nodes, distinct=setting.distinct, measured=setting.pods)
    calibration = [calibrate()]
    async with opened(setting, plan) as world:
        rounds = _Rounds()
        while True:
            await _round(world, plan, rounds)
            if short or rounds.pods >= _ENOUGH_PODS or rounds.seconds >= _ENOUGH_SECONDS:
                break
        sampling, phases = _Rounds(), Phases()
        while True:
            await _round(world, plan, sampling, phases=phases)
            if short or sampling.cpu_seconds >= _ENOUGH_SAMPLED_SECONDS:
                break
    calibration.append(calibrate())
    figures = _figures(rounds, alone=setting.mode != "cycle")
    per_thousand = phases.cpu_seconds / sampling.pods * 1000
    return {
        **figures,
        "longest_hold_ms": max(sampling.holds, default=0.0) * 1e3,
        "calibration_ms": sum(calibration) / 2 * 1e3,
        **({"threshold": plan.threshold} if plan.threshold is not None else {}),
        "phases": {name: round(share * per_thousand, 4) for name, share in phases.shares().items()},
    }


def _figures(rounds: _Rounds, *, alone: bool) -> dict[str, float]:
    figures: dict[str, float] = {
        "pods": rounds.pods,
        "rounds": rounds.rounds,
        "pods_per_second": rounds.pods / rounds.seconds,
        "round_seconds": rounds.seconds / rounds.rounds,
    }
    # The last, broken second says nothing; a run shorter than that has no samples.
    whole = int(rounds.seconds)
    if whole:
        samples = np.histogram(rounds.moments, bins=whole, range=(0, whole))[0]
        figures["sample_p50"], figures["sample_p99"] = (float(np.percentile(samples, share)) for share in (50, 99))
    figures["cpu_per_1000"] = rounds.cpu_seconds / rounds.pods * 1000
    figures["core_share"] = rounds.cpu_until_bound / rounds.seconds
    figures["cpu_with_list_per_1000"] = (rounds.cpu_seconds + sum(rounds.sync_cpus)) / rounds.pods * 1000
    if rounds.server_cpu_seconds is not None:
        figures["server_cpu_per_1000"] = rounds.server_cpu_seconds / rounds.pods * 1000
    if rounds.attempts:
        p50, p99 = np.percentile(rounds.attempts, [50, 99])
        figures["attempts_per_pod"] = len(rounds.attempts) / rounds.pods
        figures["attempt_p50_ms"], figures["attempt_p99_ms"] = float(p50) * 1e3, float(p99) * 1e3
    figures["sync_seconds"] = max(rounds.syncs)
    figures["first_bind_seconds"] = max(rounds.first_binds)
    # With the server in this process the figures are both's.
    suffix = "" if alone else "_with_server"
    return {**figures, **{f"{name}{suffix}": value for name, value in rounds.memory.items()}}


def calibrate() -> float:
    """Return the CPU time of some work that is always the same, in seconds: figures are held against it."""
    begun = time.process_time()
    table = {number: str(number) for number in range(_ENTRIES)}
    column = np.arange(_ENTRIES, dtype=np.int64)
    total = sum(len(table[number]) for number in range(_ENTRIES)) + sum(int((column * 3 % 7).sum()) for _ in range(20))
    assert total
    return time.process_time() - begun


def memory_of(process: int | str) -> dict[str, float]:
    """Return what a process, by its id or `self`, takes and took at most, in MiB."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    values = {name: line.split()[1] for line in lines if (name := line.split(":")[0]) in ("VmHWM", "VmRSS")}
    return {"peak_mib": int(values["VmHWM"]) / 1024, "resident_mib": int(values["VmRSS"]) / 1024}


def measure(setting: Setting, *, short: bool) -> dict[str, Any]:
    """Measure a case; `short` plays one round, however little that is."""
    with rare_collections():
        return asyncio.run(played(setting, short=short))
