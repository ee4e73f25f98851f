"""What the state of a cycle says about trials, under its new name and under the old ones."""

from __future__ import annotations

import pytest

import pyscheduler
from pyscheduler import framework
from pyscheduler.framework import CycleState, PreemptionFindings, StateKey, Trial, TrialKind
from pyscheduler.framework.preemption import preemption_findings

OLD_KEYS = {
    "GROUP_CYCLE": {TrialKind.ATTEMPT},
    "PREEMPTION_INQUIRY": {TrialKind.ATTEMPT, TrialKind.EXPLAIN},
    "WHAT_IF": {TrialKind.QUESTION},
}


@pytest.mark.parametrize("kind", TrialKind)
def test_a_trial_is_on_the_state_and_its_copies_until_it_ends(kind: TrialKind) -> None:
    """A copy belongs to the same trial; a state whose trial has ended has no trace of it."""
    trial = Trial(kind)
    state = CycleState(trial)
    assert state.trial is state.clone().trial is trial
    assert (trial.is_attempt, trial.is_question) == (kind is TrialKind.ATTEMPT, kind is TrialKind.QUESTION)
    state.end_trial()
    state.end_trial()
    assert (state.trial, state.written()) == (None, {})


@pytest.mark.parametrize(("name", "kinds"), OLD_KEYS.items(), ids=list(OLD_KEYS))
def test_the_former_keys_work_for_one_version(name: str, kinds: set[TrialKind]) -> None:
    """A plugin that tests a key of the state finds it, and is warned."""
    with pytest.warns(DeprecationWarning, match=f"{name} is replaced by the attribute `trial`"):
        key: StateKey[object] = getattr(framework, name)
    assert {kind for kind in TrialKind if CycleState(Trial(kind)).get(key)} == kinds


def test_the_former_classes_are_the_trial() -> None:
    """`GroupCycle.placed` still says who has a node."""
    with pytest.warns(DeprecationWarning, match="GroupCycle is replaced"):
        assert pyscheduler.GroupCycle is Trial  # type: ignore[attr-defined]  # that is what is tested
    trial = Trial()
    trial.place("g", "uid", "n")
    assert trial.placed("g") == {"uid": "n"}
    trial.take_back("g", "uid")
    assert not trial.placed("g")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_plugin_may_still_leave_its_findings_in_the_inquiry() -> None:
    """The findings of a preemptor that was written before `state.trial` are found."""
    state = CycleState(Trial(TrialKind.EXPLAIN))
    assert preemption_findings(state) is None
    findings = PreemptionFindings(refusal="not now")
    state.read(framework.PREEMPTION_INQUIRY).findings = findings
    assert preemption_findings(state) is preemption_findings(state.clone()) is findings
    assert framework.PreemptionInquiry(findings=findings).findings is findings
