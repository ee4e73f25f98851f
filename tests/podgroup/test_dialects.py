"""The keys by which pods name their groups, and the table of dialects."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import ConfigError
from pyscheduler.podgroup import (
    DIALECTS,
    Dialect,
    DialectTable,
    GroupDirectory,
    GroupFields,
    GroupId,
    Key,
    KeyPlace,
    kinds_of,
    resolve,
)
from pyscheduler.testing import make_pod
from tests.podgroup.builders import GANG, ROWS, make_group

GROUP_NAME = "scheduling.k8s.io/group-name"


def named(**keywords: Any) -> tuple[str, str, str] | None:
    """Return group, family and dialect of a pod."""
    found = resolve(make_pod("p", namespace="ml", **keywords), DIALECTS)
    return None if found is None else (str(found[0]), found[0].family, found[1].name)


@pytest.mark.parametrize(
    ("keywords", "family", "dialect"),
    [
        pytest.param({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, "sigs", "sigs", id="sigs"),
        pytest.param({"labels": {"pod-group.scheduling.ming.io": "g"}}, "ming", "ming", id="ming"),
        pytest.param(
            {"labels": {"pod-group.scheduling.x-k8s.io/name": "g"}}, "lightweight-x", "lightweight-x", id="x-k8s.io"
        ),
        pytest.param({"annotations": {GROUP_NAME: "g"}}, "group-name", "kube-batch", id="kube-batch"),
        pytest.param(
            {"annotations": {"scheduling.volcano.sh/group-name": "g"}}, "group-name", "kube-batch", id="volcano"
        ),
        pytest.param({"annotations": {"pod-group-name": "g"}}, "kai", "kai", id="kai"),
        pytest.param(
            {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}, "koordinator", "koordinator", id="koordinator"
        ),
        pytest.param(
            {"labels": {"pod-group.scheduling.sigs.k8s.io/name": "g"}}, "koordinator", "lightweight", id="label"
        ),
        pytest.param(
            {"annotations": {"pod-group.scheduling.sigs.k8s.io/name": "g"}},
            "koordinator",
            "lightweight",
            id="the same as an annotation",
        ),
        pytest.param({"annotations": {f"{GANG}name": "g"}}, "koordinator", "annotation", id="annotation"),
        pytest.param({"spec": {"schedulingGroup": {"podGroupName": "g"}}}, "intree", "intree", id="in-tree"),
    ],
)
def test_each_key_names_a_group(keywords: dict[str, Any], family: str, dialect: str) -> None:
    """A pod's group is in its own namespace, and of the family of the key."""
    assert named(**keywords) == ("ml/g", family, dialect)


def test_an_empty_value_names_nothing() -> None:
    """A key with an empty value is ignored, and a later key counts."""
    assert named() is None
    assert named(labels={"scheduling.x-k8s.io/pod-group": ""}) is None
    assert named(spec={"schedulingGroup": {}}) is None
    found = named(labels={"pod-group.scheduling.sigs.k8s.io": ""}, annotations={f"{GANG}name": "g"})
    assert found == ("ml/g", "koordinator", "annotation")


def test_keys_of_a_gang_are_read_in_order() -> None:
    """The label counts before the old label, then the old annotation, then Koordinator's annotation."""
    labels = {"pod-group.scheduling.sigs.k8s.io": "1", "pod-group.scheduling.sigs.k8s.io/name": "2"}
    annotations = {"pod-group.scheduling.sigs.k8s.io/name": "3", f"{GANG}name": "4"}
    order = []
    while (found := named(labels=labels, annotations=annotations)) is not None:
        order.append(found[0])
        place = labels or annotations
        place.pop(next(iter(place)))
    assert order == ["ml/1", "ml/2", "ml/3", "ml/4"]


def test_each_kind_belongs_to_one_dialect() -> None:
    """The type of an object finds its row, and no two rows share a type."""
    table = DialectTable()
    for dialect in DIALECTS:
        for number in range(len(dialect.kinds)):
            assert table.of_object(make_group("g", dialect=dialect.name, kind=number)) is dialect
    assert len(kinds_of(DIALECTS)) == 9
    assert table.of_object(make_pod("p")) is None


def test_which_plugin_serves_a_dialect() -> None:
    """Each row names one plugin."""
    table = DialectTable()
    assert {plugin: [row.name for row in table.claimed_by(plugin)] for plugin in ("Coscheduling", "Gang")} == {
        "Coscheduling": ["sigs", "ming", "lightweight-x", "kube-batch", "volcano", "kai"],
        "Gang": ["koordinator", "lightweight", "annotation"],
    }
    assert [row.name for row in table.claimed_by("GangScheduling")] == ["intree"]
    assert [row.name for row in table if row.count_succeeded] == ["kube-batch"]


def read_size(pod: Pod) -> GroupFields:
    """Read the dialect of somebody else."""
    return GroupFields(min=int(pod.labels.get("acme.example/size", "0")))


ACME = Dialect(
    name="acme",
    system="Acme",
    keys=(Key(KeyPlace.LABEL, "acme.example/team"),),
    claimed_by="Acme",
    pod_fields=read_size,
)


def test_another_dialect_is_one_more_row() -> None:
    """An added row finds pods and reads what they say."""
    table = DialectTable()
    table.add_dialect(ACME)
    table.add_dialect(attrs.evolve(ACME))
    assert len(table) == len(DIALECTS) + 1
    directory = GroupDirectory(table)
    for number in range(3):
        directory.pod_added(make_pod(f"p{number}", labels={"acme.example/team": "t", "acme.example/size": "2"}))
    state = directory.get(GroupId("default", "t", "acme"))
    assert state is not None
    assert (state.group.min, state.group.dialect, state.child_count) == (2, "acme", 3)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        pytest.param(
            attrs.evolve(ACME, name="sigs"),
            'there are two dialects of pod groups called "sigs"; rename one of them',
            id="name taken",
        ),
        pytest.param(
            attrs.evolve(ACME, keys=()),
            'dialect "acme" of pod groups has no key by which pods name their group',
            id="no key",
        ),
        pytest.param(
            attrs.evolve(ACME, kinds=ROWS["kai"].kinds),
            'dialect "acme" of pod groups has kinds, but nothing that reads them',
            id="no reader",
        ),
        pytest.param(
            attrs.evolve(ACME, kinds=ROWS["kai"].kinds, object_fields=ROWS["kai"].object_fields),
            'dialects "kai" and "acme" of pod groups both read KaiPodGroup; give each kind a type of its own',
            id="kind taken",
        ),
    ],
)
def test_a_row_that_cannot_work_is_refused(row: Dialect, message: str) -> None:
    """A bad row is a one-line error, and the table stays as it was."""
    table = DialectTable()
    with pytest.raises(ConfigError) as caught:
        table.add_dialect(row)
    assert str(caught.value) == message
    assert list(table) == list(DIALECTS)


def test_error_for_an_unknown_dialect_lists_all_dialects() -> None:
    """The error for an unknown dialect has the list of all dialects."""
    with pytest.raises(ConfigError, match=r'"slurm" of pod groups does not exist; known are sigs, ming, .*, intree'):
        DialectTable().named("slurm")
