"""Call one plugin for a pod at PreFilter, Filter, PreScore and Score, and collect its answers for each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.interfaces import FilterPlugin, NodeScore, PreFilterResult, ScorePlugin
from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.framework.status import Status
from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod
from pyscheduler.runtime.extension_points.points import defines, is_columnar
from pyscheduler.runtime.extension_points.run_context import begin_context, context_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.runtime.extension_points.plugin_calls import PluginCalls
    from pyscheduler.runtime.profile import Profile

__all__ = ["Answers", "PluginAnswers", "difference"]

#: What the plugin answers, by question: (`PreFilter`, "") or (`Filter`, node) ... Values are texts and numbers.
Answers: TypeAlias = "Mapping[tuple[str, str], object]"


@attrs.define
class _Question:
    """A pod and the nodes asked about, and the state that one attempt would have."""

    pod: Pod
    nodes: Nodes
    state: CycleState
    found: dict[tuple[str, str], object] = attrs.Factory(dict)


class PluginAnswers:
    """Asks one plugin of a profile at PreFilter, Filter, PreScore and Score, without the other plugins."""

    def __init__(self, profile: Profile, name: str) -> None:
        self.plugin: Plugin = profile.plugins[name]
        self.name = name
        self.profile = profile
        points = profile.points
        self._at = frozenset(point for point, names in points.items() if name in names)
        self.calls: PluginCalls = profile._bound.filtering.calls  # noqa: SLF001 - the boundary, observed or not

    def takes_part(self, *points: ExtensionPoint) -> bool:
        """Return True if the plugin is enabled at one of the points."""
        return not self._at.isdisjoint(points)

    @property
    def has_both_forms(self) -> bool:
        """Return True if the plugin filters or scores both all nodes at once and one by one."""
        kind = type(self.plugin)
        return (
            ExtensionPoint.FILTER in self._at
            and defines(kind, FilterPlugin, "filter")
            and defines(kind, FilterPlugin, "filter_nodes")
        ) or (
            ExtensionPoint.SCORE in self._at
            and defines(kind, ScorePlugin, "score")
            and defines(kind, ScorePlugin, "score_nodes")
        )

    def method(self, point: str, attribute: str) -> PluginMethod:
        """Return a method of the plugin, ready to be called."""
        running = f'running {point} plugin "{self.name}"'
        return PluginMethod(plugin=self.name, point=point, call=getattr(self.plugin, attribute), running=running)

    def call(self, point: str, attribute: str, pod: Pod, *arguments: object) -> object:
        """Call a method of the plugin; return an ERROR where it raised."""
        return self.calls.run(self.method(point, attribute), pod, *arguments)

    def begin(self, pod: Pod, nodes: Nodes) -> CycleState:
        """Return the state of a trial after the plugin's PreFilter."""
        state = CycleState(Trial(TrialKind.QUESTION))
        begin_context(state, sampled=False)
        if ExtensionPoint.PRE_FILTER in self._at:
            self.call("PreFilter", "pre_filter", pod, state, pod, nodes)
        return state

    def about(
        self,
        pod: Pod,
        nodes: Nodes,
        *,
        counted: Nodes | None = None,
        one_by_one: bool = False,
        scored: bool = True,
    ) -> Answers:
        """Return the answers about a pod on `nodes`; PreFilter counts the pods of `counted`, by default all of them.

        With `one_by_one`, the plugin's `filter` and `score` are called in place of the columnar forms. A plugin that
        fails gives an answer that begins with its error. Without `scored`, the plugin is not asked for scores.
        """
        state = CycleState(Trial(TrialKind.QUESTION))
        context = begin_context(state, sampled=False)
        question = _Question(pod, nodes, state)
        left = self._narrowed(question, counted if counted is not None else nodes)
        if left is None or not len(left):
            return question.found
        question.nodes = nodes = left
        alive = np.ones(len(nodes), dtype=np.bool_)
        if ExtensionPoint.FILTER in self._at and self.name not in context.skip_filter:
            alive = self._filter(question, one_by_one=one_by_one)
        if scored and ExtensionPoint.SCORE in self._at and alive.any():
            question.nodes = nodes if alive.all() else nodes.take(np.flatnonzero(alive))
            self._score(question, one_by_one=one_by_one)
        return question.found

    def _narrowed(self, question: _Question, counted: Nodes) -> Nodes | None:
        """Run PreFilter; return the nodes that are left, None after a rejection."""
        nodes, found = question.nodes, question.found
        if ExtensionPoint.PRE_FILTER not in self._at:
            return nodes
        answer = self.call("PreFilter", "pre_filter", question.pod, question.state, question.pod, counted)
        if isinstance(answer, Status) and not answer.is_success:
            found["PreFilter", ""] = str(answer)
            if not answer.is_skip:
                return None
            context_of(question.state).skip_filter.add(self.name)
        elif isinstance(answer, PreFilterResult) and answer.node_names is not None:
            found["PreFilter", ""] = sorted(answer.node_names)
            rows = [row for row in range(len(nodes)) if nodes.name(row) in answer.node_names]
            return nodes.take(np.array(rows, dtype=np.int64))
        return nodes

    def _filter(self, question: _Question, *, one_by_one: bool) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        pod, nodes, state, found = question.pod, question.nodes, question.state, question.found
        alive = np.ones(len(nodes), dtype=np.bool_)
        if is_columnar(type(self.plugin), ExtensionPoint.FILTER) and not one_by_one:
            answer = self.call("Filter", "filter_nodes", pod, state, pod, nodes)
            statuses = answer if isinstance(answer, NodeStatuses) and len(answer) == len(nodes) else None
            for row in range(len(nodes)):
                status = statuses.status(row) if statuses is not None else answer
                found["Filter", nodes.name(row)] = _text(status)
                alive[row] = status is None
            return alive
        for row, node in enumerate(nodes):
            status = self.call("Filter", "filter", pod, state, pod, node)
            found["Filter", node.name] = _text(status)
            alive[row] = status is None or (isinstance(status, Status) and status.is_success)
        return alive

    def _score(self, question: _Question, *, one_by_one: bool) -> None:
        pod, nodes, state, found = question.pod, question.nodes, question.state, question.found
        if ExtensionPoint.PRE_SCORE in self._at:
            status = self.call("PreScore", "pre_score", pod, state, pod, nodes)
            if status is not None:
                found["PreScore", ""] = _text(status)
                return
        columnar = is_columnar(type(self.plugin), ExtensionPoint.SCORE) and not one_by_one
        scores: object
        if columnar:
            scores = self.call("Score", "score_nodes", pod, state, pod, nodes)
            if not (isinstance(scores, np.ndarray) and scores.shape == (len(nodes),)):
                found["Score", ""] = _text(scores)
                return
            given: object = scores
        else:
            each = [self.call("Score", "score", pod, state, pod, node) for node in nodes]
            if not all(isinstance(score, int | np.integer) for score in each):
                found["Score", ""] = str(each)
                return
            given = [NodeScore(nodes.name(row), int(score)) for row, score in enumerate(each)]  # type: ignore[call-overload]  # checked above
        if defines(type(self.plugin), ScorePlugin, "normalize_scores"):
            self.call("ScoreExtensionNormalize", "normalize_scores", pod, state, pod, given)
        values = [each.score for each in given] if isinstance(given, list) else np.asarray(given).tolist()
        found.update({("Score", nodes.name(row)): value for row, value in enumerate(values)})


def difference(first: Answers, second: Answers, *, names: tuple[str, str]) -> tuple[str, str] | None:
    """Return the point and a text about the first question with different answers; None if all are equal."""
    for question in sorted({*first, *second}):
        one, other = first.get(question), second.get(question)
        if one != other:
            point, node = question
            about = f" about node {node}" if node else ""
            return point, f"{point}{about} answers {_short(one)} {names[0]}, but {_short(other)} {names[1]}"
    return None


def _text(answer: object) -> object:
    return str(answer) if answer is not None else None


def _short(answer: object) -> str:
    return "nothing" if answer is None else str(answer)
