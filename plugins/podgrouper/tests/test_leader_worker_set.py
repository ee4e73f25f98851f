"""LeaderWorkerSets: minimum while the leader is not ready, and segments."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.podgrouper.tests.workloads import Json, error_of, group_of, item, minima, pod

DOMAIN = "leaderworkerset.sigs.k8s.io"
NAME = "pg-lws-uid-lws-group-0"


def lws(size: int = 5, segment: int | None = None, kind: str | None = None, **fields: Any) -> Json:
    """Return a LeaderWorkerSet; `kind` is the type of its sub-group policy."""
    policy = {} if segment is None else {"subGroupSize": segment}
    policy |= {} if kind is None else {"subGroupPolicyType": kind}
    template = {"size": size, "subGroupPolicy": policy, **fields.pop("template", {})}
    spec = {"leaderWorkerTemplate": template, **fields.pop("spec", {})}
    return item("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws", spec=spec, **fields)


def member(top: Json, index: int, **fields: Any) -> Json:
    """Return a member of the first replica; the leader has index 0."""
    labels = {f"{DOMAIN}/group-index": "0", f"{DOMAIN}/worker-index": str(index)}
    return pod(f"lws-0-{index}", top, labels=labels, **fields)


def grouped(top: Json, index: int) -> Json:
    """Return the group of a member."""
    return group_of(member(top, index), objects=[top])


def sub_groups(top: Json, size: int) -> list[str | None]:
    """Return the sub-group of each member."""
    return [grouped(top, index)["podSubGroup"] for index in range(size)]


def test_segments_with_the_leader_in_the_first_one() -> None:
    """If the workers do not divide evenly, the leader counts as a member of the first segment."""
    top = lws(size=6, segment=3)
    group = grouped(top, 0)
    assert minima(group) == {"segment-0": 3, "segment-1": 3, "leader": 1, "workers": 2}
    assert [each.get("parent") for each in group["subGroups"]] == [None, None, "segment-0", "segment-0"]
    assert sub_groups(top, 6) == ["leader", "workers", "workers", "segment-1", "segment-1", "segment-1"]


def test_a_last_segment_holds_the_rest() -> None:
    """The last segment needs as many members as are left."""
    assert minima(grouped(lws(size=6, segment=4), 5)) == {"segment-0": 4, "segment-1": 2, "leader": 1, "workers": 3}


def test_one_segment_holds_all_members() -> None:
    """A single segment needs exactly the members that exist."""
    assert minima(grouped(lws(size=5, segment=4), 1)) == {"segment-0": 5, "leader": 1, "workers": 4}
    assert minima(grouped(lws(size=4, segment=4), 1)) == {"segment-0": 4, "leader": 1, "workers": 3}


def test_a_leader_can_be_excluded_from_segments() -> None:
    """With `LeaderExcluded` the leader has a sub-group of its own, before the segments of the workers."""
    top = lws(size=7, segment=3, kind="LeaderExcluded")
    group = grouped(top, 0)
    assert minima(group) == {"leader": 1, "segment-0": 3, "segment-1": 3}
    assert all("parent" not in each for each in group["subGroups"])
    assert sub_groups(top, 7) == ["leader", *["segment-0"] * 3, *["segment-1"] * 3]


@pytest.mark.parametrize(
    ("top", "index", "said"),
    [
        pytest.param(lws(size=6, segment=3, kind="LeaderExcluded"), 0, "is not divisible by segmentSize 3", id="rest"),
        pytest.param(lws(segment=1), 0, "It must be greater than 1", id="one"),
        pytest.param(lws(segment=6), 0, "segmentSize 6 is greater than replicasSize 5", id="too large"),
        pytest.param(lws(size=0), 0, "invalid leaderWorkerTemplate.size 0 in LWS ml/lws", id="no members"),
        pytest.param(lws(spec={"leaderWorkerTemplate": {}}), 0, "leaderWorkerTemplate.size not found", id="no size"),
        pytest.param(lws(spec={"startupPolicy": "Whenever"}), 0, "unknown startupPolicy: Whenever", id="policy"),
        pytest.param(lws(segment=2), 9, "worker index 9 of pod ml/lws-0-9 is not below size 5", id="index"),
        pytest.param(
            lws(annotations={"kai.scheduler/segment-size": "x"}), 0, "invalid segment size annotation x", id="x"
        ),
    ],
)
def test_a_leader_worker_set_that_cannot_be_grouped_is_refused(top: Json, index: int, said: str) -> None:
    """The message says what is wrong."""
    assert said in error_of(member(top, index), objects=[top])


def test_sources_of_the_segment_size() -> None:
    """The policy counts before the annotation of the set, and that before the annotation of its template."""
    key = "kai.scheduler/segment-size"
    levels = {"kai.scheduler/topology": "dc", "kai.scheduler/segment-topology-required-placement": "rack"}
    template = {"workerTemplate": {"metadata": {"annotations": {key: "4", **levels}}}}
    by_template = grouped(lws(size=9, template=template), 8)
    assert minima(by_template)["segment-1"] == 4
    assert by_template["subGroups"][0]["topologyConstraint"]["requiredTopologyLevel"] == "rack"
    assert minima(grouped(lws(size=9, template=template, annotations={key: "3"}), 8))["segment-2"] == 3
    assert minima(grouped(lws(size=9, segment=2, template=template, annotations={key: "3"}), 8))["segment-3"] == 2


def test_a_pod_without_a_worker_index_has_no_segment() -> None:
    """Its segment cannot be known; without segments the pod counts as a worker, in a group without an index."""
    top = lws(segment=2)
    assert "failed to get worker index from pod ml/p" in error_of(pod("p", top), objects=[top])
    group = group_of(pod("p", lws()), objects=[lws()])
    assert (group["name"], group["podSubGroup"]) == ("pg-lws-uid-lws", "workers")


def test_only_the_leader_is_needed_before_it_is_placed() -> None:
    """With `LeaderReady` the minimum is 1 until the leader has a node, then the size, or what the pod says of it."""
    top = lws(spec={"startupPolicy": "LeaderReady"})
    first = grouped(top, 0)
    assert (first["minMember"], minima(first)) == (1, {"leader": 1})
    placed = member(top, 0, spec={"nodeName": "n1"}, annotations={f"{DOMAIN}/size": "4"})
    assert group_of(placed, objects=[top])["minMember"] == 4
    assert grouped(top, 2)["minMember"] == 5


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        pytest.param({"spec": {"nodeName": "n1"}}, 5, id="active"),
        pytest.param({}, 1, id="pending"),
        pytest.param({"spec": {"nodeName": "n1"}, "status": {"phase": "Failed"}}, 1, id="ended"),
        pytest.param(
            {"spec": {"nodeName": "n1"}, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, 1, id="ending"
        ),
    ],
)
def test_a_new_leader_does_not_lower_the_minimum(worker: Json, expected: int) -> None:
    """While members of the group are active, a leader that is created again changes nothing."""
    top = lws(spec={"startupPolicy": "LeaderReady"})
    other = member(top, 1, annotations={"pod-group-name": NAME}, **worker)
    group = group_of(member(top, 0), other, objects=[top])
    assert (group["name"], group["minMember"]) == (NAME, expected)
