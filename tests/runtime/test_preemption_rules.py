"""What the scheduler says about preemption rules of plugins that are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler import CycleState, NodeStatuses, Pod, PostFilterPlugin, PostFilterResult, PreemptionRules, Status
from pyscheduler.framework import Handle, PodInfo
from pyscheduler.runtime.assembly.plugin_methods import check_rules
from pyscheduler.testing import FakeCluster


def nothing(*_: object) -> None:
    """Take any arguments."""


def rules(**methods: Any) -> PreemptionRules:
    """Return rules of a class with these methods."""
    return type("Rules", (PreemptionRules,), methods)()


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        pytest.param(type(rules()), "takes an object of PreemptionRules, not .*; write Rules()", id="class"),
        pytest.param(None, "takes an object of PreemptionRules, not None", id="nothing"),
        pytest.param(
            rules(may_evict=lambda self, victim: True),
            r"class Rules defines may_evict\(self, victim\) \(test_preemption_rules.py:.* in <lambda>\), "
            r"but the scheduler calls may_evict\(victim, preemptor\)",
            id="parameters",
        ),
    ],
)
def test_wrong_preemption_rules_are_refused(found: object, complaint: str) -> None:
    """The error says what to pass, or names the method and its place."""
    with pytest.raises(TypeError, match=complaint):
        check_rules(found)


@pytest.mark.parametrize(
    ("method", "meant"),
    [
        pytest.param("can_evict", "may_evict", id="word"),
        pytest.param("may_evicts", "may_evict", id="letter"),
        pytest.param("enough_candidate", "enough_candidates", id="plural"),
        pytest.param("_can_evict", "", id="helper"),
        pytest.param("is_spot", "", id="other"),
        pytest.param("importance", "", id="right"),
    ],
)
def test_a_misspelt_preemption_rule_is_named(method: str, meant: str) -> None:
    """A method of preemption rules that nobody calls is named, unless it is a helper."""
    problems = check_rules(rules(**{method: nothing}))
    assert [f'rename it to "{meant}"' in each for each in problems] == [True] * bool(meant)


class Forgetful(PreemptionRules):
    """Forgets to return an answer, and has a rule that nobody calls."""

    def may_evict(self, victim: PodInfo, preemptor: Pod) -> bool:  # type: ignore[empty-body] # the mistake
        """Answer None."""

    def can_evict(self, victim: PodInfo, preemptor: Pod) -> bool:
        """Let every pod be a victim."""
        return True


class Preempting(PostFilterPlugin):
    """Preempts by these rules."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.preemptor = handle.preemptor(self.name, Forgetful())

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        return await self.preemptor.preempt(state, pod, statuses)


async def test_mistakes_in_rules_are_named(cluster: FakeCluster) -> None:
    """A rule that returns nothing fails with its name and place, and a rule that nobody calls is a warning."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    cluster.add_pod("old", node_name="n1", requests={"cpu": "1"})
    framework = cluster.framework(enable=[Preempting], disable=["DefaultPreemption"], allow_plugin_errors=True)
    result = await framework.schedule("new", requests={"cpu": "1"}, priority=9)
    text = "Forgetful.may_evict returned None; return True or False (test_preemption_rules.py:"
    assert text in result.message
    assert any('plugin "Preempting": class Forgetful defines can_evict' in each for each in framework.plugin_warnings)
