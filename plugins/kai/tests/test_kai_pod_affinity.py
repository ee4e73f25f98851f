"""KAI's policy `podaffinity`."""

from __future__ import annotations

from typing import Any

import pytest

TIERS = "tiers: [{plugins: [{name: predicates}, {name: proportion}, {name: nominatednode}, %s]}]"
HOST = "kubernetes.io/hostname"


def preferring(kind: str, *weights: tuple[int, str]) -> dict[str, Any]:
    """Return an affinity that prefers, or avoids, the nodes of pods with a label `app`."""
    terms = [
        {
            "weight": weight,
            "podAffinityTerm": {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST},
        }
        for weight, app in weights
    ]
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("affinity", "node"),
    [
        pytest.param(preferring("podAffinity", (1, "b")), "n1", id="near"),
        pytest.param(preferring("podAffinity", (3, "b"), (5, "c")), "n2", id="the larger weight"),
        pytest.param(preferring("podAntiAffinity", (1, "a")), "n1", id="away"),
        pytest.param(None, "n0", id="no preference"),
    ],
)
@pytest.mark.parametrize("is_on", [True, False])
async def test_preferences_choose_the_node(kai: Any, affinity: Any, node: str, *, is_on: bool) -> None:
    """Without the policy, the first of equal nodes by name takes the pod."""
    kai.nodes(3, cpu="8")
    kai.queue("q")
    await kai.start(TIERS % ("{name: podaffinity}" if is_on else ""))
    for at, app in enumerate("abc"):
        kai.cluster.add_pod(app, labels={"app": app}, node_name=f"n{at}", requests={"cpu": "1"})
    kai.group("one", "q", 1)
    kai.pods("one", 1, affinity=affinity)
    await kai.pass_time()
    assert kai.nodes_of("one") == [node if is_on else "n0"]


async def test_members_of_a_gang_see_each_other(kai: Any) -> None:
    """A gang whose pods prefer to be apart is spread within one pass."""
    kai.nodes(3, cpu="8")
    kai.queue("q")
    await kai.start(TIERS % "{name: podaffinity}")
    kai.group("one", "q", 3)
    kai.pods("one", 3, labels={"app": "one"}, affinity=preferring("podAntiAffinity", (1, "one")))
    await kai.pass_time()
    assert sorted(kai.nodes_of("one")) == ["n0", "n1", "n2"]
