"""InterPodAffinity: who may go where, who would rather, and when it has nothing to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from pyscheduler.api import Namespace, Node, Pod
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import Code, CycleState, PodInfo, SignFragment, Status
from pyscheduler.framework.in_tree_args import InterPodAffinityArgs
from pyscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from pyscheduler.testing.builders import make_node
from tests.plugins.inter_pod_affinity.affine import HOST, ZONE, namespace_of, namespaces_of, pod_of, term, wish
from tests.plugins.reading_handle import ReadingHandle

SnapshotOf = Callable[..., Snapshot]

UNMET = "node(s) didn't match pod affinity rules"
SHUNNED = "node(s) didn't match pod anti-affinity rules"
SHUNNING = "node(s) didn't satisfy existing pods anti-affinity rules"
CODES = {UNMET: Code.UNSCHEDULABLE_AND_UNRESOLVABLE, SHUNNED: Code.UNSCHEDULABLE, SHUNNING: Code.UNSCHEDULABLE}
NAMESPACES = {"default": {}, "red": {"team": "r"}, "blue": {"team": "b", "env": "prod"}}


def nodes() -> list[Node]:
    """Return nodes a1 and a2 of zone a, b1 of zone b, and one without a zone."""
    return [
        make_node("a1", labels={ZONE: "a"}),
        make_node("a2", labels={ZONE: "a"}),
        make_node("b1", labels={ZONE: "b"}),
        make_node("lost"),
    ]


def plugin_on(snapshot: Snapshot, args: InterPodAffinityArgs | None = None) -> InterPodAffinity:
    """Make the plugin in a cluster of three namespaces."""
    return InterPodAffinity(args, ReadingHandle(snapshot, namespaces_of(NAMESPACES)))


def refusals(plugin: InterPodAffinity, snapshot: Snapshot, state: CycleState, pod: Pod) -> dict[str, str]:
    """Return by node why it is refused."""
    statuses = plugin.filter_nodes(state, pod, snapshot.nodes)
    found = {}
    for row in range(len(snapshot.nodes)):
        status = statuses.status(row) if statuses is not None else None
        if status is not None:
            (reason,) = status.reasons
            assert status.code == CODES[reason]
            found[snapshot.nodes.name(row)] = reason
    return found


def judged(snapshot: Snapshot, pod: Pod) -> dict[str, str] | None:
    """Run PreFilter and Filter; None where PreFilter skips."""
    plugin, state = plugin_on(snapshot), CycleState()
    status = plugin.pre_filter(state, pod, snapshot.nodes)
    if status is not None:
        assert isinstance(status, Status)
        assert status.is_skip
        return None
    return refusals(plugin, snapshot, state, pod)


EVERYWHERE = ("a1", "a2", "b1", "lost")
FILTERED = [
    pytest.param([], pod_of(near=[term()]), {"lost": UNMET}, id="the first of a group goes anywhere with the key"),
    pytest.param([pod_of("x", "a1")], pod_of(near=[term()]), {"b1": UNMET, "lost": UNMET}, id="near, in the zone"),
    pytest.param(
        [pod_of("x", "a1"), pod_of("y", "a1", labels={"tier": "t"})],
        pod_of(near=[term(), term(labelSelector={"matchLabels": {"tier": "t"}})]),
        dict.fromkeys(EVERYWHERE, UNMET),
        id="one pod has to meet all terms",
    ),
    pytest.param(
        [pod_of("x", "lost")],
        pod_of(near=[term()]),
        {"lost": UNMET},
        id="a pod on a node without the key is nobody",
    ),
    pytest.param(
        [pod_of("x", "b1", away=[term(HOST)]), pod_of("y", "a1", app="c")],
        pod_of(near=[term(labelSelector={"matchLabels": {"app": "c"}})], away=[term()]),
        {"b1": UNMET, "lost": UNMET},
        id="affinity is told first",
    ),
]


@pytest.mark.parametrize(("placed", "pod", "refused"), FILTERED)
def test_nodes_are_refused(
    placed: list[Pod], pod: Pod, refused: dict[str, str] | None, snapshot_of: SnapshotOf
) -> None:
    """Each node that is refused has the reason of the first rule it breaks; None: the filter is skipped."""
    assert judged(snapshot_of(nodes(), placed), pod) == refused


def negative(key: str, operator: str, *values: str) -> dict[str, Any]:
    """Write a selector that labels meet by lacking something."""
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": values} if values else {})}]}


NAMESPACED = [
    pytest.param({}, ["default"], id="its own"),
    pytest.param({"namespaces": ["red", "blue"]}, ["red", "blue"], id="named"),
    pytest.param({"namespaceSelector": negative("env", "NotIn", "prod")}, ["default", "red"], id="not in"),
    pytest.param(
        {"namespaces": ["blue"], "namespaceSelector": negative("team", "DoesNotExist")},
        ["default", "blue"],
        id="does not exist, or named",
    ),
]


@pytest.mark.parametrize(("fields", "names"), NAMESPACED)
def test_terms_look_into_namespaces(fields: Mapping[str, Any], names: Sequence[str], snapshot_of: SnapshotOf) -> None:
    """Of the pod's terms and of placed pods' terms alike."""
    for name in {"default", "red", "blue", *names}:
        placed = snapshot_of(nodes(), [pod_of("x", "a1", namespace=name)])
        found = judged(placed, pod_of(away=[term(HOST, **fields)]))
        assert found == ({"a1": SHUNNED} if name in names else {})
        placed = snapshot_of(nodes(), [pod_of("x", "a1", app="b", away=[term(HOST, **fields)])])
        assert judged(placed, pod_of(namespace=name)) == ({"a1": SHUNNING} if name in names else None)


def test_changes_of_namespaces_are_seen(snapshot_of: SnapshotOf) -> None:
    """A namespace that comes, is relabelled or goes is selected, or not, from then on."""
    snapshot = snapshot_of(nodes(), [pod_of("x", "a1", namespace="new")])
    plugin = plugin_on(snapshot)
    namespaces = plugin.handle.lister(Namespace)
    pod = pod_of(away=[term(HOST, namespaceSelector={"matchLabels": {"team": "n"}})])

    def found() -> dict[str, str]:
        state = CycleState()
        assert plugin.pre_filter(state, pod, snapshot.nodes) is None
        return refusals(plugin, snapshot, state, pod)

    assert found() == {}
    namespaces.put(namespace_of("new", {"team": "n"}))
    assert found() == {"a1": SHUNNED}
    namespaces.put(namespace_of("new", {}))
    assert found() == {}
    namespaces.put(namespace_of("new", {"team": "n"}))
    assert found() == {"a1": SHUNNED}
    namespaces.drop("new", "")
    assert found() == {}


def test_many_selectors_are_not_all_remembered(snapshot_of: SnapshotOf) -> None:
    """What was selected is kept for a thousand selectors at most."""
    snapshot = snapshot_of(nodes())
    plugin = plugin_on(snapshot)
    for number in range(2000):
        selector = {"matchLabels": {"number": f"{number}"}}
        plugin.pre_filter(CycleState(), pod_of(away=[term(namespaceSelector=selector)]), snapshot.nodes)
    assert len(plugin._namespaces._selections) <= 1024


BAD = {"matchExpressions": [{"key": "app", "operator": "Near"}]}
UNREADABLE = [
    pytest.param({"near": [term(labelSelector=BAD)]}, "requiredAffinityTerms: {}", id="near"),
    pytest.param({"away": [term(namespaceSelector=BAD)]}, "requiredAntiAffinityTerms: {}", id="away"),
    pytest.param(
        {"near": [term(labelSelector=BAD)], "rather_near": [wish(1, labelSelector=BAD)]},
        "[requiredAffinityTerms: {}, preferredAffinityTerms: {}]",
        id="several",
    ),
]


@pytest.mark.parametrize(("wanted", "message"), UNREADABLE)
def test_terms_that_do_not_parse_reject_the_pod(
    wanted: Mapping[str, Any], message: str, snapshot_of: SnapshotOf
) -> None:
    """The message says which terms, and what is wrong with them; preemption cannot help."""
    snapshot = snapshot_of(nodes())
    status = plugin_on(snapshot).pre_filter(CycleState(), pod_of(**wanted), snapshot.nodes)
    error = '"Near" is not a valid label selector operator'
    assert isinstance(status, Status)
    assert status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ("parsing pod: " + message.replace("{}", error),)


def test_a_pod_without_terms_learns_of_one_that_would_shun_it(snapshot_of: SnapshotOf) -> None:
    """In a cycle that some placed pod's terms concern, others may be added in thought, with new topology keys."""
    snapshot = snapshot_of(nodes(), [pod_of("x", "b1", app="b", away=[term(HOST)])])
    plugin, state, pod = plugin_on(snapshot), CycleState(), pod_of()
    assert plugin.pre_filter(state, pod, snapshot.nodes) is None
    plugin.add_pod(state, pod, PodInfo.of(pod_of("y", "a1", app="b", away=[term()])), snapshot.get("a1"))
    assert refusals(plugin, snapshot, state, pod) == {"a1": SHUNNING, "a2": SHUNNING, "b1": SHUNNING}


def scores(snapshot: Snapshot, pod: Pod, **args: Any) -> list[int] | None:
    """Run PreScore and Score on all nodes; None where it is skipped."""
    plugin, state = plugin_on(snapshot, InterPodAffinityArgs(**args) if args else None), CycleState()
    status = plugin.pre_score(state, pod, snapshot.nodes)
    if status is not None:
        assert status.is_skip
        return None
    found = plugin.score_nodes(state, pod, snapshot.nodes)
    assert found.dtype == np.int64
    return [int(score) for score in found]


IGNORE = {"ignore_preferred_terms_of_existing_pods": True}
SCORED = [
    pytest.param(
        [pod_of("x", "a1"), pod_of("y", "a2")], pod_of(rather_away=[wish(7)]), {}, [-14, -14, 0, 0], id="rather away"
    ),
    pytest.param(
        [pod_of("x", "b1", app="b", near=[term()])],
        pod_of(),
        {"hard_pod_affinity_weight": 50},
        [0, 0, 50, 0],
        id="demands, weighed",
    ),
    pytest.param(
        [pod_of("x", "b1", app="b", rather_near=[wish(9)])],
        pod_of(rather_near=[wish(1, labelSelector={"matchLabels": {"app": "c"}})]),
        IGNORE,
        [0, 0, 9, 0],
        id="not ignored where the pod has wishes",
    ),
]


@pytest.mark.parametrize(("placed", "pod", "args", "expected"), SCORED)
def test_nodes_are_scored(
    placed: list[Pod], pod: Pod, args: dict[str, Any], expected: list[int] | None, snapshot_of: SnapshotOf
) -> None:
    """The score is the sum over the node's domains; None: scoring is skipped, since nobody says anything."""
    assert scores(snapshot_of(nodes(), placed), pod, **args) == expected


def test_signatures(snapshot_of: SnapshotOf) -> None:
    """Labels count, because others' terms look at them; unless these are ignored. Pods with terms have none."""
    snapshot = snapshot_of(nodes())
    plugin, pod = plugin_on(snapshot), pod_of(labels={"b": "2", "a": "1"})
    assert plugin.sign_pod(pod) == (SignFragment("v1.Pod.Labels", (("a", "1"), ("b", "2"))),)
    assert plugin_on(snapshot, InterPodAffinityArgs(**IGNORE)).sign_pod(pod) == ()
    status = plugin.sign_pod(pod_of(near=[term()]))
    assert isinstance(status, Status)
    assert (status.code, status.reasons) == (Code.UNSCHEDULABLE, ("pods with InterPodAffinity are not signable",))


def test_plain_pods_among_plain_pods_leave_no_trace(snapshot_of: SnapshotOf) -> None:
    """Where nobody has terms, nothing is counted, looked up or kept."""
    snapshot = snapshot_of(nodes(), [pod_of("x", "a1")])
    assert judged(snapshot, pod_of()) is None
    assert scores(snapshot, pod_of()) is None
    assert snapshot._columns.placed_terms._version == -1
    assert snapshot._columns.pod_matches._version == -1
