"""Log the contents of cache and queue, and compare them with the API server.

Differs from kube-scheduler, which compares the cache only with the informers' copies.
Source: kube-scheduler 1.36, `backend/cache/debugger`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Final

import msgspec

from pyscheduler.api import Node, Pod
from pyscheduler.framework.errors import PySchedulerError
from pyscheduler.scheduler.informers import LIVE_PODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["DebugSignal", "Debugger"]

_log = logging.getLogger(__name__)

#: The number of lines after which the loop yields.
_CHUNK: Final = 50
#: The time between the two comparisons, in seconds.
_RETRY_SECONDS: Final = 2.0
#: The most names in a log line about one kind of difference.
_MOST_NAMES: Final = 100


class Debugger:
    """Dumps and compares the state of one scheduler on request."""

    def __init__(self, scheduler: Scheduler) -> None:
        # The dump is logged at every verbosity. Not at import: the set-up of logging may follow.
        _log.setLevel(logging.INFO)
        self._scheduler = scheduler
        self._task: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Start a dump and a comparison; do nothing if one is under way."""
        if self._task is not None and not self._task.done():
            _log.info("A dump of cache and queue is under way already")
            return
        self._task = asyncio.create_task(self._look(), name="debugger")

    async def stop(self) -> None:
        """Cancel a dump or a comparison that is under way; idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _look(self) -> None:
        try:
            await self.dump()
            await self.compare()
        except PySchedulerError as error:
            self._scheduler.recorder.warning("cache_compare_failed")
            _log.warning("Cache comparer failed err=%s", error)
        except Exception:  # noqa: BLE001 - the debugger must not disturb the scheduler
            self._scheduler.recorder.warning("cache_compare_failed")
            _log.exception("Cache comparer failed")

    # The scheduler's state

    async def dump(self) -> None:
        """Log the contents of the cache and the queue."""
        cache, queue = self._scheduler.cache, self._scheduler.queue
        _log.info(
            "Dump of cached NodeInfo nodes=%d pods=%d assumed=%d",
            cache.node_count,
            cache.pod_count,
            cache.assumed_count,
        )
        await _log_each("Dump of cached NodeInfo", cache.dump())
        counts = queue.sub_queues.counts()
        unschedulable = counts["unschedulable"] + counts["gated"]
        summary = f"activeQ:{counts['active']}; backoffQ:{counts['backoff']}; unschedulablePods:{unschedulable}"
        if "held" in counts:
            summary += f"; heldPods:{counts['held']}"
        _log.info("Dump of scheduling queue summary=%s", summary)
        await _log_each("Dump of scheduling queue", queue.dump())

    # Comparison with the API server

    async def compare(self) -> None:
        """Compare cache and queue with the API server's lists, and log the differences.

        Raises the error of a list that fails.
        """
        _log.info("Cache comparer started")
        found = await self._differences()
        if any(found.values()):
            await self._scheduler.clock.sleep(_RETRY_SECONDS)
            later = await self._differences()
            found = {
                kind: {each: items[each] for each in items if each in later[kind]} for kind, items in found.items()
            }
        for what in ("Nodes", "Pods"):
            missed, redundant = found[f"missed{what}"].values(), found[f"redundant{what}"].values()
            if missed or redundant:
                where = f"missed{what}=%s redundant{what}=%s"
                _log.warning(f"Cache mismatch {where}", _names(missed), _names(redundant))
        mismatch = any(found.values())
        if mismatch:
            self._scheduler.recorder.warning("cache_mismatch")
        _log.info("Cache comparer finished mismatch=%s", str(mismatch).lower())

    async def _differences(self) -> Mapping[str, Mapping[str, str]]:
        """List once and compare; return what only the API server has (missed) and what only the scheduler has.

        Nodes by name; pods by uid, as `namespace/name(uid)`. Each list is compared when it is complete.
        """
        scheduler = self._scheduler
        listed_nodes: set[str] = set()
        async for nodes in scheduler.client.pages(Node):
            listed_nodes.update(node.name for node in nodes)
        known_nodes = scheduler.cache.node_names()
        all_pods: dict[str, str] = {}
        ours: dict[str, str] = {}
        async for pods in scheduler.client.pages(Pod, field_selector=LIVE_PODS):
            for pod in pods:
                all_pods[pod.uid] = pod.key
                if self._is_ours(pod):
                    ours[pod.uid] = pod.key
        cached = scheduler.cache.pod_keys()
        queued = {pod.uid: pod.key for pod in scheduler.queue.pending_pods()}
        unreadable, place_of = scheduler.handlers.unreadable_pods, scheduler.queue.place_of
        missed_pods = {
            uid: key
            for uid, key in ours.items()
            if uid not in cached and uid not in unreadable and place_of(uid) is None
        }
        redundant_pods = {uid: key for uid, key in (cached | queued).items() if uid not in all_pods}
        return {
            "missedNodes": {name: name for name in listed_nodes - known_nodes},
            "redundantNodes": {name: name for name in known_nodes - listed_nodes},
            "missedPods": {uid: f"{key}({uid})" for uid, key in missed_pods.items()},
            "redundantPods": {uid: f"{key}({uid})" for uid, key in redundant_pods.items()},
        }

    def _is_ours(self, pod: Pod) -> bool:
        """Return True if the scheduler must know the pod: the pod is on a node, or must be scheduled."""
        if pod.node_name:
            return True
        # A pod that is being deleted is not scheduled.
        return pod.scheduler_name in self._scheduler.handlers.profiles and not pod.metadata.deletion_timestamp


async def _log_each(message: str, entries: Iterable[Mapping[str, object]]) -> None:
    """Log a line for each entry, and yield between chunks."""
    for number, entry in enumerate(entries, 1):
        places = " ".join(f"{name}=%s" for name in entry)
        _log.info(f"{message} {places}", *map(_text, entry.values()))
        if number % _CHUNK == 0:
            await asyncio.sleep(0)


class DebugSignal:
    """Handles SIGUSR2 from its creation, inside a running event loop, until `stop`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._debugger = Debugger(scheduler)
        self._loop = asyncio.get_running_loop()
        try:
            # Not loop.add_signal_handler, which would take the signals from the watchdog.
            signal.signal(signal.SIGUSR2, self._hear)
        except (ValueError, AttributeError):
            # The system has no such signal, or this is not the main thread (in some tests).
            self._answers = False
        else:
            self._answers = True

    def _hear(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._debugger.look)

    async def stop(self) -> None:
        """Restore the default handler and cancel a dump that is under way; idempotent."""
        if self._answers:
            self._answers = False
            signal.signal(signal.SIGUSR2, signal.SIG_DFL)
        await self._debugger.stop()


def _text(value: object) -> str:
    """Write a value: `a:1 b:2` and `[a b]` as in Go's logs, everything else as in JSON."""
    if isinstance(value, dict):
        return " ".join(f"{name}:{amount}" for name, amount in value.items())
    if isinstance(value, list):
        return f"[{' '.join(map(str, value))}]"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _names(names: Iterable[str]) -> str:
    """Format names as Go formats a slice; of very many, the first ones and their number."""
    found = sorted(names)
    more = [f"... {len(found)} in all"] if len(found) > _MOST_NAMES else []
    return f"[{' '.join([*found[:_MOST_NAMES], *more])}]"
