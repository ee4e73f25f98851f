"""The status controller: what it writes, when, and how it handles failures."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import attrs
import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import KubeObject, Pod, format_time
from pyscheduler.podgroup import DIALECTS, KeyPlace, StatusController, status_rules
from pyscheduler.podgroup.status import ConditionStatus
from pyscheduler.podgroup.wire import GroupStatus, IncubatorPodGroup
from pyscheduler.testing import FakeCluster, FakeFramework
from tests.podgroup.builders import ROWS

STATUS = r"/podgroups/[^/]+/status$"


class GroupStatusCluster:
    """Groups of one dialect on one node with room for all, and a scheduler with the plugin that serves them."""

    def __init__(self, cluster: FakeCluster, dialect: str = "sigs", *, profiles: tuple[str, ...] = ("one",)) -> None:
        self.cluster = cluster
        self.row = ROWS[dialect]
        (self.kind, *_) = self.row.kinds
        self.type: type[KubeObject] = self.kind.type
        cluster.serve(self.kind)
        cluster.add_node("n", allocatable={"cpu": "9000", "pods": "9000"})
        self.profiles = profiles
        self.writes = self.fail(times=None)

    def start(self) -> FakeFramework:
        """Make a scheduler."""
        plugin = self.row.claimed_by
        order = {"enabled": [{"name": "GangSort"}], "disabled": [{"name": "*"}]}
        body = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"qps": -1},
            "profiles": [
                {
                    "schedulerName": name,
                    "plugins": {"queueSort": order, "multiPoint": {"enabled": [{"name": plugin}]}},
                }
                for name in self.profiles
            ],
        }
        return self.cluster.framework(config=json.dumps(body))

    def group(self, name: str, minimum: int, **metadata: Any) -> None:
        """Create a PodGroup."""
        manifest = {
            "apiVersion": self.kind.api_version,
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {"minMember": minimum},
        }
        self.cluster.add(manifest, self.type)

    def pods(self, group: str, count: int, *, start: int = 0, **keywords: Any) -> None:
        """Create members, owned by a job."""
        (key, *_) = self.row.keys
        where = "labels" if key.place is KeyPlace.LABEL else "annotations"
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-{group}", "uid": f"job-{group}"}
        for number in range(start, start + count):
            metadata = {"ownerReferences": [owner], where: {key.name: group}}
            keywords.setdefault("scheduler_name", self.profiles[0])
            manifest: dict[str, Any] = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{group}-{number}", "namespace": "default", **metadata},
                "spec": {
                    "schedulerName": keywords["scheduler_name"],
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
                    **keywords.get("spec", {}),
                },
            }
            self.cluster.add(manifest, Pod)

    def go(self, group: str, phase: str, *numbers: int) -> None:
        """Let members run, or end."""
        for number in numbers:
            self.cluster.patch(Pod, f"{group}-{number}", {"status": {"phase": phase}}, status=True)

    def status(self, name: str) -> GroupStatus:
        """Return the status of a PodGroup."""
        found = next(each for each in self.cluster.objects(self.type) if each.name == name)
        status = getattr(found, "status")  # noqa: B009 - all kinds here have one
        assert isinstance(status, GroupStatus)
        return status

    def fail(self, status: int = 0, *, times: int | None = 1, path: str = STATUS, **keywords: Any) -> Fault:
        """Let writes of statuses fail; without `status` they are only counted."""
        fault = Fault(method="PATCH", path=path, status=status, times=times, **keywords)
        self.cluster.server.faults._faults.insert(0, fault)
        return fault

    async def pass_time(self, scheduler: FakeFramework, seconds: float = 0) -> None:
        """Let the scheduler work for so long."""
        await scheduler.settle()
        await self.cluster.clock.advance(seconds)
        await scheduler.settle()


def phases_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each phase that is written."""
    from pyscheduler.cluster.real.client import RealClient

    seen: list[str] = []
    patch_of = RealClient.patch

    async def patch(self: RealClient, kind: Any, name: str, namespace: str = "", **keywords: Any) -> Any:
        phase = keywords["patch"].get("status", {}).get("phase")
        if keywords.get("status") and phase:
            seen.append(phase)
        return await patch_of(self, kind, name, namespace, **keywords)

    monkeypatch.setattr(RealClient, "patch", patch)
    return seen


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("dialect", "phases"),
    [
        pytest.param("sigs", ["Pending", "Scheduling", "Running", "Finished"], id="sigs"),
        pytest.param("ming", ["Pending", "Scheduling", "Scheduled", "Running", "Finished"], id="ming"),
        pytest.param(
            "koordinator",
            ["Pending", "PreScheduling", "Scheduling", "Scheduled", "Running", "Finished"],
            id="koordinator",
        ),
    ],
)
async def test_group_goes_through_the_phases_of_its_dialect(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, dialect: str, phases: list[str]
) -> None:
    """Each write moves the phase one step, from none to Finished; ended pods count."""
    written = phases_of(monkeypatch)
    world = GroupStatusCluster(cluster, dialect)
    scheduler = world.start()
    world.group("g", 3)
    await world.pass_time(scheduler)
    assert world.status("g").phase == "Pending"
    # What has no room yet lets all phases be seen.
    world.cluster.delete_node("n")
    world.pods("g", 3)
    await world.pass_time(scheduler)
    assert world.status("g").occupied_by == "default/job-g"
    world.cluster.add_node("m", allocatable={"cpu": "9", "pods": "9"})
    await world.pass_time(scheduler, 30)
    assert world.status("g").schedule_start_time is not None
    world.go("g", "Running", 0, 1, 2)
    await world.pass_time(scheduler)
    assert (world.status("g").phase, world.status("g").running) == ("Running", 3)
    world.go("g", "Succeeded", 0, 1)
    await world.pass_time(scheduler, 2)
    assert (world.status("g").running, world.status("g").succeeded) == (1, 2)
    world.go("g", "Succeeded", 2)
    await world.pass_time(scheduler, 2)
    assert (world.status("g").phase, world.status("g").succeeded) == ("Finished", 3)
    assert written == phases
    writes = world.writes.hits
    world.cluster.delete_pod("g-1")
    await world.pass_time(scheduler, 600)
    assert world.status("g").phase == "Finished"
    assert world.writes.hits == writes


async def test_members_that_ended_count_until_they_are_deleted(cluster: FakeCluster) -> None:
    """Ended members count until deletion; then the group goes back to Scheduling."""
    world = GroupStatusCluster(cluster)
    scheduler = world.start()
    world.group("g", 3)
    world.pods("g", 4)
    await world.pass_time(scheduler)
    world.go("g", "Running", 0, 1, 2)
    await world.pass_time(scheduler)
    world.go("g", "Succeeded", 0)
    await world.pass_time(scheduler, 2)
    assert (world.status("g").phase, world.status("g").running, world.status("g").succeeded) == ("Running", 2, 1)
    world.cluster.delete_pod("g-0")
    await world.pass_time(scheduler, 2)
    assert (world.status("g").phase, world.status("g").running, world.status("g").succeeded) == ("Scheduling", 2, 0)


async def test_group_with_failed_members_is_failed(cluster: FakeCluster) -> None:
    """A group with a failed member, of which the minimum started, is Failed for good."""
    world = GroupStatusCluster(cluster)
    scheduler = world.start()
    world.group("g", 2)
    world.pods("g", 2)
    await world.pass_time(scheduler)
    world.go("g", "Running", 0, 1)
    await world.pass_time(scheduler)
    world.go("g", "Failed", 0)
    await world.pass_time(scheduler, 2)
    assert (world.status("g").phase, world.status("g").failed, world.status("g").running) == ("Failed", 1, 1)
    world.pods("g", 3, start=2)
    await world.pass_time(scheduler, 2)
    assert world.status("g").phase == "Failed"


@pytest.mark.slow
async def test_large_gang_needs_few_status_writes(cluster: FakeCluster) -> None:
    """Three hundred members need few writes, and the final counts are exact."""
    world = GroupStatusCluster(cluster, "koordinator")
    scheduler = world.start()
    world.group("g", 300)
    world.pods("g", 300)
    await world.pass_time(scheduler, 5)
    assert (world.status("g").phase, world.status("g").scheduled) == ("Scheduled", 300)
    for number in range(300):
        world.go("g", "Running", number)
        if number % 10 == 0:
            await world.pass_time(scheduler, 0.01)
    await world.pass_time(scheduler, 5)
    assert (world.status("g").phase, world.status("g").running) == ("Running", 300)
    assert world.writes.hits < 20


async def test_unchanged_status_is_not_written(cluster: FakeCluster) -> None:
    """There is no write later, after a restart, or because of the controller's own writes."""
    world = GroupStatusCluster(cluster)
    first = world.start()
    world.group("g", 2)
    world.pods("g", 2)
    await world.pass_time(first, 600)
    writes = world.writes.hits
    assert writes
    await first.scheduler.stop(at_once=True, grace_seconds=0)
    second = world.start()
    await world.pass_time(second, 600)
    assert world.writes.hits == writes
    world.cluster.patch(world.type, "g", {"status": {"running": 7, "phase": "Pending"}}, status=True)
    await world.pass_time(second, 2)
    assert (world.status("g").running, world.status("g").phase) == (0, "Scheduling")


async def test_status_write_wakes_no_pod(cluster: FakeCluster) -> None:
    """Unschedulable members sleep on when the status changes."""
    world = GroupStatusCluster(cluster)
    scheduler = world.start()
    world.group("g", 9)
    world.pods("g", 2)
    await world.pass_time(scheduler, 100)
    cycles = scheduler.scheduler.cycles
    world.cluster.patch(world.type, "g", {"status": {"running": 7}}, status=True)
    await world.pass_time(scheduler, 30)
    assert world.status("g").running == 0
    assert scheduler.scheduler.cycles == cycles


@pytest.mark.sampled(2)
@pytest.mark.parametrize("status", [403, 404, 409, 500, 503])
async def test_failed_status_write_is_retried(
    cluster: FakeCluster, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Pods are bound meanwhile; the failure is logged once and retried after growing pauses."""
    world = GroupStatusCluster(cluster)
    scheduler = world.start()
    fault = world.fail(status, times=8 if status == 403 else 30)
    for name in ("a", "b", "c"):
        world.group(name, 2)
        world.pods(name, 2)
    await world.pass_time(scheduler, 60)
    assert all(scheduler.result(f"{name}-{number}").bound for name in "abc" for number in (0, 1))
    assert fault.hits
    if status < 500:  # The client itself tries those again.
        told = [message for message in caplog.messages if "Status of pod group is not written" in message]
        assert len(told) == (1 if status == 403 else 3)
    await world.pass_time(scheduler, 1200)
    assert [world.status(name).phase for name in "abc"] == ["Scheduling"] * 3


@pytest.mark.slow
async def test_refused_status_writes_pause_for_the_kind(cluster: FakeCluster) -> None:
    """Forty groups without the permission do not cause forty requests a second."""
    world = GroupStatusCluster(cluster)
    scheduler = world.start()
    fault = world.fail(403, times=None)
    for number in range(40):
        world.group(f"g{number}", 1)
    await world.pass_time(scheduler, 3600)
    assert 10 < fault.hits < 120


async def test_another_writer_is_not_overwritten(cluster: FakeCluster) -> None:
    """A write based on an old version is refused, and the next step uses the new version."""
    world = GroupStatusCluster(cluster)
    world.group("g", 2)
    world.cluster.patch(world.type, "g", {"status": {"phase": "Running"}}, status=True)
    scheduler = world.start()
    world.pods("g", 2, spec={"nodeName": "n"})
    await world.pass_time(scheduler)
    before = world.status("g")
    world.cluster.patch(world.type, "g", {"status": {"phase": "Finished"}}, status=True)
    world.go("g", "Running", 0, 1)
    await world.pass_time(scheduler, 5)
    assert before.phase == "Scheduling"
    assert world.status("g").phase == "Finished"


async def test_timeout_warning_is_recorded_once(cluster: FakeCluster) -> None:
    """The event is about the PodGroup, whose status does not change any more."""
    world = GroupStatusCluster(cluster)
    scheduler = world.start()
    world.group("g", 2)
    begun = format_time(world.cluster.clock.wall() + 48 * 3600 + 60)
    status = {"phase": "Pending", "scheduleStartTime": begun}
    world.cluster.patch(world.type, "g", {"status": status}, status=True)
    world.pods("g", 2)
    await world.pass_time(scheduler, 60)
    (event,) = world.cluster.events("Timeout")
    assert (event["type"], event["note"]) == ("Warning", "schedule time longer than 48 hours")
    found = next(each for each in world.cluster.objects(world.type) if each.name == "g")
    assert {key: event["regarding"][key] for key in ("apiVersion", "kind", "name", "namespace", "uid")} == {
        "apiVersion": world.kind.api_version,
        "kind": "PodGroup",
        "name": "g",
        "namespace": "default",
        "uid": found.uid,
    }
    for start in (None, begun):  # another program withdraws the start, then sets it again
        world.cluster.patch(world.type, "g", {"status": {"phase": "Pending", "scheduleStartTime": start}}, status=True)
        await world.pass_time(scheduler, 900)  # longer than an event gathers repetitions
    world.go("g", "Running", 0, 1)
    await world.pass_time(scheduler, 600)
    assert world.status("g").phase == "Pending"
    assert len(world.cluster.events("Timeout")) == 1


async def test_kube_batch_group_warns_that_too_few_pods_are_left(cluster: FakeCluster) -> None:
    """The warning is recorded once for as long as it is true."""
    world = GroupStatusCluster(cluster, "kube-batch")
    scheduler = world.start()
    world.group("g", 3)
    world.pods("g", 3)
    await world.pass_time(scheduler, 2)
    assert world.status("g") == GroupStatus(admitted=3)
    world.go("g", "Running", 0, 1, 2)
    await world.pass_time(scheduler, 2)
    world.go("g", "Succeeded", 0)
    await world.pass_time(scheduler, 2)
    assert world.status("g") == GroupStatus(admitted=2, running=2, succeeded=1)
    assert world.cluster.events("Unschedulable") == []
    world.go("g", "Failed", 1)
    await world.pass_time(scheduler, 60)
    (event,) = world.cluster.events("Unschedulable")
    assert event["note"] == "2 of at least 3 pods are left: 1 running, 1 succeeded, 1 failed"
    assert event["regarding"]["apiVersion"] == IncubatorPodGroup.api_version
    assert world.status("g") == GroupStatus(admitted=1, running=1, succeeded=1, failed=1)


async def test_succeeded_members_count_in_kube_batch_groups(cluster: FakeCluster) -> None:
    """Two of three members have succeeded before the scheduler starts; the third is bound."""
    world = GroupStatusCluster(cluster, "kube-batch")
    world.group("g", 3)
    world.pods("g", 2, spec={"nodeName": "n"})
    world.go("g", "Succeeded", 0, 1)
    world.pods("g", 1, start=2)
    scheduler = world.start()
    await world.pass_time(scheduler, 5)
    assert scheduler.result("g-2").bound
    assert world.status("g") == GroupStatus(admitted=1, succeeded=2)


async def test_volcano_groups_get_counts_and_keep_their_phase(cluster: FakeCluster) -> None:
    """Volcano's controllers write the phase."""
    world = GroupStatusCluster(cluster, "volcano")
    scheduler = world.start()
    world.group("g", 2)
    world.cluster.patch(world.type, "g", {"status": {"phase": "Inqueue"}}, status=True)
    world.pods("g", 2)
    await world.pass_time(scheduler, 2)
    world.go("g", "Running", 0, 1)
    await world.pass_time(scheduler, 2)
    assert world.status("g") == GroupStatus(phase="Inqueue", running=2)


async def test_status_of_kai_groups_is_not_written(cluster: FakeCluster) -> None:
    """KAI's controller writes the status."""
    world = GroupStatusCluster(cluster, "kai")
    scheduler = world.start()
    world.group("g", 2)
    world.pods("g", 2)
    await world.pass_time(scheduler, 2)
    assert scheduler.result("g-0").bound
    assert world.writes.hits == 0


async def test_a_plugin_that_only_sorts_writes_nothing(cluster: FakeCluster) -> None:
    """The status of groups without a serving plugin is not written."""
    world = GroupStatusCluster(cluster)
    scheduler = world.cluster.framework(disable=("PrioritySort",), enable=("GangSort",))
    world.group("g", 2)
    world.pods("g", 2, scheduler_name="pyscheduler")
    await world.pass_time(scheduler, 5)
    assert scheduler.result("g-0").bound
    assert world.writes.hits == 0


async def test_there_is_one_controller_for_all_profiles(cluster: FakeCluster) -> None:
    """Members of both profiles count, and each change is written once."""
    world = GroupStatusCluster(cluster, profiles=("one", "two"))
    scheduler = world.start()
    world.group("g", 1)
    world.pods("g", 1)
    await world.pass_time(scheduler, 5)
    assert (world.status("g").phase, world.writes.hits) == ("Scheduling", 2)
    first, second = (profile.handle for profile in scheduler.scheduler.profiles.values())
    assert StatusController.of(first) is StatusController.of(second)
    await StatusController.of(second).run()  # comes back at once: it runs already


async def test_status_of_a_recreated_group_starts_again(cluster: FakeCluster) -> None:
    """Nothing of the deleted object is kept."""
    world = GroupStatusCluster(cluster)
    scheduler = world.start()
    world.group("g", 2)
    world.pods("g", 2)
    await world.pass_time(scheduler, 2)
    world.go("g", "Running", 0, 1)
    await world.pass_time(scheduler, 2)
    world.cluster.delete(world.type, "g")
    world.group("g", 2)
    await world.pass_time(scheduler, 2)
    assert world.status("g").phase == "Running"
    world.cluster.delete(world.type, "g")
    world.cluster.delete_pod("g-0")
    world.cluster.delete_pod("g-1")
    await world.pass_time(scheduler, 2)
    controller = StatusController.of(scheduler.profile.handle)
    assert not controller._states


async def test_bound_member_counts_before_the_watch_shows_it(cluster: FakeCluster) -> None:
    """A member counts from PostBind on, and not twice when the watch shows it."""
    world = GroupStatusCluster(cluster, "ming")
    scheduler = world.start()
    world.group("g", 2)
    await world.pass_time(scheduler)
    controller = StatusController.of(scheduler.profile.handle)
    world.cluster.delete_node("n")
    world.pods("g", 2)
    await world.pass_time(scheduler, 2)
    for number in (0, 1):
        await scheduler.run_post_bind(world.cluster.pod(f"g-{number}"), "n")
    await world.cluster.clock.advance(0)
    assert (world.status("g").phase, world.status("g").scheduled) == ("Scheduled", 2)
    world.cluster.add_node("m", allocatable={"cpu": "9", "pods": "9"})
    await world.pass_time(scheduler, 30)
    assert (world.status("g").phase, world.status("g").scheduled) == ("Scheduled", 2)
    assert not controller._bound


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
async def test_counts_never_drift(cluster: FakeCluster, seed: int) -> None:
    """After random events the status has the counts of the existing pods."""
    rng = random.Random(seed)
    done: Counter[str] = Counter()
    world = GroupStatusCluster(cluster, rng.choice(("koordinator", "ming")))
    scheduler = world.start()
    world.group("g", 200)  # never reached, so that no phase is the last one
    made = 0
    for _ in range(60):
        pods = world.cluster.pods()
        pod = rng.choice(pods) if pods else None
        step = rng.choice(
            ("bound", "pending", "run", "run", "end", "end", "delete", "anew", "fault", "restart", "time")
        )
        done[step] += 1
        match step:
            case "bound" | "pending":
                spec = {"nodeName": "n"} if step == "bound" else {}
                world.pods("g", 3, start=made, spec=spec)
                made += 3
            case "run" | "end" if pod is not None and pod.node_name and not pod.is_terminal:
                phase = "Running" if step == "run" else rng.choice(("Succeeded", "Failed"))
                world.go("g", phase, int(pod.name.removeprefix("g-")))
            case "delete" if pod is not None:
                world.cluster.delete_pod(pod.name)
            case "anew" if rng.random() < 0.3:
                world.cluster.delete(world.type, "g")
                world.group("g", 200)
            case "fault":
                world.fail(rng.choice((403, 404, 409, 500)), times=rng.randint(1, 3))
            case "restart":
                await scheduler.scheduler.stop(at_once=True, grace_seconds=0)
                scheduler = world.start()
        if rng.random() < 0.5:
            await world.pass_time(scheduler, rng.choice((0, 0.5, 2)))
    await world.pass_time(scheduler, 700)
    pods = world.cluster.pods()
    phases = Counter(pod.status.phase for pod in pods)
    bound = sum(bool(pod.node_name) and not pod.is_terminal for pod in pods)
    status = world.status("g")
    assert (status.scheduled, status.running, status.succeeded, status.failed) == (
        bound,
        phases["Running"],
        phases["Succeeded"],
        phases["Failed"],
    )
    assert all(done[step] for step in ("bound", "run", "end", "delete", "fault", "restart")), done
    print(dict(done))  # noqa: T201 - how often each step had its turn


def test_status_permissions_are_in_the_rbac() -> None:
    """The rules have `patch` on the status of kinds that are written, and no others."""
    (rule,) = status_rules(dialect for dialect in DIALECTS if dialect.claimed_by == "Coscheduling")
    assert (list(rule.resources), list(rule.verbs)) == (["podgroups/status"], ["patch"])
    assert list(rule.api_groups) == [
        "scheduling.x-k8s.io",
        "scheduling.ming.io",
        "scheduling.incubator.k8s.io",
        "incubator.scheduling.k8s.io",
        "scheduling.sigs.dev",
        "scheduling.volcano.sh",
    ]
    assert status_rules([ROWS["kai"], ROWS["lightweight-x"]]) == ()
    assert isinstance(ROWS["intree"].status, ConditionStatus)
    assert status_rules([ROWS["intree"]]) == ()


def test_status_permissions_do_not_mix_groups_and_resources() -> None:
    """A kind with another plural name has a rule of its own, in its own API group."""
    own = ROWS["sigs"].kinds[0]._replace(plural="teams", group="acme.example")
    rules = status_rules([ROWS["sigs"], attrs.evolve(ROWS["sigs"], name="acme", kinds=(own,))])
    assert [(list(rule.api_groups), list(rule.resources)) for rule in rules] == [
        (["scheduling.x-k8s.io"], ["podgroups/status"]),
        (["acme.example"], ["teams/status"]),
    ]
