"""SIGUSR2 on a running scheduler: queue and cache in the log, compared with the API, while it goes on scheduling."""

from __future__ import annotations

import json
import signal

from tests.integration.conftest import Served
from tests.integration.programs import FAST, nodes, pods, program


async def test_a_look_inside_a_running_scheduler(served_cluster: Served) -> None:
    """Leader and standby answer alike, every line can be taken apart, and scheduling goes on."""
    cluster, api = served_cluster.cluster, served_cluster.api
    cluster.add(*nodes(5), *pods(20))
    run = ("run", "--config", str(FAST), "--health-port", "0", "--log-format", "json", "--master", api.url)
    # Even where nothing but trouble is logged.
    async with program(*run, "-v=0") as leader:
        await api.create_pod("large", requests={"cpu": "64"})
        await api.until_bound(20)
        await api.until_told("FailedScheduling", 1)
        leader.send(signal.SIGUSR2)
        await leader.said("Cache comparer finished")
        async with program(*run) as standby:
            await standby.said("New leader elected")
            standby.send(signal.SIGUSR2)
            await standby.said("Cache comparer finished")
            standby.send(signal.SIGTERM)
            assert await standby.ended() == 0
        await api.create_pod("late")
        await api.until_bound(21)
        leader.send(signal.SIGTERM)
        assert await leader.ended() == 0
    for one, queue in ((leader, "unschedulable"), (standby, "active")):
        lines = [json.loads(line) for line in one.err]
        told = [line for line in lines if line["msg"] == "Dump of cached NodeInfo" and "node" in line]
        assert [line["node"] for line in told] == [f"node-{number:03d}" for number in range(5)]
        assert sum(len(line["pods"].strip("[]").split()) for line in told) == 20
        (waiting,) = [line for line in lines if line["msg"] == "Dump of scheduling queue" and "pod" in line]
        assert (waiting["pod"], waiting["queue"]) == ("default/large", queue)
        assert waiting["unschedulablePlugins"] == ("[NodeResourcesFit]" if one is leader else "[]")
        assert [line["mismatch"] for line in lines if line["msg"] == "Cache comparer finished"] == ["false"]
