"""PreFilter: every plugin looks at the pod once, may reject it, narrow the nodes, or bow out of this cycle.

A plain rejection does not end the phase, because preemption needs the state that all plugins write; one that preemption
cannot help ends it at once. Here too: keeping that state up to date when a what-if adds or removes a pod.
Source: kube-scheduler 1.36, `RunPreFilterPlugins`, `RunPreFilterExtensionAddPod`, `...RemovePod`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from itertools import repeat
from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.interfaces import PreFilterResult
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.equivalence_cache.classes import PluginTrace
from pyscheduler.runtime.run_context import begin_context, context_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.equivalence_cache.classes import CachedResult, EquivalenceClass, EquivalenceClasses
    from pyscheduler.runtime.plugin_calls import PluginCalls, PluginMethod

__all__ = ["PreFilterOutcome", "PreFiltering"]

_POINT = "PreFilter"
_SKIP = Code.SKIP
_NOBODY: frozenset[str] = frozenset()


@attrs.define
class PreFilterOutcome:
    """What PreFilter came to.

    `result` narrows the nodes (None: all nodes), `status` is a rejection or an error (None: go on), and `narrowed_by`
    names the plugins that narrowed: they count as rejecting the nodes they left out.
    """

    result: PreFilterResult | None
    status: Status | None
    narrowed_by: frozenset[str]


@attrs.frozen
class PreFiltering:
    """The PreFilter plugins of a profile, in its order; `add_pod` and `remove_pod` only of those that have them."""

    calls: PluginCalls
    methods: Sequence[PluginMethod]
    add_pod_methods: Sequence[PluginMethod]
    remove_pod_methods: Sequence[PluginMethod]
    #: Keeps what can be kept between pods that ask the same; None where nothing is.
    memories: EquivalenceClasses | None = None
    #: Plugins' `may_reuse`, of those that have it.
    reuse_methods: Sequence[PluginMethod] = ()

    def run(self, state: CycleState, pod: Pod, nodes: Nodes, *, sampled: bool) -> PreFilterOutcome:
        """Begin the cycle of `pod`: run all plugins, note who skips."""
        began = self.calls.clock.now()
        skipped: set[str] = set()
        context = begin_context(state, sampled=sampled)
        context.is_reusable = all(self.calls.run(each, pod, pod) is True for each in self.reuse_methods)
        memory: EquivalenceClass | None = None
        if context.is_reusable and self.memories is not None:
            memory = context.memory = self.memories.of(pod)
        known = memory.pre_filter if memory is not None else None
        lesson = PluginTrace(self.calls, state) if memory is not None and known is None else None
        outcome = self._run(state, pod, nodes, skipped, known, lesson, sampled=sampled)
        if memory is not None and lesson is not None:
            memory.pre_filter = lesson.learned(memory, self.methods)
        if skipped:
            context.skip_filter = skipped
        self.calls.point(_POINT, outcome.status, began)
        return outcome

    def _run(
        self,
        state: CycleState,
        pod: Pod,
        nodes: Nodes,
        skipped: set[str],
        known: Sequence[CachedResult | None] | None,
        lesson: PluginTrace | None,
        *,
        sampled: bool,
    ) -> PreFilterOutcome:
        """Ask the plugins, but for those of which it is `known` what they do; tell the `lesson` what they did."""
        calls = self.calls
        result: PreFilterResult | None = None
        rejection: Status | None = None
        narrowed: list[str] = []
        ask = calls.run if lesson is None else lesson.run
        for method, step in zip(self.methods, known or repeat(None)):  # noqa: B905 - the one that repeats has no end
            if step is not None:
                step.repeat(method, state, skipped)
                continue
            answer = ask(method, pod, state, pod, nodes, sampled=sampled)
            if isinstance(answer, Status) and answer.code == _SKIP:
                skipped.add(method.plugin)
                continue
            method.evaluations += 1
            if answer is None:
                continue
            if isinstance(answer, Status):
                code = answer.code
                if code == Code.UNSCHEDULABLE:
                    rejection = answer.with_plugin(method.plugin)
                elif code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    return PreFilterOutcome(None, answer.with_plugin(method.plugin), _NOBODY)
                elif code != Code.SUCCESS:
                    return PreFilterOutcome(None, calls.wrapped(method, answer), _NOBODY)
                continue
            wrong = self._wrong(method, pod, answer)
            if wrong is not None:
                return PreFilterOutcome(None, wrong, _NOBODY)
            assert isinstance(answer, PreFilterResult), "nothing else is right"
            if answer.node_names is None:
                continue
            narrowed.append(method.plugin)
            result = answer if result is None else result.merge(answer)
            if not result.node_names:
                return PreFilterOutcome(result, _nothing_left(narrowed), frozenset(narrowed))
        return PreFilterOutcome(result, rejection, frozenset(narrowed))

    def _wrong(self, method: PluginMethod, pod: Pod, answer: object) -> Status | None:
        """Return the ERROR for an answer that should narrow the nodes, and is nothing that could."""
        if not isinstance(answer, PreFilterResult):
            return self.calls.wrong_type(method, pod, answer, "PreFilterResult, Status or None")
        if answer.node_names is not None and not _is_set(answer.node_names):
            expected = "a set of node names in its PreFilterResult"
            return self.calls.wrong_type(method, pod, answer.node_names, expected)
        return None

    def follows(self, state: CycleState) -> bool:
        """Tell whether a plugin that is active in this cycle keeps an account of pods across nodes."""
        skipped = context_of(state).skip_filter
        return any(method.plugin not in skipped for method in (*self.add_pod_methods, *self.remove_pod_methods))

    def add_pod(self, state: CycleState, pod: Pod, to_add: PodInfo, node: NodeInfo) -> Status | None:
        """Tell the plugins that `to_add` was put on `node`; return the first failure as an error."""
        return self._update(self.add_pod_methods, state, pod, to_add, node)

    def remove_pod(self, state: CycleState, pod: Pod, to_remove: PodInfo, node: NodeInfo) -> Status | None:
        """Tell the plugins that `to_remove` was taken off `node`; return the first failure as an error."""
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
                return self.calls.wrapped(method, status)
        return None


def _is_set(names: object) -> bool:
    return isinstance(names, AbstractSet)


def _nothing_left(narrowed: Sequence[str]) -> Status:
    if len(narrowed) == 1:
        message = f"node(s) didn't satisfy plugin {narrowed[0]}"
    else:
        message = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowed))}] simultaneously"
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, message)
