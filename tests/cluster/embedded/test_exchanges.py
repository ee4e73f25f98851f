"""What a real API server answered, asked of the embedded one."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest

from pyscheduler.cluster.embedded.cluster import EmbeddedCluster
from pyscheduler.cluster.embedded.routes import Request
from pyscheduler.cluster.embedded.watching import WatchStream

RECORDED = Path(__file__).with_name("exchanges.jsonl.gz")

#: Compared in their own tests: what is served is a part of what the real server serves.
DISCOVERY = frozenset({"version", "api-versions", "api-groups", "core-v1-resources", "aggregated-discovery-core"})

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
GENERATED = re.compile(r"gen-[a-z0-9]{5}")
#: This watch was open while the two requests before it were sent.
OPENED_BEFORE = {"create-pod-p1": "watch-fieldselector-unassigned-sees-DELETED-on-bind"}

AGE = re.compile(r"\d+s")


def load() -> list[dict[str, Any]]:
    """Return the recorded exchanges, in order."""
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def plain(value: Any) -> Any:
    """Return a value without what differs between two servers: versions, uids, times, made-up names, ages."""
    if isinstance(value, dict):
        result = {name: plain(inner) for name, inner in value.items()}
        if "resourceVersion" in result:
            result["resourceVersion"] = "<version>"
        if result.get("continue"):
            token = result["continue"]
            content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            result["continue"] = plain({**content, "rv": "<version>"})
        if "columnDefinitions" in result:  # descriptions are prose; the columns themselves count
            result["columnDefinitions"] = [
                {key: inner for key, inner in column.items() if key != "description"}
                for column in result["columnDefinitions"] or ()
            ] or None
        if "cells" in result:
            result["cells"] = [(AGE.fullmatch(str(cell)) and "<age>") or cell for cell in result["cells"]]
        return result
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, str):
        text = GENERATED.sub("gen-<random>", UID.sub("<uid>", TIME.sub("<time>", value)))
        return re.sub(r"current: \d+", "current: <version>", text)
    return value


class Replay:
    """Sends recorded requests in order, with versions, uids and tokens translated to those of this server."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._known: dict[str, str] = {}
        self._opened: dict[str, WatchStream] = {}

    def learn(self, recorded: Any, answered: Any) -> None:
        """Remember which of this server's versions, uids and tokens stand for the recorded ones."""
        if isinstance(recorded, dict) and isinstance(answered, dict):
            for name in ("resourceVersion", "uid", "continue"):
                if isinstance(recorded.get(name), str) and isinstance(answered.get(name), str):
                    self._known[recorded[name]] = answered[name]
            for name in recorded.keys() & answered.keys():
                self.learn(recorded[name], answered[name])
        elif isinstance(recorded, list) and isinstance(answered, list):
            for one, other in zip(recorded, answered, strict=False):
                self.learn(one, other)

    def translate(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: self._known.get(inner, inner) if name in ("resourceVersion", "uid") else self.translate(inner)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            return [self.translate(inner) for inner in value]
        return value

    async def send(self, exchange: dict[str, Any], *, ahead: bool = False) -> dict[str, Any]:
        """Send one request; return the answer as the recordings have it. `ahead` only opens a watch, for later."""
        asked = exchange["request"]
        url = urlsplit(asked["path"])
        query = {
            name: self._known.get(value, value) if name in ("resourceVersion", "continue") else value
            for name, value in parse_qsl(url.query, keep_blank_values=True)
        }
        body = asked.get("body")
        raw = b"" if body is None else body.encode() if isinstance(body, str) else None
        request = Request(
            asked["method"],
            url.path,
            query,
            msgspec.json.encode(self.translate(body)) if raw is None else raw,
            asked.get("contentType") or "",
            asked.get("accept") or "",
        )
        opened = self._opened.pop(exchange["name"], None)
        answer = opened or await self._cluster.router.handle(request)
        if isinstance(answer, WatchStream):
            if opened is None and ahead:
                self._opened[exchange["name"]] = answer
                return {}
            return {"status": 200, "contentType": "application/json", "events": await self._collect(answer, query)}
        kind = answer.headers["content-type"]
        decoded = msgspec.json.decode(answer.body) if "json" in kind else answer.body.decode()
        if exchange["response"].get("body"):
            self.learn(exchange["response"]["body"], decoded)
        return {"status": answer.status, "contentType": kind, "body": decoded}

    async def _collect(self, stream: WatchStream, query: dict[str, str]) -> list[Any]:
        events: list[Any] = []
        clock: Any = self._cluster.clock

        async def read() -> None:
            async for chunk in stream:
                events.extend(msgspec.json.decode(line) for line in chunk.splitlines())

        reader = asyncio.ensure_future(read())
        await clock.advance(float(query["timeoutSeconds"]))
        await reader
        stream.close()
        return events


async def test_answers_as_the_real_server_did(cluster: EmbeddedCluster, subtests: pytest.Subtests) -> None:
    """Every recorded request gets the recorded status, type, body and events, versions and uids aside."""
    replay = Replay(cluster)
    exchanges = {exchange["name"]: exchange for exchange in load()}
    # The recorder noted this body after it had changed it for the request that follows.
    exchanges["create-lease"]["response"]["body"]["spec"]["holderIdentity"] = "a"
    compared = 0
    for name, exchange in exchanges.items():
        if name in DISCOVERY:
            continue
        if name in OPENED_BEFORE:
            await replay.send(exchanges[OPENED_BEFORE[name]], ahead=True)
        answered = await replay.send(exchange)
        compared += 1
        with subtests.test(name):
            assert plain(answered) == plain(exchange["response"])
    assert compared == 79


def rows(resources: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return resources or groups by name."""
    return {resource["name"]: resource for resource in resources}


async def test_discovery_shows_what_it_serves_as_the_real_server_shows_it(cluster: EmbeddedCluster) -> None:
    """Every resource in /api/v1 is described as by the real server, which has more of them."""
    exchanges = {exchange["name"]: exchange for exchange in load()}
    recorded = exchanges["core-v1-resources"]
    answered = await Replay(cluster).send(recorded)
    served, real = rows(answered["body"]["resources"]), rows(recorded["response"]["body"]["resources"])
    assert served == {name: real[name] for name in served}
    assert {"pods", "pods/status", "pods/binding", "pods/eviction", "nodes", "events"} <= served.keys()


async def test_aggregated_discovery_shows_it_likewise(cluster: EmbeddedCluster) -> None:
    """The aggregated document describes each resource as the real server does, subresources aside."""
    exchanges = {exchange["name"]: exchange for exchange in load()}
    recorded = exchanges["aggregated-discovery-core"]
    answered = await Replay(cluster).send(recorded)
    assert answered["contentType"] == recorded["response"]["contentType"]
    served, real = (body["body"]["items"][0]["versions"][0] for body in (answered, recorded["response"]))
    assert served["freshness"] == real["freshness"]
    described = {resource["resource"]: resource for resource in real["resources"]}
    for resource in served["resources"]:
        expected = described[resource["resource"]]
        assert {**resource, "subresources": None} == {**expected, "subresources": None}
        for subresource in resource.get("subresources") or ():
            assert subresource in expected["subresources"]


async def test_groups_come_in_the_form_of_the_real_server(cluster: EmbeddedCluster) -> None:
    """/api and /apis list versions and groups in the recorded form."""
    exchanges = {exchange["name"]: exchange for exchange in load()}
    replay = Replay(cluster)
    versions = await replay.send(exchanges["api-versions"])
    assert versions["body"]["versions"] == exchanges["api-versions"]["response"]["body"]["versions"]
    groups = await replay.send(exchanges["api-groups"])
    real = rows(exchanges["api-groups"]["response"]["body"]["groups"])
    served = rows(groups["body"]["groups"])
    assert {"apps", "coordination.k8s.io", "events.k8s.io", "policy", "storage.k8s.io"} <= served.keys()
    shared = {name: group for name, group in served.items() if name in real and name != "coordination.k8s.io"}
    assert shared == {name: real[name] for name in shared}


async def test_version_is_that_of_the_mirrored_release(cluster: EmbeddedCluster) -> None:
    """/version names the release whose behaviour is mirrored, in the fields of the real one."""
    recorded = next(exchange for exchange in load() if exchange["name"] == "version")
    answered = await Replay(cluster).send(recorded)
    real = recorded["response"]["body"]
    assert answered["body"].keys() == real.keys()
    assert (answered["body"]["major"], answered["body"]["minor"]) == (real["major"], real["minor"])
