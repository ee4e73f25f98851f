"""Two replicas under one lease: one schedules, the other takes over when it is killed, and none while it lives."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from pyscheduler.cli.demo.audit import audit
from tests.integration.programs import nodes, pods, program, served

PODS = 600

_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 300, burst: 300}
leaderElection: {leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms}
profiles: [{schedulerName: pyscheduler}]
"""


async def test_a_standby_takes_over_from_a_killed_leader(tmp_path: Path) -> None:
    """The leader is killed in mid-run: the standby, which bound nothing before, ends the work, each pod bound once."""
    config = tmp_path / "config.yaml"
    config.write_text(_CONFIG, encoding="utf-8")
    run = ("run", "--config", str(config), "--health-port", "0", "--secure-port", "0")
    async with served(tmp_path, [*nodes(40), *pods(PODS)]) as api, program(*run, "--master", api.url) as leader:
        await leader.said("Successfully acquired lease")
        async with program(*run, "--master", api.url) as standby:
            await standby.said("New leader elected")
            await leader.said("Successfully bound", times=PODS // 4)
            assert standby.count("Successfully bound") == 0
            leader.send(signal.SIGKILL)
            await leader.ended()
            await standby.said("Successfully acquired lease")
            await api.until_bound(PODS)
            standby.send(signal.SIGTERM)
            assert await standby.ended() == 0
            assert standby.count("Released the leader lease") == 1
        report = await asyncio.to_thread(audit, api.url)
        told = await api.events("LeaderElection")
    assert (report.problems, report.bound) == ([], PODS)
    story = [event["note"].partition(" ")[2] for event in sorted(told, key=lambda event: event["eventTime"])]
    assert story == ["became leader", "became leader", "stopped leading"]
    assert {event["regarding"]["kind"] + "/" + event["regarding"]["name"] for event in told} == {"Lease/pyscheduler"}
    assert len({event["note"].partition(" ")[0] for event in told}) == 2


async def test_a_replica_that_loses_its_lease_binds_nothing_more(tmp_path: Path) -> None:
    """Somebody else takes the lease: the replica ends with code 1 and one line that says why."""
    config = tmp_path / "config.yaml"
    config.write_text(_CONFIG, encoding="utf-8")
    async with (
        served(tmp_path, nodes(5)) as api,
        program(
            "run", "--config", str(config), "--health-port", "0", "--secure-port", "0", "--master", api.url
        ) as replica,
    ):
        await replica.said("Successfully acquired lease")
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/pyscheduler"
        status = 409
        while status == 409:  # the replica may renew in between
            _, lease = await api("GET", path)
            lease["spec"]["holderIdentity"] = "somebody-else"
            status, _ = await api("PUT", path, lease)
        assert status == 200
        assert await replica.ended() == 1
        (told,) = [line for line in replica.err if line.startswith("error: ")]
        assert told.startswith("error: leader election lost: ")
