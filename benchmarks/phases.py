"""Measure the CPU time of a scheduler by phase (queue, filters, binding ...), from samples of the call stack."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

__all__ = ["ORDER", "Phases", "sampled"]

_INTERVAL_SECONDS: Final = 0.001
_ROOT: Final = f"{Path(__file__).parents[1]}/"

#: Phases by file or folder.
_FILES: Final = {
    "packages/kube-testserver/kube_testserver/": "server",
    "packages/kube-objects/kube_objects/codec.py": "decode",
    "pyscheduler/cluster/real/write_connections.py": "http",
    "pyscheduler/cluster/real/informer.py": "informer",
    "pyscheduler/cluster/real/local_copy.py": "informer",
    "pyscheduler/cluster/real/event_writer.py": "events",
    "pyscheduler/cluster/real/events.py": "events",
    "pyscheduler/queue/": "queue",
    "pyscheduler/cache/cache.py": "cache",
    "pyscheduler/scheduler/event_handlers.py": "cache",
    "pyscheduler/runtime/placement.py": "cycle",
    "pyscheduler/scheduler/scheduling_cycle.py": "cycle",
    "pyscheduler/scheduler/scheduler.py": "cycle",
    "pyscheduler/scheduler/work.py": "cycle",
    "pyscheduler/scheduler/queued_pods.py": "cycle",
    "pyscheduler/scheduler/group_cycle.py": "cycle",
    "pyscheduler/scheduler/group_commit.py": "cycle",
    "pyscheduler/scheduler/binding_cycle.py": "binding cycle",
    "pyscheduler/scheduler/failure.py": "failure",
    "pyscheduler/scheduler/pod_status.py": "pod status",
    "pyscheduler/runtime/preemption/eviction.py": "PostFilter",
    "pyscheduler/runtime/permit/waiting_pods.py": "Permit",
    "pyscheduler/telemetry/": "metrics",
    "pyscheduler/podgroup/": "background",
    "plugins/": "background",
    "benchmarks/": "benchmark",
}
#: What a sample belongs to where nothing else is under way: plugins are, at their extension points.
_REST: Final = frozenset({"background", "http"})
#: Phases by function, wherever it is.
_FUNCTIONS: Final = {
    "Cache.update_snapshot": "snapshot",
    "Profile.run_pre_enqueue": "PreEnqueue",
    "Profile.run_pre_filter": "PreFilter",
    "EquivalenceCache.find_feasible": "Filter",
    "Filtering.find_feasible": "Filter",
    "Filtering.run_filters": "Filter",
    "PostFiltering.run": "PostFilter",
    "EquivalenceCache.pre_score": "PreScore",
    "PreScoring.pre_score": "PreScore",
    "EquivalenceCache.rank": "Score",
    "Scoring.score": "Score",
    "Reserving.reserve": "Reserve",
    "Profile.run_unreserve": "Reserve",
    "Permitting.run": "Permit",
    "Profile.wait_on_permit": "Permit",
    "PreBinding.pre_flight": "PreBind",
    "Profile.run_pre_bind": "PreBind",
    "Binding.bind": "Bind",
    "Profile.run_post_bind": "PostBind",
}
#: How phases follow each other on a pod's way; those that are not met are left out.
ORDER: Final = (
    "decode",
    "informer",
    "cache",
    "PreEnqueue",
    "queue",
    "snapshot",
    "cycle",
    "PreFilter",
    "Filter",
    "PostFilter",
    "PreScore",
    "Score",
    "Reserve",
    "Permit",
    "binding cycle",
    "PreBind",
    "Bind",
    "PostBind",
    "failure",
    "pod status",
    "events",
    "background",
    "metrics",
    "http",
    "event loop",
    "server",
    "benchmark",
)


_TURN: Final = asyncio.BaseEventLoop._run_once.__code__  # type: ignore[attr-defined]  # noqa: SLF001 - where each turn of the loop begins


class Phases:
    """Samples, and the CPU time that they stand for, in seconds."""

    def __init__(self) -> None:
        self.samples: Counter[str] = Counter()
        self.cpu_seconds = 0.0
        self._known: dict[CodeType, str] = {}

    def shares(self) -> dict[str, float]:
        """Return the share of each phase, in the order of a pod's way."""
        total = self.samples.total() or 1
        return {name: self.samples[name] / total for name in ORDER if self.samples[name]}

    def look(self, _number: int, frame: FrameType | None) -> None:
        """Take a sample."""
        self.samples[self._phase(frame)] += 1

    def _phase(self, frame: FrameType | None) -> str:
        found = rest = ""
        # Beneath the event loop is only what runs it.
        while frame is not None and frame.f_code is not _TURN:
            code = frame.f_code
            phase = self._known.get(code)
            if phase is None:
                phase = self._known[code] = _phase_of(code)
            if phase in _REST:
                rest = phase
            elif phase == "PostFilter":
                return phase
            elif phase and not found:
                found = phase
            frame = frame.f_back
        return found or rest or "event loop"


def _phase_of(code: CodeType) -> str:
    """Return the phase of one frame; "" where it says nothing."""
    if "/aiohttp/" in code.co_filename:
        return "http"
    name = code.co_filename.removeprefix(_ROOT)
    phase = _FUNCTIONS.get(code.co_qualname)
    if phase is not None:
        return phase
    for place, phase in _FILES.items():
        if name.startswith(place):
            return phase
    return ""


@contextmanager
def sampled(phases: Phases) -> Iterator[None]:
    """Add samples of the main thread while the block runs."""
    begun = time.process_time()
    before = signal.signal(signal.SIGPROF, phases.look)
    signal.setitimer(signal.ITIMER_PROF, _INTERVAL_SECONDS, _INTERVAL_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        phases.cpu_seconds += time.process_time() - begun
