"""What plugins do with a pod at PreFilter or PreScore: recorded once for an equivalence class, then replayed.

A cached plugin either skips the pod or passes it, and writes the same data into the cycle state for every pod of the
class. A plugin that makes no promise (`Reuse.NEVER`) is called for each pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.interfaces import PreFilterResult
from pyscheduler.framework.reuse import Reuse
from pyscheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.runtime.plugin_calls import PluginCalls, PluginMethod

__all__ = ["CachedResult", "PluginTrace", "Replay"]


@attrs.frozen
class CachedResult:
    """The answer of a plugin (None: pass; else a SKIP), and the data that it wrote into the cycle state."""

    answer: Status | None
    data: Mapping[str, object]


@attrs.frozen
class Replay:
    """Calls plugins, except for those whose `results` are known."""

    calls: PluginCalls
    results: Mapping[PluginMethod, CachedResult]

    def call(self, method: PluginMethod, pod: Pod, *args: object, sampled: bool = False) -> object:
        """Repeat what the plugin did, or call it; `args` begin with the cycle state."""
        result = self.results.get(method)
        if result is None:
            return self.calls.run(method, pod, *args, sampled=sampled)
        if result.data:
            state: CycleState = args[0]  # type: ignore[assignment]  # as for all methods of these two phases
            state.write_all(result.data)
        return result.answer


class PluginTrace:
    """Calls the plugins of a phase for one pod, and records what they do."""

    __slots__ = ("_calls", "_results", "_state", "_uncached", "is_reusable")

    def __init__(self, calls: PluginCalls, state: CycleState) -> None:
        self._calls = calls
        self._state = state
        self._results: dict[PluginMethod, CachedResult] = {}
        self._uncached = 0
        #: False after a plugin broke its promise only to pass or skip pods.
        self.is_reusable = True

    def call(self, method: PluginMethod, pod: Pod, *args: object, sampled: bool = False) -> object:
        """Call a plugin and record the result."""
        if method.reuse is Reuse.NEVER:
            self._uncached += 1
            return self._calls.run(method, pod, *args, sampled=sampled)
        before = self._state.written()
        answer = self._calls.run(method, pod, *args, sampled=sampled)
        skip = answer if isinstance(answer, Status) and answer.code == Code.SKIP else None
        if skip is None and not _passes(answer):
            self.is_reusable = False
        data = {key: value for key, value in self._state.written().items() if before.get(key) is not value}
        self._results[method] = CachedResult(skip, data)
        return answer

    def replay(self, methods: Sequence[PluginMethod]) -> Replay | None:
        """Return what replays the trace; None where a rejection kept some of `methods` from being called."""
        is_complete = self._uncached + len(self._results) == len(methods)
        return Replay(self._calls, self._results) if is_complete and self.is_reusable else None


def _passes(answer: object) -> bool:
    if isinstance(answer, PreFilterResult):
        return answer.node_names is None
    return answer is None or (isinstance(answer, Status) and answer.code == Code.SUCCESS)
