"""The sort keys of pods of groups."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from hypothesis import given, strategies as st

from pyscheduler.api import Pod
from pyscheduler.framework import PodInfo, QueuedPodInfo
from pyscheduler.podgroup import GroupDirectory, GroupId, coscheduling_key, gang_key
from pyscheduler.testing import make_pod
from tests.podgroup.builders import GANG, created, make_group, member

#: 2026-01-01T00:00:00Z.
EPOCH = 1767225600.0
FIRED: Counter[str] = Counter()


def queued(pod: Pod, at: float = 0.0, first: float | None = None) -> QueuedPodInfo:
    """Return the pod as it queues."""
    return QueuedPodInfo(pod_info=PodInfo.of(pod), enqueued_at=at, first_attempt_at=first)


def test_pod_without_a_group_is_sorted_by_its_first_attempt() -> None:
    """Before its first attempt, it is the time at which the pod entered the queue."""
    directory = GroupDirectory()
    for info, time in ((queued(make_pod("p"), 7.0), 7.0), (queued(make_pod("p"), 7.0, 3.0), 3.0)):
        key = coscheduling_key(info, directory, {}, epoch=EPOCH)
        assert key == (0, EPOCH + time, "default/p", "", "default/p")


def test_group_is_sorted_by_creation_then_last_failure() -> None:
    """While the object is missing, each pod is sorted by its own time."""
    directory = GroupDirectory()
    pod = member("p", "g", priority=3)
    info = queued(pod, 9.0)
    directory.pod_added(pod)
    assert coscheduling_key(info, directory, {}, epoch=EPOCH)[1] == EPOCH + 9.0
    directory.object_added(make_group("g", minMember=1))
    assert coscheduling_key(info, directory, {}, epoch=EPOCH) == (-3, EPOCH, "default/g", "sigs", "default/p")
    failed = {GroupId("default", "g", "sigs"): EPOCH + 50}
    assert coscheduling_key(info, directory, failed, epoch=EPOCH)[1] == EPOCH + 50


def test_gang_is_sorted_by_its_gang_group() -> None:
    """The time is that of the oldest gang; then come the gang, the round and the pod's own creation."""
    directory = GroupDirectory()
    said = {f"{GANG}min-available": "1", f"{GANG}groups": '["default/a","default/b"]'}
    old = created(make_pod("old", annotations={f"{GANG}name": "b", **said}), "2026-01-01T00:00:00Z")
    new = created(make_pod("new", annotations={f"{GANG}name": "a", **said}), "2026-01-01T00:00:09Z")
    directory.pod_added(new)
    assert gang_key(queued(new), directory, {})[2] == EPOCH + 9
    directory.pod_added(old)
    key = gang_key(queued(new), directory, {new.uid: 4})
    assert key == (0, 0, EPOCH, "default/a,default/b", "koordinator", "default/a", 4, EPOCH + 9, "default/new")
    plain = make_pod("plain", labels={"koordinator.sh/priority": "5"})
    assert gang_key(queued(plain), directory, {}) == (
        0, -5, EPOCH, "default/plain", "", "default/plain", 0, EPOCH, "default/plain",
    )  # fmt: skip


pods = st.lists(
    st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(0, 1), st.integers(0, 3), st.sampled_from(["x", "y"])),
    max_size=12,
)


@given(pods, st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)), st.booleans())
def test_members_of_a_group_are_neighbours(
    drawn: list[tuple[str, int, int, str]], failures: dict[str, int], gangs: bool
) -> None:
    """In a sorted queue, members of one group and priority stand together, and no two pods have one key."""
    directory = GroupDirectory()
    infos = []
    for number, (group, priority, at, namespace) in enumerate(drawn):
        if gangs and group:
            listed = f'["{namespace}/a","{namespace}/b"]' if group in "ab" else ""
            said = {f"{GANG}name": group, f"{GANG}min-available": "1", f"{GANG}groups": listed}
            pod = make_pod(f"p{number}", namespace=namespace, annotations=said, priority=priority)
        else:
            pod = member(f"p{number}", group, namespace=namespace, priority=priority)
            if group:
                directory.object_added(make_group(group, namespace=namespace, minMember=1))
        pod = created(pod, f"2026-01-01T00:00:0{at}Z")
        directory.pod_added(pod)
        infos.append(queued(pod, float(at)))
    failed = {GroupId("x", name, "sigs"): EPOCH + at for name, at in failures.items()}

    def key(info: QueuedPodInfo) -> tuple[object, ...]:
        if gangs:
            return gang_key(info, directory, {})
        return coscheduling_key(info, directory, failed, epoch=EPOCH)

    def family(info: QueuedPodInfo) -> tuple[object, ...]:
        state = directory.of(info.pod)
        alone = info.pod.key if state is None else ""
        return (alone, info.pod.namespace, state and state.group.gang_group_id, info.pod.priority)

    assert len({key(info) for info in infos}) == len(infos)
    ordered = sorted(infos, key=key)
    blocks = [each for each, _ in groupby(ordered, key=family)]
    assert len(set(blocks)) == len(blocks)
    FIRED["interleaved"] += [each for each, _ in groupby(infos, key=family)] != blocks
    FIRED["several groups"] += len({each for each in blocks if not each[0]}) > 1


def test_the_property_had_something_to_show() -> None:
    """Groups did arrive interleaved, often."""
    FIRED.clear()
    test_members_of_a_group_are_neighbours()
    assert min(FIRED["interleaved"], FIRED["several groups"]) >= 3, FIRED
