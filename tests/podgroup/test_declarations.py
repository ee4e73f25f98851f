"""What pods and objects say about their group, malformed values included."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.podgroup import NOTHING_SAID, GroupFields, MatchPolicy, Mode
from pyscheduler.testing import make_pod
from tests.podgroup.builders import GANG, ROWS, make_group


def said_by_pod(annotations: dict[str, str], labels: dict[str, str] | None = None) -> GroupFields:
    """Read a pod as a member of a gang."""
    read = ROWS["annotation"].pod_fields
    assert read is not None
    return read(make_pod("p", annotations=annotations, labels=labels))


def said_by(dialect: str, annotations: dict[str, str] | None = None, **spec: Any) -> GroupFields:
    """Read an object."""
    read = ROWS[dialect].object_fields
    assert read is not None
    return read(make_group("g", dialect=dialect, annotations=annotations, **spec))


def test_all_of_a_gangs_annotations_count() -> None:
    """Each annotation becomes one field, equal ones one object."""
    annotations = {
        f"{GANG}min-available": "3",
        f"{GANG}total-number": "4",
        f"{GANG}waiting-time": "1m30s",
        f"{GANG}mode": "NonStrict",
        f"{GANG}groups": '["ml/b", "ml/a", "ml/b"]',
        f"{GANG}match-policy": "only-waiting",
    }
    said = said_by_pod(annotations)
    assert said == GroupFields(
        min=3,
        total=4,
        wait_seconds=90.0,
        mode=Mode.NON_STRICT,
        gang_group=("ml/a", "ml/b"),
        policy=MatchPolicy.ONLY_WAITING,
    )
    assert said_by_pod(dict(annotations)) is said


def test_old_keys_are_read() -> None:
    """Older labels and annotations have the minimum and the policy; Koordinator's count before them."""
    prefix = "pod-group.scheduling.sigs.k8s.io/"
    assert said_by_pod({}, {f"{prefix}min-available": "2"}).min == 2
    assert said_by_pod({f"{prefix}min-available": "3"}).min == 3
    assert said_by_pod({f"{GANG}min-available": "4"}, {f"{prefix}min-available": "2"}).min == 4
    assert said_by_pod({f"{prefix}match-policy": "only-waiting"}).policy is MatchPolicy.ONLY_WAITING
    assert said_by_pod({}, {f"{prefix}match-policy": "only-waiting"}).policy is MatchPolicy.ONLY_WAITING
    assert said_by_pod({f"{GANG}gang-groups": '["ml/a"]'}).gang_group == ("ml/a",)
    assert said_by_pod({}) is NOTHING_SAID
    assert said_by_pod({"other": "annotation"}) is NOTHING_SAID


@pytest.mark.parametrize(
    ("key", "value", "field", "wanted"),
    [
        pytest.param("min-available", "three", "min", None, id="min: a word"),
        pytest.param("min-available", "", "min", None, id="min: empty"),
        pytest.param("min-available", "2.5", "min", None, id="min: a fraction"),
        pytest.param("min-available", "3000000000", "min", None, id="min: beyond 32 bits"),
        pytest.param("min-available", "-2", "min", 0, id="min: negative"),
        pytest.param("total-number", "many", "total", None, id="total: a word"),
        pytest.param("waiting-time", "soon", "wait_seconds", None, id="wait: a word"),
        pytest.param("waiting-time", "60", "wait_seconds", None, id="wait: no unit"),
        pytest.param("waiting-time", "-5s", "wait_seconds", None, id="wait: negative"),
        pytest.param("waiting-time", "0s", "wait_seconds", None, id="wait: zero"),
        pytest.param("mode", "strict", "mode", None, id="mode: lower case"),
        pytest.param("groups", "a,b", "gang_group", None, id="groups: no JSON"),
        pytest.param("groups", '{"a": 1}', "gang_group", None, id="groups: no list"),
        pytest.param("groups", '["a"]', "gang_group", None, id="groups: no namespace"),
        pytest.param("groups", "[1]", "gang_group", None, id="groups: numbers"),
        pytest.param("groups", "[" * 5000, "gang_group", None, id="groups: very deep"),
        pytest.param("match-policy", "sometimes", "policy", None, id="policy: unknown"),
    ],
)
def test_malformed_annotation_is_a_problem(key: str, value: str, field: str, wanted: object) -> None:
    """The field is left out, so that the next source counts, and the problem names the key."""
    said = said_by_pod({f"{GANG}{key}": value})
    assert getattr(said, field) == wanted
    (problem,) = said.problems
    assert problem.where == f"{GANG}{key}"
    assert len(str(problem)) < 250


@pytest.mark.parametrize("value", ["", "[]", " "])
def test_no_groups_is_a_group_of_one(value: str) -> None:
    """An empty list or text means this gang alone."""
    said = said_by_pod({f"{GANG}groups": value})
    assert said.gang_group == ()
    assert not said.problems


@pytest.mark.parametrize("dialect", ["sigs", "ming", "kube-batch", "volcano", "kai", "koordinator"])
def test_the_spec_of_a_pod_group(dialect: str) -> None:
    """Minimum, resources and timeout are read from every PodGroup; without a minimum there is no constraint."""
    said = said_by(dialect, minMember=4, minResources={"cpu": "4", "memory": "1Gi"}, scheduleTimeoutSeconds=30)
    assert (said.min, said.min_resources, said.wait_seconds) == (4, {"cpu": "4", "memory": "1Gi"}, 30.0)
    assert said_by(dialect) == GroupFields(min=0)


def test_field_names_of_kube_batch_are_read() -> None:
    """`minMembers` and `totalResources` of its design are read; `minMember` counts before."""
    said = said_by("kube-batch", minMembers=4, totalResources={"cpu": 4})
    assert (said.min, said.min_resources) == (4, {"cpu": 4})
    assert said_by("kube-batch", minMembers=4, minMember=2).min == 2


@pytest.mark.parametrize(
    ("dialect", "spec", "minimum", "where"),
    [
        pytest.param("sigs", {"minMember": 0}, 0, ["spec.minMember"], id="0 where the CRD asks for 1"),
        pytest.param("ming", {"minMember": 0}, 0, [], id="0 where it does not"),
        pytest.param("koordinator", {"minMember": 0}, 0, [], id="0 is no constraint for a gang"),
        pytest.param("sigs", {"minMember": -3}, 0, ["spec.minMember"], id="negative"),
        pytest.param("koordinator", {"minMember": -3}, 0, ["spec.minMember"], id="negative gang"),
        pytest.param("sigs", {"minMember": "five"}, None, ["spec.minMember"], id="a word"),
        pytest.param("sigs", {"minMember": True}, None, ["spec.minMember"], id="a bool"),
        pytest.param("sigs", {"minMember": "5"}, 5, [], id="digits"),
        pytest.param("sigs", {"minMember": 1, "minResources": 7}, 1, ["spec.minResources"], id="resources: a number"),
        pytest.param(
            "sigs",
            {"minMember": 1, "minResources": {"cpu": "lots", "memory": -1, "gpu": []}},
            1,
            ["spec.minResources.cpu", "spec.minResources.memory", "spec.minResources.gpu"],
            id="resources: no quantities",
        ),
        pytest.param(
            "sigs", {"minMember": 1, "scheduleTimeoutSeconds": 0}, 1, ["spec.scheduleTimeoutSeconds"], id="timeout 0"
        ),
        pytest.param(
            "sigs", {"minMember": 1, "scheduleTimeoutSeconds": "x"}, 1, ["spec.scheduleTimeoutSeconds"], id="timeout x"
        ),
    ],
)
def test_malformed_field_does_not_lose_the_object(
    dialect: str, spec: dict[str, Any], minimum: int | None, where: list[str]
) -> None:
    """The problem has the path of the field; the other fields count."""
    said = said_by(dialect, **spec)
    assert said.min == minimum
    assert [problem.where for problem in said.problems] == where
    assert (said.min_resources, said.wait_seconds) == (None, None)


def test_annotations_on_objects() -> None:
    """Koordinator's annotations on its PodGroup and on that of scheduler-plugins count before the spec."""
    annotations = {
        f"{GANG}total-number": "6",
        f"{GANG}mode": "NonStrict",
        f"{GANG}groups": '["ml/a"]',
        f"{GANG}match-policy": "waiting-and-running",
        f"{GANG}min-available": "4",
        f"{GANG}waiting-time": "9s",
    }
    for dialect in ("sigs", "koordinator"):
        assert said_by(dialect, annotations, minMember=2, scheduleTimeoutSeconds=60) == GroupFields(
            min=4,
            total=6,
            wait_seconds=9,
            mode=Mode.NON_STRICT,
            gang_group=("ml/a",),
            policy=MatchPolicy.WAITING_AND_RUNNING,
        )
    assert said_by("volcano", annotations, minMember=2) == GroupFields(min=2)
    (problem,) = said_by("koordinator", {f"{GANG}mode": "x"}, minMember=2).problems
    assert problem.where == f"{GANG}mode"
    useless = {f"{GANG}min-available": "some", f"{GANG}waiting-time": "soon"}
    fields = said_by("koordinator", useless, minMember=2, scheduleTimeoutSeconds=60)
    assert (fields.min, fields.wait_seconds) == (2, 60)


def test_kubernetes_own_pod_group() -> None:
    """A gang has `minCount`; `basic`, or no policy, is no gang."""
    gang = said_by("intree", schedulingPolicy={"gang": {"minCount": 4}})
    assert (gang.min, gang.is_gang) == (4, True)
    for policy in ({"basic": {}}, {}):
        basic = said_by("intree", schedulingPolicy=policy)
        assert (basic.min, basic.is_gang) == (0, False)
    (problem,) = said_by("intree", schedulingPolicy={"gang": {"minCount": 0}}).problems
    assert problem.where == "spec.schedulingPolicy.gang.minCount"


def test_labels_of_a_group_without_an_object() -> None:
    """The labels of coscheduling's lightweight groups have the minimum."""
    read = ROWS["lightweight-x"].pod_fields
    assert read is not None
    key = "pod-group.scheduling.x-k8s.io/min-available"
    assert read(make_pod("p", labels={key: "3"})) == GroupFields(min=3)
    assert read(make_pod("p")) is NOTHING_SAID
    assert read(make_pod("p", labels={key: "x"})).problems[0].where == key
