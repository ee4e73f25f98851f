"""The directory: groups, members, their places, and changes."""

from __future__ import annotations

import msgspec
import pytest

from pyscheduler.api import Pod, PodStatus
from pyscheduler.podgroup import ChangeKind, GroupChange, GroupDirectory, GroupId, GroupState, MemberPlace
from pyscheduler.testing import make_pod
from tests.podgroup.builders import GANG, SIGS, created, make_group, member

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


def test_a_member_goes_from_place_to_place(directory: GroupDirectory) -> None:
    """A member is in one place at a time, and an update does not end that it holds a node."""
    pod = member("p", "g")
    directory.pod_added(pod)
    state = known(directory)
    places = [directory.place_of(pod.uid)]
    directory.hold(pod.uid)
    directory.pod_updated(pod, pod)
    places.append(directory.place_of(pod.uid))
    bound = pod.with_node_name("n1")
    directory.pod_updated(pod, bound)
    places.append(directory.place_of(pod.uid))
    running = msgspec.structs.replace(bound, status=msgspec.structs.replace(bound.status, phase="Running"))
    directory.pod_updated(bound, running)
    assert state.running == {pod.uid}
    ended = msgspec.structs.replace(bound, status=msgspec.structs.replace(bound.status, phase="Succeeded"))
    directory.pod_updated(running, ended)
    places.append(directory.place_of(pod.uid))
    assert places == [MemberPlace.PENDING, MemberPlace.WAITING, MemberPlace.BOUND, MemberPlace.SUCCEEDED]
    assert (state.child_count, len(state.succeeded), state.running) == (0, 1, set())
    assert state.satisfied
    directory.check_invariants()


def test_holding_and_releasing_concern_their_places_only(directory: GroupDirectory, told: list[str]) -> None:
    """Only pending members can hold, and only waiting ones release; other pods are ignored."""
    directory.pod_added(member("p", "g", node_name="n1"))
    told.clear()
    directory.hold("pod-default-p")
    directory.release("pod-default-p")
    directory.hold("nobody")
    assert directory.place_of("pod-default-p") is MemberPlace.BOUND
    assert told == []


def test_a_recreated_pod_is_another_member(directory: GroupDirectory) -> None:
    """Members are counted by uid, also if the watch reports the new pod as an update of the old one."""
    old = member("p", "g", uid="1", node_name="n1")
    new = member("p", "g", uid="2")
    directory.pod_added(old)
    directory.pod_updated(old, new)
    state = known(directory)
    assert (list(state.pending), list(state.bound)) == (["2"], [])


def test_scheduler_plugins_930_a_deleted_member_does_not_count(directory: GroupDirectory) -> None:
    """Deleted and failed members do not count any more at once."""
    directory.object_added(make_group("g", minMember=2))
    pods = [member(name, "g", node_name="n1") for name in ("a", "b")]
    for pod in pods:
        directory.pod_added(pod)
    directory.pod_deleted(pods[0])
    failed = msgspec.structs.replace(pods[1], status=msgspec.structs.replace(pods[1].status, phase="Failed"))
    directory.pod_updated(pods[1], failed)
    state = known(directory)
    assert (state.assigned_count, state.child_count) == (0, 0)


def test_pods_that_have_ended_neither_make_nor_keep_a_group(directory: GroupDirectory, told: list[str]) -> None:
    """Ended pods are counted when the group becomes known again."""
    done = member("done", "g", node_name="n1", status={"phase": "Succeeded"})
    directory.pod_added(done)
    assert directory.get(G) is None
    assert directory.of(done) is None
    running = member("a", "g", node_name="n1")
    directory.pod_added(running)
    assert list(known(directory).succeeded) == [done.uid]
    told.clear()
    failed = msgspec.structs.replace(running, status=msgspec.structs.replace(running.status, phase="Failed"))
    directory.pod_updated(running, failed)
    assert [line.split()[0] for line in told] == ["left", "forgotten"]
    told.clear()
    directory.object_added(make_group("g", minMember=1))
    assert (len(known(directory).succeeded), len(known(directory).failed)) == (1, 1)
    directory.pod_deleted(failed)
    directory.pod_added(member("more", "g", node_name="n1", status={"phase": "Failed"}))
    assert (len(known(directory).succeeded), len(known(directory).failed)) == (1, 1)
    assert [line.split()[0] for line in told] == ["declared", "moved", "moved"]
    directory.object_deleted(make_group("g", minMember=1))
    directory.pod_deleted(done)
    directory.pod_deleted(member("more", "g"))
    directory.check_invariants()


def test_a_waiting_member_that_is_relabelled_counts_as_pending(directory: GroupDirectory) -> None:
    """The node that it holds was for the old group."""
    pod = member("p", "g")
    directory.pod_added(pod)
    directory.hold(pod.uid)
    directory.pod_updated(pod, member("p", "h"))
    assert directory.get(G) is None
    assert list(known(directory, G._replace(name="h")).pending) == [pod.uid]


def test_a_pod_that_names_no_group_any_more_leaves(directory: GroupDirectory) -> None:
    """A pod leaves its group when the label is removed."""
    pod = member("p", "g")
    directory.pod_added(pod)
    directory.pod_updated(pod, member("p"))
    assert len(directory) == 0
    assert directory.of(member("p")) is None


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


def test_gated_members_are_counted_separately(directory: GroupDirectory, told: list[str]) -> None:
    """A gated pod is a member; the removal of its gates is a change."""
    gated = member("p", "g", scheduling_gates=("hold",))
    directory.pod_added(gated)
    assert known(directory).gated == {gated.uid}
    directory.pod_updated(gated, member("p", "g"))
    assert known(directory).gated == set()
    assert told[-1] == "moved default/g p"


def test_members_of_several_profiles(directory: GroupDirectory) -> None:
    """Members of all schedulers are known, with their number for each profile."""
    for name, scheduler in (("a", "one"), ("b", "one"), ("c", "two")):
        directory.pod_added(member(name, "g", scheduler_name=scheduler))
    assert known(directory).profiles == {"one": 2, "two": 1}
    directory.pod_deleted(member("c", "g"))
    assert known(directory).profiles == {"one": 2}


def test_the_oldest_member_decides(directory: GroupDirectory) -> None:
    """The oldest member counts, then the smaller name; when it is deleted, the next one."""
    gang = GroupId("default", "g", "koordinator")
    late = created(gang_member("a", "g", min_available="2"), "2026-01-01T00:00:09Z")
    early = gang_member("z", "g", min_available="4")
    earliest = gang_member("b", "g", min_available="three")
    for pod in (late, early, earliest):
        directory.pod_added(pod)
    group = known(directory, gang).group
    assert group.min == 4
    assert group.disagreements == ("members disagree on min: 4 counts, not 2",)
    directory.pod_deleted(early)
    assert known(directory, gang).group.min == 2


def test_the_time_of_a_gang_without_an_object(directory: GroupDirectory) -> None:
    """The time is that of the earliest member ever seen."""
    gang = GroupId("default", "g", "koordinator")
    late = created(gang_member("a", "g", min_available="1"), "2026-01-01T00:00:09Z")
    early = gang_member("b", "g", min_available="1")
    directory.pod_added(late)
    directory.pod_added(early)
    moment = known(directory, gang).group.created
    directory.pod_deleted(early)
    assert known(directory, gang).group.created == moment == 1767225600.0


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


def test_changing_the_gang_group_keeps_it_satisfied(directory: GroupDirectory) -> None:
    """A satisfied gang satisfies the gang group that it moves to."""
    gang = GroupId("default", "a", "koordinator")
    alone = make_group("a", dialect="koordinator", minMember=1)
    directory.object_added(alone)
    directory.satisfy(gang)
    listing = make_group(
        "a", dialect="koordinator", minMember=1, annotations={f"{GANG}groups": '["default/a","default/b"]'}
    )
    directory.object_added(listing)
    state = known(directory, gang)
    assert state.group.gang_group == ("default/a", "default/b")
    assert state.satisfied


def test_object_decides_the_dialect(directory: GroupDirectory) -> None:
    """If two dialects share a key, the object decides; with two objects, the first row."""
    pod = make_pod("p", annotations={"scheduling.k8s.io/group-name": "g"})
    directory.pod_added(pod)
    state = directory.of(pod)
    assert state is not None
    volcano = make_group("g", dialect="volcano", minMember=4)
    batch = make_group("g", dialect="kube-batch", kind=1, minMember=2)
    seen = [(state.group.dialect, state.group.min)]
    for change, item in (
        (directory.object_added, volcano),
        (directory.object_added, batch),
        (directory.object_deleted, batch),
    ):
        change(item)
        seen.append((state.group.dialect, state.group.min))
    assert seen == [("kube-batch", 0), ("volcano", 4), ("kube-batch", 2), ("volcano", 4)]


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


def test_the_dialect_of_a_group_without_an_object_is_that_of_its_pods(directory: GroupDirectory) -> None:
    """It is the first row by which a member names it, also after members leave or change their key."""
    gang = GroupId("default", "g", "koordinator")
    by_annotation = gang_member("a", "g", min_available="2")
    by_label = make_pod(
        "b", labels={"pod-group.scheduling.sigs.k8s.io": "g"}, annotations={f"{GANG}min-available": "2"}
    )
    directory.pod_added(by_annotation)
    dialects = [known(directory, gang).group.dialect]
    directory.pod_added(by_label)
    dialects.append(known(directory, gang).group.dialect)
    directory.pod_deleted(by_label)
    dialects.append(known(directory, gang).group.dialect)
    relabelled = msgspec.structs.replace(
        by_annotation,
        metadata=msgspec.structs.replace(
            by_annotation.metadata, labels=by_label.labels, annotations=by_label.annotations
        ),
    )
    directory.pod_updated(by_annotation, relabelled)
    dialects.append(known(directory, gang).group.dialect)
    assert dialects == ["annotation", "koordinator", "annotation", "koordinator"]
    directory.check_invariants()
