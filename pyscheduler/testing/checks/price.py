"""Measure a plugin's CPU time per pod, and check if plugin results can be reused for equal pods, such as replicas."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.interfaces import NodeScore, ScorePlugin, SignPlugin
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.framework.reuse import Reuse
from pyscheduler.framework.status import Status
from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.runtime.extension_points.points import defines, is_columnar
from pyscheduler.runtime.extension_points.run_context import begin_context
from pyscheduler.testing.builders import make_pod
from pyscheduler.testing.checks.answers import PluginAnswers
from pyscheduler.testing.fake_cluster import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.testing.checks.subject import Subject

__all__ = ["Price", "price_of"]

#: The sizes of the clusters, in nodes.
SIZES: Final = (100, 1_000, 5_000)
#: A plugin is called for this many pods, or until it has taken this many seconds of CPU time.
_PODS: Final = 50
_SECONDS: Final = 0.5
_ZONE: Final = "topology.kubernetes.io/zone"
_POINTS: Final = (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE)


@attrs.frozen(kw_only=True)
class Price:
    """The cost of a plugin.

    `microseconds` is the CPU time per pod by number of nodes, of PreFilter, Filter, PreScore and Score together and
    without the cache. `has_cache` tells whether the profile has the equivalence cache. `advice` has a sentence for
    each thing that makes scheduling slower than it must be.
    """

    microseconds: dict[int, float]
    has_cache: bool
    advice: list[str]


def price_of(subject: Subject, *, sizes: Sequence[int] = SIZES) -> Price | None:
    """Measure a plugin; return None for a plugin that judges no nodes."""
    microseconds: dict[int, float] = {}
    has_cache, advice = False, []
    for size in sizes:
        cluster = FakeCluster()
        for number in range(size):
            cluster.add_node(f"n{number}", labels={_ZONE: f"z{number % 3}"})
        framework = subject.framework(cluster)
        profile = subject.profile(framework)
        answers = PluginAnswers(profile, subject.name)
        if not answers.takes_part(*_POINTS):
            return None
        microseconds[size] = _measure(answers, framework.nodes())
        has_cache, advice = profile.equivalence_cache is not None, _advice(answers)
    return Price(microseconds=microseconds, has_cache=has_cache, advice=advice)


def _measure(answers: PluginAnswers, nodes: Nodes) -> float:
    """Return the CPU time of one pod, in microseconds."""
    pods = [make_pod(f"p{number}", **_pod()) for number in range(_PODS)]
    _judge(answers, pods[0], nodes)  # columns and caches that the first call makes
    began, count = time.thread_time(), 0
    for pod in pods:
        _judge(answers, pod, nodes)
        count += 1
        if time.thread_time() - began > _SECONDS:
            break
    return (time.thread_time() - began) / count * 1e6


def _pod() -> dict[str, Any]:
    """Return the keywords of a pod about which most plugins have something to say."""
    labels = {"app": "web"}
    selector = {"labelSelector": {"matchLabels": labels}, "topologyKey": _ZONE}
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": selector}]}
    return {
        "requests": {"cpu": "500m", "memory": "256Mi"},
        "labels": labels,
        "affinity": {"podAntiAffinity": affinity},
        "host_ports": [8080],
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "spec": {"topologySpreadConstraints": [{"maxSkew": 5, "whenUnsatisfiable": "DoNotSchedule", **selector}]},
    }


def _judge(answers: PluginAnswers, pod: Pod, nodes: Nodes) -> None:
    """Call the plugin for one pod as the scheduler does, on all nodes."""
    kind, point = type(answers.plugin), ExtensionPoint
    state = CycleState(Trial(TrialKind.QUESTION))
    begin_context(state, sampled=False)

    def skips(at: ExtensionPoint, attribute: str) -> bool:
        answer = answers.call(at.metric_label, attribute, pod, state, pod, nodes) if answers.takes_part(at) else None
        return isinstance(answer, Status) and answer.is_skip

    if not skips(point.PRE_FILTER, "pre_filter") and answers.takes_part(point.FILTER):
        if is_columnar(kind, point.FILTER):
            answers.call("Filter", "filter_nodes", pod, state, pod, nodes)
        else:
            for node in nodes:
                answers.call("Filter", "filter", pod, state, pod, node)
    if not skips(point.PRE_SCORE, "pre_score") and answers.takes_part(point.SCORE):
        if is_columnar(kind, point.SCORE):
            scores = answers.call("Score", "score_nodes", pod, state, pod, nodes)
        else:
            scores = [
                NodeScore(node.name, _whole(answers.call("Score", "score", pod, state, pod, node))) for node in nodes
            ]
        if defines(kind, ScorePlugin, "normalize_scores"):
            answers.call("ScoreExtensionNormalize", "normalize_scores", pod, state, pod, scores)


def _whole(answer: object) -> int:
    return answer if isinstance(answer, int) else 0


def _advice(answers: PluginAnswers) -> list[str]:
    """Return what the author can change to make scheduling faster."""
    kind, found = type(answers.plugin), []
    if not issubclass(kind, SignPlugin):
        found.append(
            "turns the equivalence cache of the whole profile off: inherit SignPlugin, and return from sign_pod the "
            "parts of the pod on which the answers depend"
        )
    for point, one, columnar in (
        (ExtensionPoint.FILTER, "filter", "filter_nodes"),
        (ExtensionPoint.SCORE, "score", "score_nodes"),
    ):
        if answers.takes_part(point) and not is_columnar(kind, point):
            cache = " and turns the equivalence cache off" if point is ExtensionPoint.FILTER else ""
            found.append(
                f"{one} is one Python call per node{cache}: define {columnar}, which answers for all nodes at once"
            )
    if vars(kind).get("reuse", Reuse.NEVER) is Reuse.NEVER and answers.takes_part(
        ExtensionPoint.FILTER, ExtensionPoint.SCORE
    ):
        found.append(
            "is called for each pod: if the answers depend on the node, its pods and the pod's spec only, set `reuse` "
            "on the class"
        )
    return found
