"""Victims that disruption budgets protect; the search with budgets is in test_preemption."""

from __future__ import annotations

import pytest

from pyscheduler.api import (
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from pyscheduler.framework import PodInfo
from pyscheduler.runtime.preemption.disruption_budgets import Budgets
from pyscheduler.testing import make_pod

WEB = LabelSelector(match_labels={"app": "web"})
BROKEN = LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="Near", values=("web",)),))
ANY_APP = LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="Exists"),))


def budget(
    selector: LabelSelector | None,
    allowed: int,
    *,
    disrupted: tuple[str, ...] = (),
    namespace: str = "default",
    name: str = "b",
) -> PodDisruptionBudget:
    """Return a budget."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=name, resource_version="1"),
        spec=PodDisruptionBudgetSpec(selector=selector),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted)),
    )


PODS = [
    PodInfo.of(make_pod("web-1", labels={"app": "web"})),
    PodInfo.of(make_pod("bare")),
    PodInfo.of(make_pod("web-2", labels={"app": "web"})),
    PodInfo.of(make_pod("db", labels={"app": "db"})),
]


@pytest.mark.parametrize(
    ("budgets", "violating"),
    [
        pytest.param([], [], id="no budget"),
        pytest.param([budget(WEB, 2)], [], id="enough for all"),
        pytest.param([budget(WEB, 1)], ["web-2"], id="used up in order"),
        pytest.param([budget(WEB, 0)], ["web-1", "web-2"], id="nothing allowed"),
        pytest.param([budget(WEB, -1)], ["web-1", "web-2"], id="less than nothing"),
        pytest.param([budget(WEB, 0, disrupted=("web-1",))], ["web-2"], id="on its way already"),
        pytest.param([budget(WEB, 0, namespace="other")], [], id="another namespace"),
        pytest.param([budget(None, 0)], [], id="selects nothing"),
        pytest.param([budget(LabelSelector(), 0)], [], id="an empty selector selects nothing either"),
        pytest.param([budget(BROKEN, 0), budget(WEB, 1)], ["web-2"], id="one that does not parse is passed over"),
        pytest.param([budget(WEB, 9), budget(ANY_APP, 2)], ["db"], id="each that matches is used up"),
        pytest.param(
            [budget(WEB, 0), budget(ANY_APP, 1)], ["web-1", "web-2", "db"], id="also by those another protects"
        ),
    ],
)
def test_victims_are_split_by_what_budgets_allow(budgets: list[PodDisruptionBudget], violating: list[str]) -> None:
    """Both parts keep the order; a pod without labels belongs to no budget."""
    protected, others = Budgets(budgets).split(PODS)
    assert [info.pod.name for info in protected] == violating
    assert [info.pod.name for info in others] == [info.pod.name for info in PODS if info.pod.name not in violating]


def test_each_node_has_the_whole_budget() -> None:
    """Asking for one node uses nothing up for the next."""
    budgets = Budgets([budget(WEB, 1)])
    assert budgets.split(PODS) == budgets.split(PODS)


@pytest.mark.parametrize(
    ("budgets", "keys"),
    [
        pytest.param([budget(WEB, 0), budget(ANY_APP, 3, name="any")], ["default/b"], id="one of two"),
        pytest.param(
            [budget(WEB, 1, name="one"), budget(ANY_APP, 0, name="none")], ["default/one", "default/none"], id="both"
        ),
        pytest.param([budget(WEB, 2)], ["default/b"], id="violated before some victims were spared"),
        pytest.param([budget(WEB, 0, disrupted=("web-1", "web-2"))], [], id="on their way already"),
    ],
)
def test_violated_budgets_are_named(budgets: list[PodDisruptionBudget], keys: list[str]) -> None:
    """If the remaining victims alone violate no budget, those that protect one of them are named."""
    assert Budgets(budgets).violated_by(PODS) == keys
