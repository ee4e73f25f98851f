"""Huge pods: each is tried, none holds the loop for long."""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.testing import FakeCluster
from tests.threats.attack import (
    HOLD_SECONDS,
    HUGE_HOLD_SECONDS,
    MANY,
    add_nodes,
    assert_ordinary_pod_is_bound,
    huge_pod,
    plant,
    resident_mib,
    settled_holds,
)

pytestmark = pytest.mark.slow

ZONE = "zone"
HOST = "kubernetes.io/hostname"


def node_terms(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return an affinity that requires one of these node selector terms."""
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """Return a node selector term with one expression."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def pod_terms(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    """Return an affinity that requires all of these pod affinity terms."""
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def wished_terms(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    """Return an affinity that prefers all of these pod affinity terms."""
    wishes = [{"weight": 1, "podAffinityTerm": term} for term in terms]
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}


def near(app: str, key: str = ZONE, **others: Any) -> dict[str, Any]:
    """Return a pod affinity term."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **others}


def spread(key: str, when: str, label: str) -> dict[str, Any]:
    """Return a topology spread constraint."""
    selector = {"matchLabels": {"app": label}}
    return {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": when, "labelSelector": selector}


def containers(count: int, **others: Any) -> list[dict[str, Any]]:
    """Return so many containers, each with a request."""
    requests = {"resources": {"requests": {"cpu": "1m"}}}
    return [{"name": f"c{i}", "image": f"image-{i}", **requests, **others} for i in range(count)]


VALUES = [f"v{i}" for i in range(MANY)]

#: A function that makes a pod, whether this pod finds a node, and whether it is so costly that a turn of the loop may
#: last longer. The largest pods are only made in their own test: together they take a second and 30 MiB.
PODS = [
    pytest.param(lambda: huge_pod(node_selector={f"k{i}": "v" for i in range(MANY)}), False, True, id="node selector"),
    pytest.param(
        lambda: huge_pod(affinity=node_terms(expression(ZONE, "In", *VALUES, "z1"))),
        True,
        False,
        id="values of a node term",
    ),
    pytest.param(
        lambda: huge_pod(affinity=node_terms(*(expression(f"k{i}", "In", "v") for i in range(MANY)))),
        False,
        True,
        id="node terms",
    ),
    pytest.param(
        lambda: huge_pod(affinity=node_terms(*(expression(ZONE, "Gt", str(i)) for i in range(MANY)))),
        False,
        True,
        id="node terms with Gt",
    ),
    pytest.param(
        lambda: huge_pod(
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": expression(f"k{i}", "In", "v")} for i in range(MANY)
                    ]
                }
            }
        ),
        True,
        True,
        id="preferred node terms",
    ),
    pytest.param(
        lambda: huge_pod(
            labels={"app": "a1"}, affinity=pod_terms("podAffinity", *(near(f"a{i}") for i in range(MANY)))
        ),
        False,
        True,
        id="pod affinity",
    ),
    pytest.param(
        lambda: huge_pod(affinity=pod_terms("podAntiAffinity", *(near(f"a{i}", f"k{i}") for i in range(MANY)))),
        True,
        True,
        id="pod anti-affinity",
    ),
    pytest.param(
        lambda: huge_pod(affinity=wished_terms("podAffinity", *(near(f"a{i}") for i in range(MANY)))),
        True,
        True,
        id="preferred pod affinity",
    ),
    pytest.param(
        lambda: huge_pod(affinity=pod_terms("podAntiAffinity", near("a", namespaces=VALUES))),
        True,
        False,
        id="namespaces",
    ),
    pytest.param(
        lambda: huge_pod(
            affinity=pod_terms(
                "podAntiAffinity",
                *(near("a", namespaceSelector={"matchLabels": {"team": f"t{i}"}}) for i in range(3000)),
            )
        ),
        True,
        True,
        id="namespace selectors",
    ),
    pytest.param(
        lambda: huge_pod(
            spec={"topologySpreadConstraints": [spread(f"k{i}", "DoNotSchedule", "a") for i in range(MANY)]}
        ),
        False,
        True,
        id="spread constraints",
    ),
    pytest.param(
        lambda: huge_pod(
            spec={"topologySpreadConstraints": [spread(ZONE, "ScheduleAnyway", f"a{i}") for i in range(MANY)]}
        ),
        True,
        True,
        id="spread constraints of one key",
    ),
    pytest.param(lambda: huge_pod(labels={f"l{i}": "x" * 63 for i in range(MANY)}), True, False, id="labels"),
    pytest.param(
        lambda: huge_pod(annotations={f"a{i}": "x" * 200 for i in range(1200)}), True, False, id="annotations"
    ),
    pytest.param(lambda: huge_pod(spec={"containers": containers(MANY)}), True, True, id="containers"),
    pytest.param(
        lambda: huge_pod(spec={"initContainers": containers(MANY, restartPolicy="Always")}), True, True, id="sidecars"
    ),
    pytest.param(
        lambda: huge_pod(tolerations=[{"key": f"k{i}", "operator": "Exists"} for i in range(MANY)]),
        True,
        False,
        id="tolerations",
    ),
    pytest.param(
        lambda: huge_pod(scheduling_gates=[f"g{i}" for i in range(MANY)]), False, False, id="scheduling gates"
    ),
    pytest.param(lambda: huge_pod(host_ports=range(1, MANY)), True, True, id="host ports"),
    pytest.param(
        lambda: huge_pod(spec={"volumes": [{"name": f"v{i}", "emptyDir": {}} for i in range(MANY)]}),
        True,
        False,
        id="volumes",
    ),
    pytest.param(
        lambda: huge_pod(
            spec={"volumes": [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"p{i}"}} for i in range(MANY)]}
        ),
        False,
        False,
        id="volume claims",
    ),
    pytest.param(
        lambda: huge_pod(requests={f"example.com/r{i}": "1" for i in range(MANY)}), False, True, id="extended resources"
    ),
    pytest.param(
        lambda: huge_pod(spec={"containers": [{"name": "c", "env": [{"name": "X", "value": "x" * 1_500_000}]}]}),
        True,
        False,
        id="1.5 MB of environment",
    ),
    pytest.param(
        lambda: huge_pod(spec={"fromTheFuture": functools.reduce(lambda inner, _: [inner], range(400), [])}),
        True,
        False,
        id="deep nesting",
    ),
]


@pytest.mark.parametrize(("make", "fits", "is_costly"), PODS)
async def test_a_huge_pod_holds_up_nobody(
    cluster: FakeCluster, make: Callable[[], dict[str, Any]], fits: bool, is_costly: bool
) -> None:
    """The pod is bound or waits with a reason, the loop turns soon, and other pods are bound before and after."""
    add_nodes(cluster, 100)
    framework = cluster.framework()
    await assert_ordinary_pod_is_bound(framework)
    plant(cluster, [make()])
    holds = await settled_holds(cluster)
    result = framework.result("huge")
    assert result.bound == fits, result.message
    assert result.state in ("bound", "gated") or result.message
    assert holds.longest < (HUGE_HOLD_SECONDS if is_costly else HOLD_SECONDS)
    await assert_ordinary_pod_is_bound(framework)
    cluster.delete_pod("huge")


async def test_named_nodes_are_joined_in_linear_time(cluster: FakeCluster) -> None:
    """A node affinity with thousands of terms that each name a node costs what other terms cost."""
    add_nodes(cluster, 10)
    framework = cluster.framework()
    await framework.start()
    fields = [{"key": "metadata.name", "operator": "In"}]
    terms = [{"matchFields": [{**fields[0], "values": [f"x{i}"]}]} for i in range(MANY)]
    plant(cluster, [huge_pod(affinity=node_terms(*terms))])
    holds = await settled_holds(cluster)
    assert not framework.result("huge").bound
    assert holds.longest < HUGE_HOLD_SECONDS / 3
    cluster.delete_pod("huge")


async def test_preferred_terms_are_counted_one_after_the_other(cluster: FakeCluster) -> None:
    """The counts of 3,000 preferred terms on 2,000 nodes, 46 MiB together, are not in memory at the same time."""
    add_nodes(cluster, 2000)
    framework = cluster.framework()
    await framework.start()
    plant(cluster, [huge_pod(affinity=wished_terms("podAffinity", *(near(f"a{i}") for i in range(3000))))])
    tracemalloc.start()
    try:
        await cluster.clock.advance(0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert framework.result("huge").bound
    assert peak < 45 * 2**20


async def test_huge_pods_that_come_and_go_leave_nothing_behind(cluster: FakeCluster) -> None:
    """Pods with 5,000 node terms, each different, are created and deleted one after the other; memory levels off."""
    cluster.server.store.history_limit = 20  # what the API server keeps of the past is not the scheduler's
    add_nodes(cluster, 10)
    framework = cluster.framework()
    await framework.start()
    sizes = []
    for number in range(14):
        terms = (expression(f"k{number}-{i}", "In", "v") for i in range(5000))
        plant(cluster, [huge_pod(affinity=node_terms(*terms))])
        await cluster.clock.advance(0)
        assert len(framework.scheduler.queue) == 1
        cluster.delete_pod("huge")
        await cluster.clock.advance(0)
        sizes.append(resident_mib())
    # Without a limit by weight each of them leaves 4 to 5 MiB.
    assert sizes[-1] - sizes[6] < 15
