"""Histories in which extenders are slow, wrong and away while pods and nodes come and go: nothing is lost."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.framework.errors import TransportError
from tests.scheduler.extending import Scripted, config, extender, extenders

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster

__all__ = ["extenders"]


MOODS = ("well", "slow", "hangs", "lies", "away", "garbage", "refuses")


class Moody:
    """Answers as chance has it, and counts how."""

    def __init__(self, cluster: FakeCluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.counts: Counter[str] = Counter()
        self.well = False

    async def filter(self, args: dict[str, Any]) -> Any:
        names = args["NodeNames"]
        mood = "well" if self.well else self.rng.choice(MOODS)
        self.counts[mood] += 1
        match mood:
            case "slow":
                await self.cluster.clock.sleep(self.rng.uniform(0.0, 0.9))
            case "hangs":
                await self.cluster.clock.sleep(1000.0)
            case "lies":
                return {"NodeNames": [*names, "moon"]}
            case "away":
                raise TransportError("connection refused")
            case "garbage":
                return b'{"NodeNames": [' + self.rng.randbytes(4)
            case "refuses":
                return {"NodeNames": names[:-1], "FailedNodes": {names[-1]: "no", "mars": "no"}}
        return {"NodeNames": names}

    async def bind(self, args: dict[str, Any]) -> Any:
        mood = "bound" if self.well else self.rng.choice(["bound", "bound", "cannot", "answer lost"])
        self.counts[mood] += 1
        if mood == "cannot":
            return {"Error": "cannot"}
        path = f"/api/v1/namespaces/{args['PodNamespace']}/pods/{args['PodName']}/binding"
        metadata = {"name": args["PodName"], "uid": args["PodUID"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"name": args["Node"]}}
        answer = await self.cluster.transport().request("POST", path, body=json.dumps(body).encode())
        if mood == "answer lost":
            raise TransportError("EOF")
        return {} if answer.status == 201 else {"Error": answer.body.decode()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))])
async def test_nothing_is_lost_with_moody_extenders(cluster: FakeCluster, extenders: Scripted, seed: int) -> None:
    """Cache and queue agree with the API all the while, and once the extenders are well every pod is bound."""
    rng = random.Random(seed)
    moody = Moody(cluster, rng)
    extenders.answers = {
        "http://one/filter": moody.filter,
        "http://two/filter": moody.filter,
        "http://one/bind": moody.bind,
    }
    framework = cluster.framework(
        config=config(
            extender("http://one", filterVerb="filter", bindVerb="bind", httpTimeout="1s"),
            extender("http://two", filterVerb="filter", ignorable=True, httpTimeout="1s"),
        ),
        seed=seed,
    )
    for index in range(3):
        cluster.add_node(f"n{index}", allocatable={"cpu": "8"})
    await framework.start()
    bound: dict[str, str] = {}
    pods = 0
    for step in range(100):
        match rng.randrange(6):
            case 0 | 1:
                pods += 1
                cluster.add_pod(f"p{pods}", requests={"cpu": f"{rng.randrange(1, 9)}00m"})
            case 2 if pods and rng.random() < 0.3:
                name = f"p{rng.randrange(pods) + 1}"
                if any(pod.name == name for pod in cluster.pods()):
                    cluster.delete_pod(name)
            case 3:
                cluster.add_node(f"new{step}", allocatable={"cpu": "8"})
            case 4:
                empty = {node.name for node in cluster.nodes()} - {pod.node_name for pod in cluster.pods()}
                if len(empty) > 2:
                    cluster.delete_node(min(empty))
            case _:
                await cluster.clock.advance(rng.choice((0.1, 1.0, 5.0)))
        await asyncio.sleep(0)
        framework.scheduler.check_invariants()
        for pod in cluster.pods():
            if pod.node_name:
                assert bound.setdefault(pod.uid, pod.node_name) == pod.node_name
    assert set(moody.counts) >= {*MOODS, "bound"}, moody.counts
    moody.well = True
    await cluster.clock.advance(400)
    assert [pod.name for pod in cluster.pods() if not pod.node_name] == []
    assert framework.scheduler.idle
    assert framework.scheduler.cache.assumed_count == 0
