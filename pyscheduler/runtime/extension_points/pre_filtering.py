"""PreFilter: each plugin checks the pod once, and may reject it, narrow the set of nodes, or skip its own Filter.

Source: kube-scheduler 1.36, `RunPreFilterPlugins`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.interfaces import PreFilterResult
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.extension_points.run_context import begin_context, context_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.extension_points.plugin_calls import PluginCalls, PluginMethod
    from pyscheduler.runtime.extension_points.run_context import RunContext

__all__ = ["PreFilterOutcome", "PreFiltering"]

_POINT = "PreFilter"
_SKIP = Code.SKIP


@attrs.define
class PreFilterOutcome:
    """The result of PreFilter, so far.

    `result` narrows the nodes (None: all nodes), `status` is a rejection or an error (None: go on), and `narrowed_by`
    names the plugins that narrowed: they count as rejecting the nodes they left out.
    """

    result: PreFilterResult | None = None
    status: Status | None = None
    narrowed_by: set[str] = attrs.Factory(set)


@attrs.frozen
class PreFiltering:
    """The PreFilter plugins of a profile, in its order; `add_pod` and `remove_pod` only of those that have them."""

    calls: PluginCalls
    methods: Sequence[PluginMethod]
    add_pod_methods: Sequence[PluginMethod]
    remove_pod_methods: Sequence[PluginMethod]
    #: The Filter plugins that say that they count pods across nodes.
    across: Collection[str] = ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes, *, sampled: bool) -> PreFilterOutcome:
        """Begin the cycle of `pod`: run all plugins and note which skip."""
        began = self.calls.clock.now()
        outcome = self._run(begin_context(state, sampled=sampled), state, pod, nodes)
        self.calls.point(_POINT, outcome.status, began)
        return outcome

    def _run(self, context: RunContext, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterOutcome:
        calls, sampled, outcome = self.calls, context.sampled, PreFilterOutcome()
        for method in self.methods:
            answer = calls.run(method, pod, state, pod, nodes, sampled=sampled)
            if isinstance(answer, Status) and answer.code == _SKIP:
                context.skip_filter.add(method.plugin)
                continue
            method.evaluations += 1
            if answer is None:
                continue
            if isinstance(answer, Status):
                code = answer.code
                if code == Code.UNSCHEDULABLE:
                    outcome.status = answer.with_plugin(method.plugin)
                elif code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    return PreFilterOutcome(status=answer.with_plugin(method.plugin))
                elif calls.status_of(method, pod, answer) is not None:
                    return PreFilterOutcome(status=calls.wrapped(method, pod, answer))
                continue
            if not isinstance(answer, PreFilterResult):
                return PreFilterOutcome(status=calls.wrong_type(method, pod, answer, "PreFilterResult, Status or None"))
            if answer.node_names is None:
                continue
            if not _is_set_of_names(answer.node_names):
                expected = "a set of node names (str) in its PreFilterResult"
                return PreFilterOutcome(status=calls.wrong_type(method, pod, answer.node_names, expected))
            outcome.narrowed_by.add(method.plugin)
            outcome.result = answer if outcome.result is None else outcome.result.merge(answer)
            if not outcome.result.node_names:
                outcome.status = _nothing_left(outcome.narrowed_by)
                break
        return outcome

    def counts_across_nodes(self, state: CycleState) -> bool:
        """Return True if a plugin that is active in this cycle counts pods across nodes."""
        skipped = context_of(state).skip_filter
        names = (method.plugin for method in (*self.add_pod_methods, *self.remove_pod_methods))
        return any(name not in skipped for name in (*names, *self.across))

    def add_pod(self, state: CycleState, pod: Pod, to_add: PodInfo, node: NodeInfo) -> Status | None:
        """Notify the plugins that `to_add` was put on `node`; return the first failure as an error."""
        return self._update(self.add_pod_methods, state, pod, to_add, node)

    def remove_pod(self, state: CycleState, pod: Pod, to_remove: PodInfo, node: NodeInfo) -> Status | None:
        """Notify the plugins that `to_remove` was taken off `node`; return the first failure as an error."""
        return self._update(self.remove_pod_methods, state, pod, to_remove, node)

    def _update(
        self,
        methods: Sequence[PluginMethod],
        state: CycleState,
        pod: Pod,
        other: PodInfo,
        node: NodeInfo,
    ) -> Status | None:
        context = context_of(state)
        for method in methods:
            if method.plugin in context.skip_filter:
                continue
            answer = self.calls.run(method, pod, state, pod, other, node, sampled=context.sampled)
            status = self.calls.status_of(method, pod, answer)
            if status is not None:
                return self.calls.wrapped(method, pod, status)
        return None


def _is_set_of_names(names: object) -> bool:
    """Return True for a set whose first element is a text; to look at all of them would take long."""
    return isinstance(names, AbstractSet) and isinstance(next(iter(names), ""), str)


def _nothing_left(narrowed: AbstractSet[str]) -> Status:
    if len(narrowed) == 1:
        message = f"node(s) didn't satisfy plugin {next(iter(narrowed))}"
    else:
        message = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowed))}] simultaneously"
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, message)
