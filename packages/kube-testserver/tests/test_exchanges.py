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

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.requests import Request
from kube_testserver.serving.watching import WatchStream

RECORDED = Path(__file__).with_name("exchanges.jsonl.gz")

#: Compared in tests of their own, because less is served than by the real server.
DISCOVERY = frozenset({"version", "api-versions", "api-groups", "core-v1-resources", "aggregated-discovery-core"})
#: These were sent with other credentials than the rest, to be refused.
CREDENTIALS = frozenset({"unauthenticated", "bad-token", "forbidden", "forbidden-bind"})
ADMIN_TOKEN, SCHEDULER_TOKEN = "admin-token", "sched-token"
TOKENS = {"bad-token": "unheard-of", "forbidden": SCHEDULER_TOKEN, "forbidden-bind": SCHEDULER_TOKEN}
#: Where the real server was reached.
ADDRESS = "192.0.2.2:16443"

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
        # The recording was made without managed fields, of which the embedded server keeps some after an apply.
        result = {name: plain(inner) for name, inner in value.items() if name != "managedFields"}
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
            ADDRESS,
            access_of(exchange["name"]),
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


def access_of(name: str) -> str:
    """Return the Authorization header that a recorded request was sent with."""
    return f"Bearer {TOKENS.get(name, ADMIN_TOKEN)}" if name != "unauthenticated" else ""


async def test_answers_as_the_real_server_did(cluster: EmbeddedCluster, subtests: pytest.Subtests) -> None:
    """Every recorded request gets the recorded status, type, body and events, versions and uids aside."""
    compared = await replay_all(cluster, subtests, leaving_out=DISCOVERY | CREDENTIALS)
    assert compared == 79


async def test_answers_as_the_real_server_did_to_those_who_may(
    guarded: EmbeddedCluster, subtests: pytest.Subtests
) -> None:
    """With roles and tokens, too; the requests without good credentials or rights are refused in the recorded words."""
    compared = await replay_all(guarded, subtests, leaving_out=DISCOVERY)
    assert compared == 83
    assert guarded.rbac.usage.refusals("sched") == {
        'pods is forbidden: User "sched" cannot list resource "pods" in API group "" in the namespace "rec"': 1,
        'pods "p1" is forbidden: User "sched" cannot create resource "pods/binding" in API group "" in the namespace '
        '"rec"': 1,
    }


async def replay_all(cluster: EmbeddedCluster, subtests: pytest.Subtests, *, leaving_out: frozenset[str]) -> int:
    """Replay the recording and compare; return how many exchanges were compared."""
    replay = Replay(cluster)
    exchanges = {exchange["name"]: exchange for exchange in load()}
    # The recorder noted this body after it had changed it for the request that follows.
    exchanges["create-lease"]["response"]["body"]["spec"]["holderIdentity"] = "a"
    compared = 0
    for name, exchange in exchanges.items():
        if name in leaving_out:
            continue
        if name in OPENED_BEFORE:
            await replay.send(exchanges[OPENED_BEFORE[name]], ahead=True)
        answered = await replay.send(exchange)
        compared += 1
        with subtests.test(name):
            assert plain(answered) == plain(exchange["response"])
    return compared


# --- discovery: what is served is shown as the real server shows it, and what is not is on a list ---------------------

#: Core resources that are left out, and why. The tests fail when one of them is served, or another one is not.
NOT_SERVED = {
    "componentstatuses": "deprecated, and there are no components",
    "podtemplates": "nobody makes pods of them",
    "nodes/proxy": "there is no kubelet to talk to",
    "pods/attach": "as above",
    "pods/ephemeralcontainers": "as above",
    "pods/exec": "as above",
    "pods/log": "as above",
    "pods/portforward": "as above",
    "pods/proxy": "as above",
    "services/proxy": "nothing runs behind a service",
}
#: Groups that are left out.
GROUPS_NOT_SERVED = {
    "apiregistration.k8s.io": "no other API servers are aggregated",
    "certificates.k8s.io": "no certificates are signed",
    "internal.apiserver.k8s.io": "internal to API servers",
}
#: Versions that are left out of groups that are served.
VERSIONS_NOT_SERVED = {
    "autoscaling/v1": "clients prefer the newer one",
    "admissionregistration.k8s.io/v1beta1": "not in use",
    "admissionregistration.k8s.io/v1alpha1": "not in use",
    "coordination.k8s.io/v1beta1": "not in use",
    "coordination.k8s.io/v1alpha2": "not in use",
}
#: What /version says otherwise: that this is another program, and how it was made.
OWN_VERSION = {"gitVersion", "gitCommit", "goVersion", "compiler", "platform"}


async def answer_to(cluster: EmbeddedCluster, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is answered to a recorded request, and what was recorded."""
    recorded = next(exchange for exchange in load() if exchange["name"] == name)
    answered = await Replay(cluster).send(recorded)
    assert (answered["status"], answered["contentType"]) == (200, recorded["response"]["contentType"])
    return answered["body"], recorded["response"]["body"]


async def test_core_resources(cluster: EmbeddedCluster) -> None:
    """/api/v1 is the recorded document, in its order, without what is not served."""
    served, real = await answer_to(cluster, "core-v1-resources")
    assert NOT_SERVED.keys() <= {row["name"] for row in real["resources"]}
    expected = [row for row in real["resources"] if row["name"] not in NOT_SERVED]
    assert served == {**real, "resources": expected}


async def test_aggregated_discovery(cluster: EmbeddedCluster) -> None:
    """The aggregated document is the recorded one without what is not served."""
    served, real = await answer_to(cluster, "aggregated-discovery-core")
    expected = []
    for row in real["items"][0]["versions"][0]["resources"]:
        name = row["resource"]
        subresources = [one for one in row.pop("subresources", ()) if f"{name}/{one['subresource']}" not in NOT_SERVED]
        if name not in NOT_SERVED:
            expected.append({**row, "subresources": subresources} if subresources else row)
    real["items"][0]["versions"][0]["resources"] = expected
    assert served == real


async def test_versions_of_the_core(cluster: EmbeddedCluster) -> None:
    """/api is the recorded document to the letter, asked under the recorded address."""
    served, real = await answer_to(cluster, "api-versions")
    assert served == real


async def test_groups(cluster: EmbeddedCluster) -> None:
    """/apis shows the recorded groups in their order, without what is not served, then those the recording lacks.

    The real server served more groups than it had listed so soon after its start: two of them answer in the recording.
    """
    served, real = await answer_to(cluster, "api-groups")
    expected = []
    for group in real["groups"]:
        versions = [one for one in group["versions"] if one["groupVersion"] not in VERSIONS_NOT_SERVED]
        if group["name"] not in GROUPS_NOT_SERVED:
            expected.append({**group, "versions": versions})
    listed = {group["name"] for group in real["groups"]}
    assert GROUPS_NOT_SERVED.keys() <= listed
    assert [group for group in served["groups"] if group["name"] in listed] == expected
    assert {"kind": served["kind"], "apiVersion": served["apiVersion"]} == {
        "kind": real["kind"],
        "apiVersion": real["apiVersion"],
    }
    further = {group["name"] for group in served["groups"]} - listed
    answering = {urlsplit(one["request"]["path"]).path.split("/")[2] for one in load() if "-resources" in one["name"]}
    assert (answering - {"v1"}) - listed <= further
    assert {"events.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io"} <= further


async def test_version(cluster: EmbeddedCluster) -> None:
    """/version names the release whose behaviour is mirrored, and differs only in what says who made it."""
    served, real = await answer_to(cluster, "version")
    assert served.keys() == real.keys()
    assert {name for name in real if served[name] != real[name]} == OWN_VERSION
    assert served["gitVersion"].startswith(f"v{real['major']}.{real['minor']}.")
