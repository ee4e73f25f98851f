"""The directory: groups, members, their places, and changes."""

from __future__ import annotations

import msgspec
import pytest

from pyscheduler.api import Pod, PodStatus
from pyscheduler.podgroup import ChangeKind, GroupChange, GroupDirectory, GroupId, GroupState, MemberPlace
from pyscheduler.testing import make_pod
from tests.podgroup.builders import GANG, SIGS, make_group, member

G = GroupId("default", "g", "sigs")


@pytest.fixture
def directory() -> GroupDirectory:
    """Give an empty directory."""
    return GroupDirectory()


@pytest.fixture
def told(directory: GroupDirectory) -> list[str]:
    """Give what listeners are told, in short."""
    texts: list[str] = []

    def listen(change: GroupChange) -> None:
        pod = f" {change.pod.name}" if change.pod else ""
        texts.append(f"{change.kind} {change.state.id}{pod}")

    directory.subscribe(listen)
    return texts


def known(directory: GroupDirectory, group: GroupId = G) -> GroupState:
    """Return a group that has to be there."""
    state = directory.get(group)
    assert state is not None
    return state


def gang_member(name: str, gang: str, *, namespace: str = "default", **annotations: str) -> Pod:
    """Return a member of a gang that pods declare."""
    said = {f"{GANG}{key.replace('_', '-')}": value for key, value in annotations.items()}
    return make_pod(name, namespace=namespace, annotations={f"{GANG}name": gang, **said})


def test_pods_may_come_before_their_object(directory: GroupDirectory, told: list[str]) -> None:
    """The group is known from its first pod, declared when the object comes, and forgotten with the last of both."""
    pod, group = member("p", "g"), make_group("g", minMember=2)
    directory.pod_added(pod)
    assert not known(directory).group.is_declared
    directory.object_added(group)
    assert (known(directory).group.min, known(directory).child_count) == (2, 1)
    directory.object_deleted(group)
    assert not known(directory).group.is_declared
    assert directory.of(pod) is known(directory)
    directory.pod_deleted(pod)
    assert len(directory) == 0
    assert told == [
        "joined default/g p",
        "declared default/g",
        "declared default/g",
        "declared default/g",
        "left default/g p",
        "forgotten default/g",
    ]


def test_an_announced_pod_is_a_member_until_events_show_its_group(directory: GroupDirectory) -> None:
    """Updates that do not show the group yet change nothing; the one that does ends the announcement."""
    plain = make_pod("p", uid="u")
    announced = msgspec.structs.replace(
        member("p", "g"), metadata=msgspec.structs.replace(member("p", "g").metadata, uid="u")
    )
    directory.pod_added(plain)
    directory.expect(announced)
    assert directory.of(plain) is known(directory)
    assert directory.expected(plain) is announced
    other = msgspec.structs.replace(plain, metadata=msgspec.structs.replace(plain.metadata, resource_version="2"))
    directory.pod_updated(plain, other)
    assert (directory.group_id(other), known(directory).child_count) == (G, 1)
    directory.pod_updated(other, announced)
    assert directory.expected(plain) is plain
    assert directory.of(announced) is known(directory)
    directory.pod_deleted(announced)
    assert len(directory) == 0


def test_an_announcement_ends_with_its_pod(directory: GroupDirectory) -> None:
    """A deleted pod is a member of nothing; an announcement without a group, or of an ended pod, has no effect."""
    announced = member("p", "g")
    directory.expect(announced)
    directory.pod_deleted(announced)
    assert (len(directory), directory.expected(announced)) == (0, announced)
    directory.expect(make_pod("q"))
    assert len(directory) == 0
    ended = msgspec.structs.replace(member("r", "g"), status=PodStatus(phase="Succeeded"))
    directory.object_added(make_group("g", minMember=1))
    directory.pod_added(ended)
    directory.expect(ended)
    assert directory.place_of(ended.uid) is MemberPlace.SUCCEEDED


def test_an_announced_bound_pod_does_not_satisfy_its_group(directory: GroupDirectory) -> None:
    """It was bound before it was a member."""
    directory.object_added(make_group("g", minMember=3))
    directory.expect(member("p", "g", node_name="n"))
    assert not known(directory).gang_group.satisfied


def test_groups_of_one_name(directory: GroupDirectory) -> None:
    """Namespaces and families keep groups of one name apart."""
    directory.pod_added(member("p", "g"))
    directory.pod_added(member("p", "g", namespace="other"))
    directory.pod_added(gang_member("q", "g"))
    assert [(str(state.id), state.id.family) for state in directory] == [
        ("default/g", "sigs"),
        ("other/g", "sigs"),
        ("default/g", "koordinator"),
    ]


def test_gangs_that_list_each_other_are_satisfied_together(directory: GroupDirectory) -> None:
    """They share one `GangGroup`, which any of them satisfies, until the last is gone."""
    both = '["default/a", "other/b"]'
    one = gang_member("p", "a", min_available="1", groups=both)
    two = gang_member("q", "b", namespace="other", min_available="1", groups=both)
    directory.pod_added(one)
    a = known(directory, GroupId("default", "a", "koordinator"))
    b = GroupId("other", "b", "koordinator")
    assert directory.partners(a) == [(a.id, a), (b, None)]
    directory.pod_added(two)
    assert known(directory, b).gang_group is a.gang_group
    directory.satisfy(b)
    assert a.satisfied
    directory.pod_deleted(one)
    assert known(directory, b).satisfied
    directory.pod_deleted(two)
    directory.pod_added(two)
    assert not known(directory, b).satisfied


def test_a_one_sided_list_is_two_gang_groups(directory: GroupDirectory) -> None:
    """A gang that lists no other is independent of a gang that lists it."""
    directory.pod_added(gang_member("p", "a", min_available="1", groups='["default/a", "default/b"]'))
    directory.pod_added(gang_member("q", "b", min_available="1"))
    a, b = (known(directory, GroupId("default", name, "koordinator")) for name in ("a", "b"))
    directory.satisfy(b.id)
    assert (a.satisfied, b.satisfied) == (False, True)
    assert [known for _, known in directory.partners(a)] == [a, b]
    assert [known for _, known in directory.partners(b)] == [b]


def test_a_listener_may_change_the_directory(directory: GroupDirectory, told: list[str]) -> None:
    """Its changes are reported after the current change, each once."""
    pods = [member(name, "g") for name in ("a", "b")]

    def hold_all(change: GroupChange) -> None:
        if change.kind is ChangeKind.JOINED and change.state.child_count == 2:
            for uid in list(change.state.pending):
                directory.hold(uid)

    directory.subscribe(hold_all)
    for pod in pods:
        directory.pod_added(pod)
    assert told == [
        "joined default/g a",
        "declared default/g",
        "joined default/g b",
        "moved default/g a",
        "moved default/g b",
    ]


def test_failing_listener_does_not_stop_other_listeners(directory: GroupDirectory) -> None:
    """All listeners get all changes; then the exception is raised."""
    texts: list[str] = []

    def fail(change: GroupChange) -> None:
        raise RuntimeError(f"on purpose at {change.kind}")

    directory.subscribe(fail)
    directory.subscribe(lambda change: texts.append(str(change.kind)))
    with pytest.raises(RuntimeError, match="on purpose at joined"):
        directory.pod_added(member("a", "g"))
    assert texts == ["joined", "declared"]
    directory.check_invariants()


def test_unused_dialects_are_ignored() -> None:
    """A directory ignores pods and objects of dialects that it does not use."""
    directory = GroupDirectory(())
    directory.pod_added(member("p", "g"))
    directory.object_added(make_group("g", minMember=1))
    directory.object_deleted(make_group("g", minMember=1))
    assert len(directory) == 0
    assert directory.group_id(make_pod("p", labels={SIGS: "g"})) is None


def test_facts_are_counted_from_the_members(directory: GroupDirectory) -> None:
    """Koordinator #2030: the facts are counted from the members, so they cannot drift."""
    directory.object_added(make_group("g", minMember=2))
    for name, phase, node in (("a", "Running", "n"), ("b", "Succeeded", "n"), ("c", "Failed", "n"), ("d", "", "")):
        directory.pod_added(member(name, "g", node_name=node, status={"phase": phase}))
    directory.hold("pod-default-d")
    facts = known(directory).facts()
    assert (facts.min, facts.members, facts.bound, facts.waiting) == (2, 4, 1, 1)
    assert (facts.running, facts.succeeded, facts.failed, facts.placed) == (1, 1, 1, 3)
