"""Summaries of groups for users."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.api import Pod
from pyscheduler.cli.podgroup.summary import Summary, summaries
from pyscheduler.podgroup import GroupDirectory
from pyscheduler.testing import make_pod
from tests.podgroup.builders import GANG, make_group, member


def summed(*items: Any, selector: str = "") -> dict[str, Summary]:
    """Return the groups of these objects by name."""
    directory = GroupDirectory()
    for item in items:
        (directory.pod_added if isinstance(item, Pod) else directory.object_added)(item)
    return {one.state.id.name: one for one in summaries(directory, selector=selector)}


def refused(name: str, group: str, message: str, **keywords: Any) -> Pod:
    """Return a pending member with what the scheduler said of it."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return member(name, group, status={"phase": "Pending", "conditions": [condition]}, **keywords)


def test_members_are_counted_by_what_the_api_says() -> None:
    """Members with a node are bound, members with a nominated node wait, other living members are pending."""
    found = summed(
        make_group("g", minMember=4),
        member("a", "g", node_name="n1", status={"phase": "Running"}),
        member("b", "g", status={"phase": "Pending", "nominatedNodeName": "n2"}),
        member("c", "g"),
        member("d", "g", scheduling_gates=["wait"]),
        member("e", "g", node_name="n1", status={"phase": "Succeeded"}),
    )["g"]
    assert (found.bound, found.waiting, found.pending) == (1, 1, 2)
    states = {one.pod.name: (one.state, one.node) for one in found.members}
    assert states == {
        "a": ("Running", "n1"),
        "b": ("Waiting", "n2"),
        "c": ("Pending", ""),
        "d": ("Gated", ""),
        "e": ("Succeeded", "n1"),
    }


def test_groups_without_an_object_are_groups() -> None:
    """Groups that annotations or labels declare, or only name, have a summary."""
    annotated = {f"{GANG}name": "ann", f"{GANG}min-available": "2"}
    light = {"pod-group.scheduling.sigs.k8s.io/name": "light", "pod-group.scheduling.sigs.k8s.io/min-available": "3"}
    found = summed(
        make_pod("a", annotations=annotated), make_pod("l", labels=light), member("o", "orphan"), make_pod("plain")
    )
    assert {name: one.dialect.name for name, one in found.items()} == {
        "ann": "annotation",
        "light": "lightweight",
        "orphan": "sigs",
    }
    assert found["ann"].reason == "1 of at least 2 members exist"
    assert found["orphan"].reason.startswith("the minimum is not known")


FIT = "0/3 nodes are available: 3 Insufficient cpu."
DENIED = "0/3 nodes are available: pod with pgName: default/g last failed in 20s, deny."


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        pytest.param([FIT], FIT, id="what the scheduler says"),
        pytest.param([DENIED, DENIED, FIT], FIT, id="the cause before its echoes"),
        pytest.param([DENIED], DENIED, id="an echo where there is nothing else"),
        pytest.param(["other", FIT, FIT], FIT, id="what most members hear"),
        pytest.param(["b", "a"], "a", id="the same one every time"),
    ],
)
def test_reason_prefers_causes_over_echoes(messages: list[str], reason: str) -> None:
    """The most frequent message that is no echo is the reason."""
    pods = [refused(f"p{number}", "g", message) for number, message in enumerate(messages)]
    assert summed(make_group("g", minMember=1), *pods)["g"].reason == reason


def test_untried_pod_names_its_scheduler() -> None:
    """Without a message the reason names the scheduler of the pod, which may not run."""
    found = summed(make_group("g", minMember=1), member("a", "g", scheduler_name="gone"))["g"]
    assert found.reason == "not tried yet by gone"


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        pytest.param(["", ""], "Pending", id="too few"),
        pytest.param(["", "", ""], "Scheduling", id="none bound"),
        pytest.param(["Pending", "", ""], "Scheduling", id="one bound"),
        pytest.param(["Pending"] * 3, "Scheduled", id="all bound"),
        pytest.param(["Running"] * 3, "Running", id="all run"),
        pytest.param(["Succeeded"] * 3, "Finished", id="all done"),
        pytest.param(["Running", "Running", "Failed"], "Failed", id="one failed"),
    ],
)
def test_missing_phase_is_computed(phases: list[str], expected: str) -> None:
    """It is the phase that Koordinator's controller would reach."""
    pods = [
        member(f"p{number}", "g", node_name="n1" if phase else "", status={"phase": phase or "Pending"})
        for number, phase in enumerate(phases)
    ]
    found = summed(make_group("g", minMember=3), *pods)["g"]
    assert (found.phase, found.phase_is_written) == (expected, False)


def test_phase_of_the_object_counts() -> None:
    """The status of the object counts; Kubernetes' own group has a condition."""
    group = make_group("g", minMember=1)
    told = msgspec.structs.replace(group, status=msgspec.structs.replace(group.status, phase="Inqueue"))  # type: ignore[attr-defined]
    assert summed(told)["g"].phase == "Inqueue"
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    native = make_group("n", dialect="intree", **policy)
    condition = {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled"}
    native = msgspec.structs.replace(
        native,
        status=msgspec.convert({"conditions": [condition]}, type(native.status)),  # type: ignore[attr-defined]
    )
    assert (summed(native)["n"].phase, summed(native)["n"].phase_is_written) == ("Scheduled", True)


def test_selector_matches_the_object_or_else_the_pods() -> None:
    """Labels of pods do not count for a group with an object."""
    items = (
        make_group("object", minMember=1),
        member("a", "object", labels={"team": "x"}),
        member("b", "bare", labels={"team": "x"}),
        member("c", "other", labels={"team": "y"}),
    )
    assert set(summed(*items, selector="team=x")) == {"bare"}
    assert set(summed(*items, selector="team!=y")) == {"object", "bare"}


def test_sub_groups_are_counted_by_members_with_a_node() -> None:
    """The summary says how many members of each sub-group have a node, and which have too few members."""
    group = make_group("g", dialect="kai", subGroups=[{"name": "a", "minMember": 2}, {"name": "b", "minMember": 2}])

    def part(name: str, sub_group: str, **keywords: Any) -> Pod:
        labels = {"kai.scheduler/subgroup-name": sub_group}
        return make_pod(name, labels=labels, annotations={"pod-group-name": "g"}, **keywords)

    placed = part("a0", "a", node_name="n1", status={"phase": "Running"})
    intended = part("a1", "a", status={"phase": "Pending", "nominatedNodeName": "n2"})
    found = summed(group, placed, intended, part("a2", "a"), part("b0", "b"))["g"]
    assert found.sub_groups == [("a", 2, 2), ("b", 0, 2)]
    assert found.reason == "too few members of sub-groups exist: b 1/2"
    assert summed(make_group("g", dialect="kai", minMember=1), placed)["g"].sub_groups == ()
