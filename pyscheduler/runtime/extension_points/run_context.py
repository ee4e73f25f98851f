"""The runtime's data for one scheduling cycle, for example the plugins to skip at Filter or Score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.runtime.equivalence_cache.classes import EquivalenceClass
    from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod

__all__ = ["CycleInput", "RunContext", "begin_context", "context_of"]

_NOBODY: Final[frozenset[str]] = frozenset()


class RunContext:
    """The notes on one cycle; sets hold plugin names."""

    __slots__ = (
        "bound_by",
        "equivalence_class",
        "feasible",
        "in_pre_bind",
        "parallel_pre_bind",
        "sampled",
        "skip_filter",
        "skip_pre_bind",
        "skip_score",
    )

    def __init__(self, *, sampled: bool = False) -> None:
        #: Whether the times of single plugins are taken in this cycle.
        self.sampled = sampled
        #: Answered Skip at PreFilter, PreScore and PreBindPreFlight.
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: AbstractSet[str] = _NOBODY
        #: Allowed their PreBind to run beside others'.
        self.parallel_pre_bind: AbstractSet[str] = _NOBODY
        #: The Bind plugin that returned success.
        self.bound_by: PluginMethod | None = None
        #: The PreBind plugin that is at work, or the first of several.
        self.in_pre_bind: PluginMethod | None = None
        #: The notes of the equivalence cache: the pod's class, and int64[k], the rows that were found feasible.
        self.equivalence_class: EquivalenceClass | None = None
        self.feasible: NDArray[np.int64] | None = None


@attrs.define
class CycleInput:
    """The input of Filter and Score: a pod, nodes, and the state of the cycle."""

    context: RunContext
    state: CycleState
    pod: Pod
    nodes: Nodes


def begin_context(state: CycleState, *, sampled: bool) -> RunContext:
    """Start the notes of a cycle afresh."""
    context = state._run = RunContext(sampled=sampled)  # noqa: SLF001 - the slot is kept for the runtime
    return context


def context_of(state: CycleState) -> RunContext:
    """Return the notes; a state that no PreFilter has seen (one that a plugin made) gets blank ones."""
    context = state._run  # noqa: SLF001 - the slot is kept for the runtime
    return context if isinstance(context, RunContext) else begin_context(state, sampled=False)
