"""The merge of what members and object say."""

from __future__ import annotations

from pyscheduler.podgroup import Group, GroupFields, GroupId, MatchPolicy, Mode, Origin, Problem
from pyscheduler.podgroup.model import merge

ID = GroupId("ml", "g", "koordinator")


def merged(*members: GroupFields, object: GroupFields | None = None) -> Group:
    """Merge for one and the same group."""
    return merge(ID, "koordinator", members=members, object=object, created=5.0)


def test_members_count_before_the_object() -> None:
    """For each field, members count in their order, then the object."""
    group = merged(
        GroupFields(wait_seconds=9.0),
        GroupFields(min=3, mode=Mode.NON_STRICT),
        object=GroupFields(min=1, wait_seconds=1.0, policy=MatchPolicy.ONLY_WAITING),
    )
    assert (group.min, group.wait_seconds, group.mode, group.policy) == (
        3,
        9.0,
        Mode.NON_STRICT,
        MatchPolicy.ONLY_WAITING,
    )
    assert (group.origin, group.is_declared, group.created) == (Origin.OBJECT, True, 5.0)


def test_defaults_of_undeclared_fields() -> None:
    """Without a minimum the group is not declared; mode is Strict, wait and policy are the plugin's."""
    group = merged(GroupFields(total=4))
    assert (group.origin, group.is_declared, group.min) == (Origin.NOBODY, False, 0)
    assert (group.mode, group.policy, group.wait_seconds, group.min_resources) == (Mode.STRICT, None, None, {})
    assert group.gang_group == ("ml/g",)
    assert merged(GroupFields(min=0)).origin is Origin.PODS
    assert merged(GroupFields(min=0)).is_declared


def test_an_object_without_a_usable_minimum_declares_nothing() -> None:
    """An object with an unusable minimum does not declare the group."""
    group = merged(object=GroupFields())
    assert (group.origin, group.is_declared) == (Origin.OBJECT, False)


def test_the_total_is_at_least_the_minimum() -> None:
    """A total that is missing or too small is raised."""
    assert merged(GroupFields(min=3)).total == 3
    assert merged(GroupFields(min=3, total=2)).total == 3
    assert merged(GroupFields(min=3, total=7)).total == 7


def test_a_gang_group_contains_the_gang() -> None:
    """A gang that is missing in its own list is added, with a problem; an empty list means this gang alone."""
    group = merged(GroupFields(min=1, gang_group=("ml/a", "ml/z")))
    assert group.gang_group == ("ml/a", "ml/g", "ml/z")
    assert group.gang_group_id == "ml/a,ml/g,ml/z"
    assert group.problems == (Problem("groups", "ml/a,ml/z", "does not name ml/g itself; it is added"),)
    assert merged(GroupFields(gang_group=())).problems == ()
    assert merged(GroupFields(gang_group=()), object=GroupFields(gang_group=("ml/a", "ml/g"))).gang_group == ("ml/g",)


def test_members_that_disagree_are_named() -> None:
    """A disagreement names the value that counts; a field that one member says is none."""
    group = merged(
        GroupFields(min=3, mode=Mode.STRICT),
        GroupFields(min=4, wait_seconds=3.0),
        GroupFields(min=5, problems=(Problem("mode", "x", "is bad"),)),
        object=GroupFields(min=9),
    )
    assert group.disagreements == ("members disagree on min: 3 counts, not 4, 5",)
    assert group.problems == (Problem("mode", "x", "is bad"),)
    assert merged(GroupFields(min=3), object=GroupFields(min=4)).disagreements == ()
