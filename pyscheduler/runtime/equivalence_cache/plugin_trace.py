"""What plugins do with the pods of one equivalence class at PreFilter or PreScore; recorded once, then repeated.

A cached plugin either skips the pod or passes it, and writes the same data into the cycle state for every pod of the
class. A plugin that makes no promise (`Reuse.NEVER`) is called for each pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

from pyscheduler.framework.reuse import Reuse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.runtime.plugin_calls import PluginMethod

__all__ = ["CachedResult", "CachedResults", "PluginTrace"]


@attrs.frozen
class CachedResult:
    """What neighbouring cached plugins do: who skips, who passes, and the data they write into the cycle state."""

    skips: set[str] = attrs.Factory(set)
    passes: list[PluginMethod] = attrs.Factory(list)
    data: dict[str, object] = attrs.Factory(dict)

    def repeat(self, state: CycleState, skipped: set[str]) -> None:
        """Do what the plugins would do, and count their evaluations."""
        skipped |= self.skips
        for method in self.passes:
            method.evaluations += 1
        if self.data:
            state.write_all(self.data)


#: A phase in order: each cached result is followed by plugins that are called for every pod.
CachedResults: TypeAlias = "Sequence[tuple[CachedResult, Sequence[PluginMethod]]]"


class PluginTrace:
    """Records a phase: call `begin` and `end` around the call of each plugin. `skipped` collects who skips."""

    __slots__ = ("_before", "_results", "_skipped", "_state", "is_reusable")

    def __init__(self, state: CycleState, skipped: set[str]) -> None:
        self._state = state
        self._skipped = skipped
        self._before: Mapping[str, object] = {}
        self._results: list[tuple[CachedResult, list[PluginMethod]]] = [(CachedResult(), [])]
        #: False after a plugin broke its promise only to pass or skip pods.
        self.is_reusable = True

    @property
    def results(self) -> CachedResults:
        """Return what was recorded."""
        return self._results

    def begin(self, method: PluginMethod) -> None:
        """Note the cycle state before a plugin is called."""
        if method.reuse is not Reuse.NEVER:
            self._before = self._state.written()

    def end(self, method: PluginMethod, *, passed: bool) -> None:
        """Record what a plugin did that skipped, `passed`, or rejected the pod."""
        cached, called = self._results[-1]
        if method.reuse is Reuse.NEVER:
            called.append(method)
            return
        if called:
            cached = CachedResult()
            self._results.append((cached, []))
        if method.plugin in self._skipped:
            cached.skips.add(method.plugin)
        elif passed:
            cached.passes.append(method)
        else:
            self.is_reusable = False
        before = self._before
        cached.data.update((key, value) for key, value in self._state.written().items() if before.get(key) is not value)
