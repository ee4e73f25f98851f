"""The calls of plugins for pods of one equivalence class at PreFilter or PreScore; recorded once, then repeated.

A cached plugin either skips the pod or passes it, and writes the same data into the cycle state for every pod of the
class. A plugin whose answers must not be reused (`Reuse.NEVER`) is called for each pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

from pyscheduler.framework.reuse import Reuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod

__all__ = ["CachedResult", "PluginTrace", "Steps"]


@attrs.frozen
class CachedResult:
    """The results of neighbouring cached plugins: skips, passes, and the data they write into the cycle state."""

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
Steps: TypeAlias = "Iterable[tuple[CachedResult, Sequence[PluginMethod]]]"


@attrs.define
class PluginTrace:
    """Records a phase. `skipped` collects who skips; `rejections()` changes when a plugin rejects the pod."""

    state: CycleState
    skipped: set[str]
    rejections: Callable[[], object]
    #: None until all plugins were called.
    steps: Steps | None = None
    #: False after a plugin broke its promise only to pass or skip pods.
    is_reusable: bool = True

    def record(self, methods: Sequence[PluginMethod]) -> Steps:
        """Iterate over the plugins. The caller calls each before it goes on, and breaks where one ends the phase."""
        nothing = CachedResult()
        steps: list[tuple[CachedResult, list[PluginMethod]]] = [(CachedResult(), [])]
        for method in methods:
            before, rejections = self.state.written(), self.rejections()
            yield nothing, (method,)
            if method.reuse is Reuse.NEVER:
                steps[-1][1].append(method)
                continue
            if steps[-1][1]:
                steps.append((CachedResult(), []))
            cached = steps[-1][0]
            if method.plugin in self.skipped:
                cached.skips.add(method.plugin)
            elif self.rejections() == rejections:
                cached.passes.append(method)
            else:
                self.is_reusable = False
            written = self.state.written()
            cached.data.update((key, value) for key, value in written.items() if before.get(key) is not value)
        if self.is_reusable:
            self.steps = steps
