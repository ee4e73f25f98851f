"""What the group plugins of one scheduler share: claims, and when the queue sorts pods again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec
import pytest

from pyscheduler.api import KubeObject, Pod, kind_of
from pyscheduler.framework import ConfigError, PluginError, PreEnqueuePlugin
from pyscheduler.podgroup import DIALECTS, Dialect, GroupFields, GroupId, Key, KeyPlace, PodGroups, kinds_of
from pyscheduler.testing import FakeCluster, VirtualClock, make_pod
from tests.podgroup.builders import GANG, created, make_group, member

G = GroupId("default", "g", "sigs")


class Kit:
    """Groups, and what the queue is told."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.resorted: list[list[str]] = []
        self.groups = PodGroups(clock=self.clock, resort=self.resort)

    def resort(self, pods: Iterable[Pod]) -> None:
        self.resorted.append([pod.name for pod in pods])

    def taken(self) -> list[list[str]]:
        """Return what the queue was told since the last time."""
        told, self.resorted = self.resorted, []
        return told


@pytest.fixture
def kit() -> Kit:
    """Give groups of both plugins' dialects."""
    kit = Kit()
    kit.groups.claim("Coscheduling")
    kit.groups.claim("Gang")
    return kit


def gang_member(name: str, gang: str, moment: str, **annotations: str) -> Pod:
    """Return a member of a gang that its pods declare, created at a moment."""
    said = {f"{GANG}{key}": value for key, value in annotations.items()}
    return created(make_pod(name, annotations={f"{GANG}name": gang, f"{GANG}min-available": "1", **said}), moment)


def test_dialect_belongs_to_the_first_claim() -> None:
    """The second plugin gets the other dialects; a pod with two groups belongs to the dialect claimed first."""
    groups = Kit().groups
    assert [row.name for row in groups.claim("Gang", ["koordinator", "sigs"])] == ["koordinator", "sigs"]
    assert [row.name for row in groups.claim("Coscheduling", ["sigs", "kai"])] == ["kai"]
    both = make_pod("p", labels={"scheduling.x-k8s.io/pod-group": "s", "pod-group.scheduling.sigs.k8s.io": "k"})
    groups.directory.pod_added(both)
    served = groups.served_by("Gang", both)
    assert served is not None
    assert str(served.id) == "default/k"
    assert groups.served_by("Coscheduling", both) is None


def test_groups_that_nobody_claims_are_plain_pods() -> None:
    """Such groups are not known, unless a plugin sorts them."""
    groups = Kit().groups
    groups.directory.pod_added(member("p", "g"))
    assert len(groups.directory) == 0
    groups.sort_only("Coscheduling")
    pod = member("p", "g")
    groups.directory.pod_added(pod)
    state = groups.directory.of(pod)
    assert state is not None
    assert (groups.server_of(state), groups.served_by("Coscheduling", pod)) == ("", None)


def test_claims_are_made_before_pods_are_known(kit: Kit) -> None:
    """Later claims that change something, and claims of unknown dialects, are errors."""
    kit.groups.directory.pod_added(member("p", "g"))
    kit.groups.claim("Coscheduling")
    with pytest.raises(PluginError, match="when a plugin is made"):
        kit.groups.claim("GangScheduling")
    with pytest.raises(ConfigError, match='dialect "slurm"'):
        kit.groups.claim("Coscheduling", ["slurm"])


async def test_a_failure_moves_the_group_in_the_queue(kit: Kit) -> None:
    """The pending members are sorted again when the group fails, and when it passes Permit."""
    directory = kit.groups.directory
    directory.object_added(make_group("g", minMember=2))
    for name in ("a", "b", "c"):
        directory.pod_added(member(name, "g", node_name="n1" if name == "c" else ""))
    kit.taken()
    await kit.clock.advance(5.0)
    kit.groups.failed(G)
    assert kit.groups.last_failed == {G: kit.clock.wall()}
    assert kit.taken() == [["a", "b"]]
    kit.groups.passed(G)
    kit.groups.passed(G)
    assert kit.taken() == [["a", "b"]]
    kit.groups.failed(GroupId("default", "unknown", "sigs"))
    assert kit.taken() == []


def test_a_group_that_is_gone_leaves_no_failure_behind(kit: Kit) -> None:
    """Failures and rounds of deleted groups and pods are forgotten."""
    directory = kit.groups.directory
    pod = member("p", "g")
    directory.pod_added(pod)
    kit.groups.failed(G)
    kit.groups.tried(pod.uid, 3)
    assert kit.groups.rounds == {pod.uid: 3}
    directory.pod_deleted(pod)
    assert (kit.groups.last_failed, kit.groups.rounds) == ({}, {})
    kit.groups.tried(pod.uid, 4)
    assert kit.groups.rounds == {}


def test_problems_are_logged_once(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    """Each problem is logged once, and again after it was gone."""
    directory = kit.groups.directory
    for number in range(3):
        directory.object_added(make_group("g", minMember=-1, scheduleTimeoutSeconds=number + 1))
    directory.object_added(make_group("g", minMember=1))
    directory.object_added(make_group("g", minMember=-1))
    directory.pod_added(gang_member("a", "x", "2026-01-01T00:00:00Z", mode="Strict"))
    directory.pod_added(gang_member("b", "x", "2026-01-01T00:00:01Z", mode="NonStrict"))
    below = "Ignoring invalid field group=default/g spec.minMember: '-1' is less than 1; it counts as 0"
    disagree = "members disagree on mode: Strict counts, not NonStrict"
    assert caplog.messages == [below, below, f"Members of a group say different things group=default/x {disagree}"]


def test_a_member_that_ended_has_no_round(kit: Kit) -> None:
    """The round of an ended member is forgotten."""
    pod = member("p", "g", node_name="n1")
    kit.groups.directory.pod_added(pod)
    kit.groups.tried(pod.uid, 3)
    ended = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Failed"))
    kit.groups.directory.pod_updated(pod, ended)
    assert kit.groups.rounds == {}


def test_an_object_that_comes_or_goes_moves_its_pods(kit: Kit) -> None:
    """Pods are sorted again if the object changes the time of the group, and only then."""
    directory = kit.groups.directory
    for name in ("a", "b"):
        directory.pod_added(member(name, "g"))
    kit.taken()
    directory.object_added(make_group("g", minMember=1))
    assert kit.taken() == [["a", "b"]]
    directory.object_added(make_group("g", minMember=2))
    assert kit.taken() == []
    directory.object_deleted(make_group("g"))
    assert kit.taken() == [["a", "b"]]


def test_partners_are_sorted_again(kit: Kit) -> None:
    """When the oldest gang of a gang group comes or is deleted, members of all its gangs are sorted again."""
    directory = kit.groups.directory
    both = '["default/a","default/b"]'
    new = gang_member("new", "a", "2026-01-01T00:00:09Z", groups=both)
    old = gang_member("old", "b", "2026-01-01T00:00:00Z", groups=both)
    directory.pod_added(new)
    kit.taken()
    directory.pod_added(old)
    assert sorted({name for told in kit.taken() for name in told}) == ["new", "old"]
    directory.pod_deleted(old)
    assert kit.taken() == [["new"]]


class Sharing(PreEnqueuePlugin):
    """A plugin of each profile that looks at the groups."""

    watches = kinds_of(DIALECTS)

    def __init__(self, args: object = None, handle: Any = None) -> None:
        super().__init__(args, handle)
        self.groups = PodGroups.of(handle)
        self.groups.claim("Sharing", ["sigs"])

    def pre_enqueue(self, pod: Pod) -> None:
        return None


class AcmeGroup(KubeObject):
    """A group object of somebody else."""

    api_version: ClassVar[str] = "acme.example/v1"
    kind: ClassVar[str] = "Team"

    size: int = 0


TEAMS = kind_of(AcmeGroup, "teams")


def read_team(team: AcmeGroup) -> GroupFields:
    """Read somebody else's object."""
    return GroupFields(min=team.size)


class AcmeDialect(PreEnqueuePlugin):
    """A plugin of somebody else, which brings a dialect that is meant for `Serving`."""

    watches = (TEAMS,)

    def __init__(self, args: object = None, handle: Any = None) -> None:
        super().__init__(args, handle)
        keys = (Key(KeyPlace.ANNOTATION, "acme.example/team"),)
        row = Dialect(
            name="acme", system="Acme", keys=keys, claimed_by="Serving", kinds=(TEAMS,), object_fields=read_team
        )
        PodGroups.of(handle).add_dialect(row, handle)

    def pre_enqueue(self, pod: Pod) -> None:
        return None


class Serving(PreEnqueuePlugin):
    """A plugin that serves what is meant for it."""

    def __init__(self, args: object = None, handle: Any = None) -> None:
        super().__init__(args, handle)
        self.groups = PodGroups.of(handle)
        self.groups.claim("Serving")

    def pre_enqueue(self, pod: Pod) -> None:
        return None


@pytest.mark.parametrize("enable", [[Serving, AcmeDialect], [AcmeDialect, Serving]], ids=["after", "before"])
async def test_third_party_plugin_adds_a_dialect(cluster: FakeCluster, enable: list[type[PreEnqueuePlugin]]) -> None:
    """The plugin that the row names serves its groups, whichever plugin is made first."""
    cluster.add_node("n")
    cluster.serve(TEAMS)
    metadata = {"name": "t", "namespace": "default"}
    cluster.add({"apiVersion": TEAMS.api_version, "kind": TEAMS.kind, "metadata": metadata, "size": 7}, AcmeGroup)
    framework = cluster.framework(enable=enable)
    serving = framework.plugin("Serving")
    assert isinstance(serving, Serving)
    cluster.add_pod("p", annotations={"acme.example/team": "t"})
    await framework.settle()
    state = serving.groups.served_by("Serving", cluster.pod("p"))
    assert state is not None
    assert (state.group.min, len(state.bound), state.group.dialect) == (7, 1, "acme")


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: one
  plugins: {preEnqueue: {enabled: [{name: Sharing}]}}
- schedulerName: two
  plugins: {preEnqueue: {enabled: [{name: Sharing}]}}
"""


async def test_profiles_share_groups_and_a_crd_may_appear_later(cluster: FakeCluster) -> None:
    """Both profiles share one directory, which gets PodGroups when their CRD appears."""
    cluster.add_node("n")
    framework = cluster.framework(enable=[Sharing], config=CONFIG)
    one, two = (profile.plugins["Sharing"] for profile in framework.scheduler.profiles.values())
    assert isinstance(one, Sharing)
    assert isinstance(two, Sharing)
    assert one.groups is two.groups
    for scheduler in ("one", "two"):
        cluster.add_pod(f"p-{scheduler}", labels={"scheduling.x-k8s.io/pod-group": "g"}, scheduler_name=scheduler)
    await framework.settle()
    state = one.groups.directory.get(G)
    assert state is not None
    assert state.profiles == {"one": 1, "two": 1}
    assert not state.group.is_declared
    kind = next(iter(DIALECTS)).kinds[0]
    cluster.serve(kind)
    metadata = {"name": "g", "namespace": "default"}
    cluster.add(
        {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": {"minMember": 2}}, kind.type
    )
    await cluster.clock.advance(120.0)
    assert (state.group.min, state.group.is_declared) == (2, True)
    assert state.group.created > 0
    cluster.delete(kind.type, "g")
    await framework.settle()
    assert not state.group.is_declared
    one.groups.directory.check_invariants()
