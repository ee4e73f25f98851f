"""Chains of owners, kinds that are passed over, and what all kinds have in common."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plugins.podgrouper.tests.workloads import answers, error_of, group_of, item, pod
from pyscheduler_podgrouper.contract import Grouper
from pyscheduler_podgrouper.fields import GroupingError
from pyscheduler_podgrouper.generic import generic
from pyscheduler_podgrouper.table import GrouperTable

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
QUEUE = {"kai.scheduler/queue": "research"}


def test_an_owner_that_was_created_again_is_not_the_owner() -> None:
    """Another uid under the same name is an error, unless the pod is being deleted."""
    old, new = item("acme.example/v1", "Widget", "w"), item("acme.example/v1", "Widget", "w")
    new["metadata"]["uid"] = "another"
    assert error_of(pod("p", old), objects=[new]) == (
        "failed to find Widget: <ml/w>, uid: <uid-w>: Owner resource with uid uid-w not found"
    )
    assert answers(pod("p", old, metadata=DELETED), objects=[new]) == [{"pod": "p", "skipped": True}]


def test_an_owner_that_is_gone_is_an_error() -> None:
    """The error names the owner; it is no error if the pod is being deleted."""
    gone = item("acme.example/v1", "Widget", "w")
    assert 'Widget "w" not found' in error_of(pod("p", gone))
    assert answers(pod("p", gone, metadata=DELETED)) == [{"pod": "p", "skipped": True}]


def test_a_pod_whose_owners_may_not_be_read_is_its_own_owner() -> None:
    """Without a readable owner the group is that of the pod, with its labels."""
    owner = item("acme.example/v1", "Widget", "w")
    group = group_of(pod("p", owner, labels=QUEUE), objects=[owner], faults={"forbidden": ["Widget/w"]})
    assert (group["name"], group["owner"]["kind"], group["queue"]) == ("pg-p-uid-p", "Pod", "research")


def test_owners_in_a_circle_are_refused() -> None:
    """A chain that comes back to an owner has no top."""
    one, two = item("acme.example/v1", "Widget", "a"), item("acme.example/v1", "Widget", "b")
    first = item("acme.example/v1", "Widget", "a", owners=[two])
    second = item("acme.example/v1", "Widget", "b", owners=[one])
    assert "it owns itself" in error_of(pod("p", one), objects=[first, second])


def test_only_the_first_owner_of_a_pod_counts() -> None:
    """Further owner references of the pod itself are not followed."""
    owners = [item("acme.example/v1", "Widget", name) for name in ("a", "b")]
    assert group_of(pod("p", *owners), objects=owners)["name"] == "pg-a-uid-a"


# --- kinds that are passed over -------------------------------------------------------------------


def test_a_pod_below_a_skipped_owner_is_grouped_by_itself() -> None:
    """Labels of the owner that the pod does not have count for it, and reach the group."""
    flow = item("argoproj.io/v1alpha1", "Workflow", "flow", labels={**QUEUE, "team": "x"})
    group = group_of(pod("step", flow, labels={"team": "y"}), objects=[flow])
    assert (group["name"], group["queue"], group["labels"]) == ("pg-step-uid-step", "research", {"team": "y", **QUEUE})


def test_skipped_owners_can_follow_each_other() -> None:
    """A kind with a version of its own is passed over again; the group belongs to the first that is not."""
    outer = item("run.ai/v3", "TrainingWorkload", "outer", labels=QUEUE)
    inner = item("argoproj.io/v1alpha1", "Workflow", "inner", owners=[outer], annotations={"a": "1"})
    job = item("batch/v1", "Job", "job", owners=[inner])
    group = group_of(pod("p", job), objects=[outer, inner, job])
    assert (group["name"], group["queue"], group["annotations"]["a"]) == ("pg-p-uid-job", "research", "1")


def test_any_version_is_passed_over_at_the_top_only() -> None:
    """Below a skipped owner, a kind that is skipped in any version has the generic rule."""
    outer = item("argoproj.io/v1alpha1", "Workflow", "outer")
    inner = item("run.ai/v3", "TrainingWorkload", "inner", owners=[outer])
    group = group_of(pod("p", inner), objects=[outer, inner])
    assert group["name"] == "pg-inner-uid-inner"


def test_generic_kinds_below_a_skipped_owner_have_their_own_priority() -> None:
    """A rule of a kind sees the label of the skipped owner; the generic rule asks each owner as it is."""
    flow = item("argoproj.io/v1alpha1", "Workflow", "flow", labels={"priorityClassName": "urgent"})
    widget = item("acme.example/v1", "Widget", "w", owners=[flow])
    assert group_of(pod("p", widget), objects=[flow, widget])["priorityClassName"] == "train"
    job = item("batch/v1", "Job", "j", owners=[flow])
    assert group_of(pod("p", job), objects=[flow, job])["priorityClassName"] == "urgent"


# --- groups that exist ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "is_ours"),
    [
        pytest.param("pg-p-uid-p", True, id="named after the pod"),
        pytest.param("own", True, id="owned by the pod"),
        pytest.param("users", False, id="owned by something else"),
        pytest.param("missing", False, id="not there"),
    ],
)
def test_a_group_of_ours_is_told_from_a_users_group(group: str, is_ours: bool) -> None:
    """A pod without owners is left alone in a group that somebody else made."""
    member = pod("p", annotations={"pod-group-name": group})
    own = item("scheduling.run.ai/v2alpha2", "PodGroup", "own", owners=[member], spec={"queue": "q"})
    users = item("scheduling.run.ai/v2alpha2", "PodGroup", "users", spec={"queue": "q"})
    (answer,) = answers(member, objects=[own, users])
    assert ("podGroup" in answer) == is_ours


def test_an_existing_group_keeps_its_queue_and_node_pool() -> None:
    """The answer shows the group after the write: labels of others stay, queue and node pool do not change."""
    member = pod("p", labels={"kai.scheduler/queue": "new", "kai.scheduler/node-pool": "a100"})
    existing = item(
        "scheduling.run.ai/v2alpha2",
        "PodGroup",
        "pg-p-uid-p",
        labels={"kai.scheduler/queue": "old", "mine": "x"},
        spec={"queue": "old"},
    )
    group = group_of(member, objects=[existing])
    assert (group["queue"], group["labels"]) == ("old", {"kai.scheduler/queue": "old", "mine": "x"})


# --- defaults of kinds ----------------------------------------------------------------------------


def defaults(text: Any) -> dict[str, Any]:
    """Return a case with a ConfigMap of defaults."""
    config = {"defaultsConfigMap": "defaults", "defaultsConfigMapNamespace": "ml"}
    data = {} if text is None else {"types": text if isinstance(text, str) else json.dumps(text)}
    return {"config": config, "objects": [item("v1", "ConfigMap", "defaults", data=data)]}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([{"typeName": "Pod", "priorityName": "build"}], ("build", ""), id="kind"),
        pytest.param(
            [{"typeName": "Pod", "priorityName": "gone", "preemptibility": "PREEMPTIBLE"}],
            ("train", "preemptible"),
            id="missing class",
        ),
        pytest.param([{"typeName": "Pod", "preemptibility": "maybe"}], ("train", ""), id="invalid"),
        pytest.param([{"typeName": "Pod", "priorityName": 5}], ("train", ""), id="number"),
        pytest.param("{", ("train", ""), id="no JSON"),
        pytest.param("null", ("train", ""), id="null"),
        pytest.param(None, ("train", ""), id="no key"),
    ],
)
def test_defaults_of_a_kind(rows: Any, expected: tuple[str, str]) -> None:
    """A default counts if its class exists; defaults that cannot be read are none."""
    group = group_of(pod("p"), **defaults(rows))
    assert (group["priorityClassName"], group["preemptibility"]) == expected


def test_the_top_owner_is_described_in_an_annotation() -> None:
    """Texts that YAML reads as something else are quoted."""
    owner = item("acme.example/v1", "Widget", "12")
    group = group_of(pod("p", owner), objects=[owner])
    assert group["annotations"]["kai.scheduler/top-owner-metadata"] == (
        'name: "12"\nuid: uid-12\ngroup: acme.example\nversion: v1\nkind: Widget\n'
    )
    alone = group_of(pod("p"))["annotations"]["kai.scheduler/top-owner-metadata"]
    assert alone == 'name: p\nuid: uid-p\ngroup: ""\nversion: v1\nkind: Pod\n'


def test_a_row_of_a_third_party_counts() -> None:
    """A kind of its own is grouped by its rule; a second rule for one version is refused."""
    table = GrouperTable()
    row = Grouper(group="acme.example", kind="Widget", plural="widgets", versions=("v1",), skips=True)
    table.add(row)
    widget = item("acme.example/v1", "Widget", "w")
    (answer,) = answers(pod("p", widget), objects=[widget], table=table)
    assert answer["podGroup"]["name"] == "pg-p-uid-p"
    with pytest.raises(GroupingError, match=r"there are two rules for acme\.example/v1 Widget"):
        table.add(Grouper(group="acme.example", kind="Widget", plural="widgets", versions=("v1",), rule=generic))
