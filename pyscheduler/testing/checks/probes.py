"""Check a plugin at each scheduling attempt of a pod, on the snapshot of that attempt.

The plugin is called in several ways, for example with and without a cache. The answers must be equal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
import numpy as np

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.interfaces import SignPlugin
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.framework.reuse import Reuse
from pyscheduler.framework.status import MAX_SCORE, MIN_SCORE, Status
from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.runtime.extension_points.signing import SCHEDULER_NAME, Signing
from pyscheduler.runtime.placement import PlacementPipeline
from pyscheduler.testing.checks.answers import PluginAnswers, difference
from pyscheduler.testing.checks.plugin_calls import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.runtime.placement import Placement
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.testing.checks.answers import Answers
    from pyscheduler.testing.checks.observation import Observation

__all__ = ["ProbingPipeline"]

_METHODS = {
    "PreFilter": ("pre_filter",),
    "Filter": ("filter_nodes", "filter"),
    "PreScore": ("pre_score",),
    "Score": ("score_nodes", "score"),
    "Reason": ("filter_nodes",),
    "Total": ("score_nodes",),
}
#: How often a pod is reserved and unreserved: more often than small clusters have room for a pod that stays in a book.
_RESERVATIONS = 12
#: More attempts than that in one step are no progress: a step concerns some ten pods for eleven seconds.
_MOST_ATTEMPTS = 200


@attrs.define(kw_only=True)
class ProbingPipeline(PlacementPipeline):
    """Searches as its base class, after the questions to the plugin."""

    seen: Observation
    probes: Probes

    async def find_node(
        self,
        profile: Profile,
        state: CycleState,
        pod: Pod,
        **keywords: Any,
    ) -> Placement:
        """Ask the plugin about a pod that is scheduled for real, then return the node for it."""
        is_real = keywords.get("observer") is None and state.trial is None and profile is self.probes.profile
        self.probes.count_attempt(is_real=is_real)
        if is_real and keywords.get("nodes") is None and len(self.snapshot.nodes):
            self.probes.run(pod)
        try:
            placement = await PlacementPipeline.find_node(self, profile, state, pod, **keywords)
        except FitError as error:
            # By name and now: rows of later snapshots are others.
            self.probes.rejections[pod.uid] = dict(error.diagnosis.node_statuses.items())
            raise
        except PluginError as error:
            if error.plugin == self.seen.plugin and "invalid score" in str(error):
                self.seen.add("scores", self.probes.place("Score"), f"for pod {pod.key}, {error}")
            raise
        if is_real:
            # If this attempt fails, it fails at Reserve or later.
            self.probes.rejections.pop(pod.uid, None)
        return placement


class Probes:
    """The questions about one plugin. `rejections`: by uid, why each node failed, if the last attempt found none."""

    def __init__(self, profile: Profile, seen: Observation, stop: Callable[[], object] = lambda: None) -> None:
        self.profile = profile
        #: Ends the scheduling loop.
        self.stop = stop
        #: How many pods were tried in this step.
        self.attempts = 0
        self.seen = seen
        self.answers = PluginAnswers(profile, seen.plugin)
        self.rejections: dict[str, dict[str, Status]] = {}

    def count_attempt(self, *, is_real: bool) -> None:
        """Stop the scheduler after the first finding, and if pods are tried again and again within one step."""
        self.attempts += is_real
        if self.attempts > _MOST_ATTEMPTS:
            what = f"pods were tried over {_MOST_ATTEMPTS} times in one step, as if they activated each other for ever"
            self.seen.add("blocking", f"{self.seen.plugin} at PreFilter or Unreserve", what)
        if self.seen.findings:
            self.stop()

    def place(self, point: str) -> str:
        """Return where the plugin's method of an extension point is."""
        plugin = self.answers.plugin
        for name in _METHODS.get(point, (point,)):
            method = getattr(plugin, name, None)
            if method is not None and getattr(type(plugin), name).__module__.split(".")[:2] != [
                "pyscheduler",
                "framework",
            ]:
                return describe(method, self.seen.plugin)
        return f"{self.seen.plugin} at {point}"

    def run(self, pod: Pod) -> None:
        """Ask all questions about a pod on the nodes of the snapshot."""
        seen, nodes = self.seen, self.profile.snapshot.nodes
        if not self.answers.takes_part(
            ExtensionPoint.PRE_FILTER,
            ExtensionPoint.FILTER,
            ExtensionPoint.PRE_SCORE,
            ExtensionPoint.SCORE,
            ExtensionPoint.RESERVE,
        ):
            return
        answers = self.answers.about(pod, nodes)
        self._check_scores(pod, answers)
        self._expect_equal("earlier-pods", answers, self.answers.about(pod, nodes), ("once", "when asked again"), pod)
        if seen.wants("node-order"):
            mixed = nodes.take(np.arange(len(nodes) - 1, -1, -1, dtype=np.int64))
            other = self.answers.about(pod, mixed, counted=mixed)
            self._expect_equal(
                "node-order", answers, other, ("in one order of the nodes", "in the opposite order"), pod
            )
            self._check_parts(pod, nodes, answers)
        if seen.wants("forms") and self.answers.has_both_forms:
            other = self.answers.about(pod, nodes, one_by_one=True)
            names = ("for all nodes at once", "for one node at a time")
            self._expect_equal("forms", answers, other, names, pod)
        if seen.wants("signature"):
            self._check_signature(pod, nodes, answers)
        if seen.wants("cache"):
            self._check_cache(pod, nodes)
        if seen.wants("reserve") and self.answers.takes_part(ExtensionPoint.RESERVE):
            self._check_reserve(pod, nodes, answers)

    def _expect_equal(self, check: str, first: Answers, second: Answers, names: tuple[str, str], pod: Pod) -> None:
        found = difference(first, second, names=names)
        if found is not None:
            point, text = found
            self.seen.add(check, self.place(point), f"for pod {pod.key}, {text}")

    def _check_scores(self, pod: Pod, answers: Answers) -> None:
        for (point, node), score in answers.items():
            if point == "Score" and node and isinstance(score, int) and not MIN_SCORE <= score <= MAX_SCORE:
                what = f"for pod {pod.key}, node {node} has the score {score} after normalizing, not within 0..100"
                self.seen.add("scores", self.place("Score"), what)
                return

    def _check_parts(self, pod: Pod, nodes: Nodes, answers: Answers) -> None:
        """Compare the filter's answers about all nodes with those about every other node."""
        for start in range(min(len(nodes), 2)):
            part = nodes.take(np.arange(start, len(nodes), 2, dtype=np.int64))
            names = {part.name(row) for row in range(len(part))}
            of_part = self.answers.about(pod, part, counted=nodes, scored=False)
            of_all = {each: answer for each, answer in answers.items() if each[0] == "Filter" and each[1] in names}
            others = {each: answer for each, answer in of_part.items() if each[0] == "Filter"}
            self._expect_equal("node-order", of_all, others, ("among all nodes", "among some of them"), pod)

    # Signatures

    def _check_signature(self, pod: Pod, nodes: Nodes, answers: Answers) -> None:
        """Compare the answers for a pod and for changed copies with the same signature."""
        if not isinstance(self.answers.plugin, SignPlugin):
            return
        signature = self._sign(pod)
        if signature is None:
            return
        for name, change in _CHANGES:
            other = change(pod)
            if other == pod or self._sign(other) != signature:
                continue
            names = ("for it", f"for a copy with other {name}")
            # A text may name its pod: pods with equal signatures share the node, not the text.
            theirs = {key: _unnamed(answer, other) for key, answer in self.answers.about(other, nodes).items()}
            found = difference({key: _unnamed(answer, pod) for key, answer in answers.items()}, theirs, names=names)
            if found is not None:
                what = f"for pod {pod.key}, {found[1]}; both have the signature {signature}"
                self.seen.add("signature", self.place("sign_pod"), what)
                return

    def _sign(self, pod: Pod) -> tuple[tuple[str, str], ...] | None:
        # Reports what is no list of fragments.
        found = Signing(self.answers.calls, [self.answers.method("Sign", "sign_pod")]).sign(pod)
        if found is None:
            return None
        return tuple((key, repr(value)) for key, value in found if key != SCHEDULER_NAME)

    # The equivalence cache

    def _check_cache(self, pod: Pod, nodes: Nodes) -> None:
        """Compare the decision of the profile with and without its equivalence cache."""
        cache = self.profile.equivalence_cache
        if cache is None or vars(type(self.answers.plugin)).get("reuse", Reuse.NEVER) is Reuse.NEVER:
            return
        bound = self.profile._bound  # noqa: SLF001 - the extension points without the cache
        with_cache = self._decide(pod, nodes, cache.pre_filter, cache.find_feasible, cache.rank)
        plain = self._decide(
            pod,
            nodes,
            bound.pre_filtering.pre_filter,
            bound.filtering.find_feasible,
            bound.scoring.score,
        )
        names = ("with the equivalence cache", "without it")
        found = difference(with_cache, plain, names=names)
        if found is not None:
            reuse = vars(type(self.answers.plugin))["reuse"]
            what = f"for pod {pod.key}, {found[1]}; the plugin declares {reuse}"
            self.seen.add("cache", self.place(found[0]), what)

    def _decide(
        self,
        pod: Pod,
        nodes: Nodes,
        pre_filter: Callable[..., Any],
        find_feasible: Callable[..., Any],
        rank: Callable[..., Any],
    ) -> Answers:
        """Return the feasible nodes with their totals, or why there are none."""
        state = CycleState(Trial(TrialKind.QUESTION))
        outcome = pre_filter(state, pod, nodes, sampled=False)
        if outcome.status is not None:
            return {("PreFilter", ""): str(outcome.status)}
        if outcome.result is not None and outcome.result.node_names is not None:
            rows = [row for name in outcome.result.node_names if (row := nodes.index(name)) is not None]
            nodes = nodes.take(np.array(sorted(rows), dtype=np.int64))
        found = find_feasible(state, pod, nodes)
        if found.status is not None:
            return {("Filter", ""): str(found.status)}
        passed = set(found.rows.tolist())
        decided: dict[tuple[str, str], object] = {
            ("Filter", nodes.name(row)): "feasible" if row in passed else "rejected" for row in range(len(nodes))
        }
        if not passed:
            statuses = found.statuses
            decided.update({("Reason", nodes.name(row)): str(statuses.status(row)) for row in range(len(nodes))})
            return decided
        feasible = nodes if len(passed) == len(nodes) else nodes.take(found.rows)
        status = self.profile.run_pre_score(state, pod, feasible)
        if status is not None:
            return {**decided, ("PreScore", ""): str(status)}
        ranking = rank(state, pod, feasible)
        if ranking.status is not None:
            return {**decided, ("Score", ""): str(ranking.status)}
        return decided | {("Total", feasible.name(row)): int(total) for row, total in enumerate(ranking.totals)}

    # The plugin's books

    def _check_reserve(self, pod: Pod, nodes: Nodes, answers: Answers) -> None:
        """Reserve and unreserve in trials; the answers, and the answers of reserve itself, must stay the same."""
        name = next(
            (nodes.name(row) for row in range(len(nodes)) if not answers.get(("Filter", nodes.name(row)))), None
        )
        if name is None or ("PreFilter", "") in answers:
            return
        first: object = None
        for number in range(_RESERVATIONS):
            copy = _renamed(pod, f"check-{number}")
            state = self.answers.begin(copy, nodes)
            status = self.answers.call("Reserve", "reserve", copy, state, copy, name)
            self.answers.call("Unreserve", "unreserve", copy, state, copy, name)
            self.answers.call("Unreserve", "unreserve", copy, state, copy, name)
            text = None if status is None else str(status)
            if number == 0:
                first = text
            elif text != first:
                what = f"reserve of a pod like {pod.key} on {name} answers {first} at first, and {text} after"
                self.seen.add("reserve", self.place("unreserve"), f"{what} {number} times of reserve and unreserve")
                return
        names = ("before reserve and unreserve in a trial", "after them")
        found = difference(answers, self.answers.about(pod, nodes), names=names)
        if found is not None:
            self.seen.add("reserve", self.place("unreserve"), f"for pod {pod.key}, {found[1]}")
        elif (attribute := _mentions(self.answers.plugin, "check-")) is not None:
            what = f"self.{attribute} still has an entry of a pod after reserve and unreserve in a trial"
            self.seen.add("reserve", self.place("unreserve"), what)
        self._check_release(pod, nodes)

    def _check_release(self, pod: Pod, nodes: Nodes) -> None:
        """Release what a placed pod holds, and restore it; the answers must stay the same."""
        if not hasattr(self.answers.plugin, "release_in_trial"):
            return
        placed = [(info.pod, node.name) for node in nodes for info in node.pods]
        for held, name in placed[:3]:
            answers = self.answers.about(pod, nodes)
            restore = self.answers.call("ReleaseInTrial", "release_in_trial", held, held, name)
            if not callable(restore):
                continue
            restore()
            names = ("before release_in_trial and restore", "after them")
            found = difference(answers, self.answers.about(pod, nodes), names=names)
            if found is not None:
                self.seen.add("reserve", self.place("release_in_trial"), f"for pod {pod.key}, {found[1]}")


def _unnamed(answer: object, pod: Pod) -> object:
    """Return an answer in which the pod's own name and uid are placeholders."""
    if not isinstance(answer, str):
        return answer
    for own in (pod.uid, pod.name):
        answer = re.sub(rf"(?<![\w.-]){re.escape(own)}(?![\w.-])", "{pod}", answer) if own else answer
    return answer


def _renamed(pod: Pod, name: str) -> Pod:
    """Return a copy of the pod with another name and uid."""
    metadata = msgspec.structs.replace(pod.metadata, name=name, uid=f"uid-{name}")
    return msgspec.structs.replace(pod, metadata=metadata)


def _mentions(plugin: object, prefix: str) -> str | None:
    """Return the attribute of the plugin whose plain data name one of the renamed pods."""
    for attribute, value in vars(plugin).items() if hasattr(plugin, "__dict__") else ():
        if attribute not in {"args", "handle"} and _contains(value, prefix, depth=3):
            return attribute
    return None


def _contains(value: object, prefix: str, *, depth: int) -> bool:
    """Return True if a text in plain containers is a name of a renamed pod."""
    if isinstance(value, str):
        return value.startswith((prefix, f"uid-{prefix}")) or f"/{prefix}" in value
    if depth == 0:
        return False
    if isinstance(value, dict):
        return any(_contains(each, prefix, depth=depth - 1) for pair in value.items() for each in pair)
    if isinstance(value, list | tuple | set | frozenset):
        return any(_contains(each, prefix, depth=depth - 1) for each in value)
    return False


def _with_spec(pod: Pod, **fields: object) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **fields))


def _with_metadata(pod: Pod, **fields: object) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **fields))


def _without_requests(pod: Pod) -> Pod:
    containers = [msgspec.structs.replace(each, resources=type(each.resources)()) for each in pod.spec.containers]
    return _with_spec(pod, containers=type(pod.spec.containers)(containers))


#: What a copy of a pod may differ in, and how it is made.
_CHANGES: Final[Sequence[tuple[str, Callable[[Pod], Pod]]]] = (
    ("labels", lambda pod: _with_metadata(pod, labels={})),
    ("labels", lambda pod: _with_metadata(pod, labels={**pod.metadata.labels, "other": "label"})),
    ("annotations", lambda pod: _with_metadata(pod, annotations={})),
    ("annotations", lambda pod: _with_metadata(pod, annotations={"other": "annotation"})),
    ("priority", lambda pod: _with_spec(pod, priority=7)),
    ("name", lambda pod: _renamed(pod, "another-pod")),
    ("requests", _without_requests),
    ("node selector", lambda pod: _with_spec(pod, node_selector={})),
    ("tolerations", lambda pod: _with_spec(pod, tolerations=type(pod.spec.tolerations)())),
)
