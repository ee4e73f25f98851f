"""Whatever happens between a scheduler and its API server: afterwards its cache is what the API server lists.

The whole scheduler runs in this process, on a clock in a hurry; the trouble is made on the wire or in the server.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from kube_objects.clock import Clock, LoopClock
from kube_testserver.access.users import ADMIN
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.serving.faults import Fault
from kube_testserver.serving.http_server import ApiServer
from pyscheduler.cluster.real import auth, informer_rules
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.config.load import loads
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.scheduler.assembly import build
from pyscheduler.scheduler.scheduler import Scheduler
from pyscheduler.testing import node_manifest, pod_manifest
from tests.integration.cables import Cable, HurriedClock
from tests.integration.chaos import Books, until
from tests.integration.programs import Api
from tests.processes import PATIENCE_SECONDS

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles: [{schedulerName: pyscheduler}]
"""
#: How much faster the scheduler's clock runs than the server's.
SPEED = 100.0
#: How often the server says that it is there; a watch may be silent for three of the scheduler's minutes.
BOOKMARK_SECONDS = 0.5
NODES = 12
#: Objects on a page of a list.
PAGE_SIZE = 100
#: More than a list has on two pages.
RUNNING = 220


class Warnings(NullRecorder):
    """Counts warnings."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def warning(self, kind: str) -> None:
        """Count one."""
        self.counts[kind] += 1


def running(number: int, node: int) -> dict[str, Any]:
    """Return a pod of somebody else's that has a node."""
    name = f"running-{number:04d}"
    return pod_manifest(name, scheduler_name="other", requests={"cpu": "1m"}, node_name=f"node-{node:02d}")


def filled(first_version: int, **keywords: Any) -> EmbeddedCluster:
    """Return a cluster with nodes, and pods on them."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(first_version), **keywords)
    cluster.store.version = first_version
    cluster.router.bookmark_seconds = BOOKMARK_SECONDS
    for number in range(NODES):
        cluster.add(node_manifest(f"node-{number:02d}", allocatable={"cpu": "32", "pods": "500"}))
    for number in range(RUNNING):
        cluster.add(running(number, number % NODES))
    return cluster


@attrs.define
class Site:
    """A scheduler, a server, the cable between them, and what becomes of them."""

    cluster: EmbeddedCluster
    server: ApiServer
    cable: Cable
    scheduler: Scheduler
    warnings: Warnings
    books: Books
    #: What the checker shows to the API server, where that asks.
    token: str = ""
    _rounds: int = 0

    def unsettle(self) -> None:
        """Let a bit of everything happen in the cluster."""
        number = self._rounds = self._rounds + 1
        cluster = self.cluster
        for each in range(5):
            cluster.add(pod_manifest(f"mine-{number}-{each}", requests={"cpu": "10m"}))
        cluster.add(running(RUNNING + number, number % NODES))
        cluster.add(node_manifest(f"extra-{number}", allocatable={"cpu": "4"}))
        self._change("Node", f"node-{number % NODES:02d}")
        self._change("Pod", f"running-{number % 100:04d}", "default")
        self._remove("Pod", f"running-{100 + number:04d}", "default")
        # Made anew under its name, on another node.
        self._remove("Pod", f"running-{150 + number:04d}", "default")
        cluster.add(running(150 + number, (number + 5) % NODES))
        if number > 1:
            self._remove("Node", f"extra-{number - 1}")

    def change_mine(self) -> None:
        """Change the pods that came last."""
        for each in range(5):
            self._change("Pod", f"mine-{self._rounds}-{each}", "default")

    def _change(self, kind: str, name: str, namespace: str = "") -> None:
        collection, record = self._record(kind, name, namespace)
        body = record.decode()
        body["metadata"].setdefault("labels", {})["round"] = str(self._rounds)
        collection.replace(record, body)

    def _remove(self, kind: str, name: str, namespace: str = "") -> None:
        collection, record = self._record(kind, name, namespace)
        if record is not None:  # another server may never have had it
            collection.remove(record)

    def _record(self, kind: str, name: str, namespace: str) -> tuple[Any, Any]:
        resource = self.cluster.resource("v1", kind)
        collection = self.cluster.registry.collection(resource)
        return collection, collection.get(resource.key(namespace, name))

    async def move_server(self, cluster: EmbeddedCluster) -> None:
        """Stop the server and start one on the same port, with that cluster behind it."""
        await self.server.stop()
        self.cluster = cluster
        self.server = cluster.server(port=self.server.address[1])
        await self.server.start()

    async def heard(self, kind: str, times: int = 1) -> None:
        """Wait until the scheduler has noticed."""
        await until(lambda: self.warnings.counts[kind] >= times)

    async def compare(self) -> list[str]:
        """List the API page by page, past the cable, and say what the scheduler's cache and queue have otherwise."""
        api, scheduler = Api(self.server.url, token=self.token), self.scheduler
        nodes = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in await listed(api, "nodes")}
        pods = {
            item["metadata"]["uid"]: (item["spec"].get("nodeName", ""), item["metadata"]["resourceVersion"])
            for item in await listed(api, "pods")
        }
        scheduler.cache.update_snapshot(scheduler.snapshot)
        cached = {info.node.name: info.node.resource_version for info in scheduler.snapshot.nodes if info.node}
        known = {
            uid: (info.pod.node_name, info.pod.resource_version)
            for uid in scheduler.cache.pod_keys()
            if (info := scheduler.cache.get_pod(uid)) is not None
        }
        waiting = {pod.uid: ("", pod.resource_version) for pod in scheduler.queue.pending_pods()}
        return [
            *(f"node {name}" for name, _ in cached.items() ^ nodes.items()),
            *(f"pod {uid}: {what}" for uid, what in (known | waiting).items() ^ pods.items()),
        ]

    async def settled(self) -> None:
        """Wait until scheduler and API agree, and check that the scheduler agrees with itself."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while different := await self.compare():
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    raise AssertionError(f"{len(different)} differ: {different[:5]}") from None
        self.scheduler.check_invariants()
        for kind in ("handler_failed", "informer_failed", "cache_disagrees", "pod_changed_node"):
            assert self.warnings.counts[kind] == 0, kind


async def listed(api: Api, plural: str) -> list[dict[str, Any]]:
    """Return all objects of a kind."""
    items: list[dict[str, Any]] = []
    token = ""
    while True:
        status, page = await api("GET", f"/api/v1/{plural}?limit={PAGE_SIZE}" + (f"&continue={token}" if token else ""))
        if status != 200:
            return [*items, {"metadata": {"name": "?", "uid": "?", "resourceVersion": "?"}, "spec": {}}]
        items += page["items"]
        token = page["metadata"].get("continue", "")
        if not token:
            return items


@asynccontextmanager
async def at_work(
    cluster: EmbeddedCluster, credentials: Callable[[str, Clock], Awaitable[auth.Credentials]], *, token: str = ""
) -> AsyncIterator[Site]:
    """Run a scheduler on a cluster, by cable; `credentials` are for a URL and a clock."""
    server = cluster.server()
    await server.start()
    cable = Cable(server.address)
    await cable.start()
    warnings, clock = Warnings(), HurriedClock(SPEED)
    scheduler = build(
        loads(CONFIG, source="test"),
        HTTPTransport(await credentials(cable.url, clock)),
        clock,
        random.Random(1),
        recorder=warnings,
    )
    await scheduler.start()
    loop = asyncio.create_task(scheduler.run())
    site = Site(cluster, server, cable, scheduler, warnings, Books(cluster), token)
    try:
        site.unsettle()
        await site.settled()
        yield site
    finally:
        await scheduler.stop(grace_seconds=SPEED * PATIENCE_SECONDS)  # by its own clock, which is hurried
        await loop
        await cable.stop()
        await site.server.stop()


async def nobody(url: str, _clock: Clock) -> auth.Credentials:
    """Return the credentials of nobody in particular."""
    return auth.plain(url)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the scheduler list small pages."""
    monkeypatch.setattr(informer_rules, "PAGE", PAGE_SIZE)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """Yield a scheduler that is at work on a filled cluster, by cable."""
    async with at_work(filled(first_version=50_000), nobody) as found:
        yield found


# What happens


async def ends(site: Site) -> None:
    """End watches, as servers do every few minutes."""
    site.cluster.router.drop_watches(how="end")


async def cut(site: Site) -> None:
    """Reset all connections, requests under way included."""
    assert site.cable.cut() >= 2


async def half_a_line(site: Site) -> None:
    """Break off within an event."""
    site.cluster.router.drop_watches(how="within")


async def stalled(site: Site) -> None:
    """Let the watches stay open, and nothing come any more."""
    assert site.cable.stall() >= 2


async def forgotten(site: Site) -> None:
    """Forget the version from which a watch would go on: 410."""
    site.cable.cut(only_watches=True)
    site.unsettle()
    site.cluster.store.compact()
    await site.heard("relisted", 2)


async def paged(site: Site) -> None:
    """Have everything listed again, slowly, and change it between the pages."""
    slow = site.cluster.faults.add(Fault(method="GET", path="/api/v1/(pods|nodes)$", delay_seconds=0.1, times=12))
    site.cable.cut(only_watches=True)
    site.unsettle()
    site.cluster.store.compact()
    while slow.hits < 6:
        site.unsettle()
        await asyncio.sleep(0.03)
    await site.heard("relisted", 2)


def meddling(change: Callable[[bytes], Iterable[bytes]]) -> Callable[[Site], Awaitable[None]]:
    """Return what lets `change` have its way with the lines of pods' watches, until everything was listed anew."""

    async def meddle(site: Site) -> None:
        site.cable.meddle = lambda line: change(line) if b'"kind":"Pod"' in line else [line]
        site.unsettle()
        await asyncio.sleep(0.1)
        site.unsettle()
        site.change_mine()
        site.unsettle()
        await site.heard("relisted")
        site.cable.meddle = None

    return meddle


def skipping(line: bytes) -> list[bytes]:
    """Pass over what is new: its change, later, comes out of nothing."""
    return [] if b'"type":"ADDED"' in line and b'"name":"mine-' in line else [line]


def backwards() -> Callable[[bytes], Iterable[bytes]]:
    """Repeat the first event after every fifth."""
    seen: list[bytes] = []

    def repeat(line: bytes) -> list[bytes]:
        seen.append(line)
        return [line, seen[0]] if len(seen) % 5 == 0 else [line]

    return repeat


def maimed(line: bytes) -> list[bytes]:
    """Lose the second half of an event."""
    return [line[: len(line) // 2] + b"\n"] if b'"type":"DELETED"' in line else [line]


async def restarted(site: Site) -> None:
    """Stop the server and start it again, with all that it knew."""
    await site.server.stop()
    site.unsettle()
    await site.heard("watch_broken", 3)
    await site.move_server(site.cluster)


async def restarted_without_history(site: Site) -> None:
    """Do the same, but let it forget how things came about."""
    await site.server.stop()
    site.unsettle()
    site.cluster.store.compact()
    await site.move_server(site.cluster)
    await site.heard("relisted", 2)


async def restarted_with_other_data(site: Site) -> None:
    """Bring a server up as from an old backup: other objects, and versions that were counted long ago."""
    await site.move_server(filled(first_version=100))


async def restarted_empty(site: Site) -> None:
    """Bring a server up that knows of nothing, and counts from one again."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(5))
    cluster.router.bookmark_seconds = BOOKMARK_SECONDS
    await site.move_server(cluster)
    await site.settled()
    assert site.scheduler.cache.node_count == site.scheduler.cache.pod_count == 0
    for number in range(RUNNING):
        site.cluster.add(running(number, number % NODES))
    for number in range(NODES):
        site.cluster.add(node_manifest(f"node-{number:02d}", allocatable={"cpu": "32", "pods": "500"}))


def http(status: str, kind: str, body: bytes) -> bytes:
    """Return an answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def foreign(answer: bytes) -> Callable[[Site], Awaitable[None]]:
    """Return what lets somebody else answer on the server's port for a while."""

    async def serve(site: Site) -> None:
        site.cable.answer = answer
        site.cable.cut()
        site.unsettle()
        await until(lambda: site.cable.answered >= 8)
        site.cable.answer = None

    return serve


def refusing(**how: Any) -> Callable[[Site], Awaitable[None]]:
    """Return what makes the server refuse lists and watches a few times."""

    async def refuse(site: Site) -> None:
        fault = site.cluster.faults.add(Fault(method="GET", path="/api/v1/(pods|nodes)$", times=8, **how))
        site.cable.cut(only_watches=True)
        site.unsettle()
        await until(lambda: fault.hits >= 8)

    return refuse


PAGE = b"<html><body><h1>It works!</h1></body></html>"
LIST = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"60000"},"items":[{"metadata":{"na'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("happen", "noticed"),
    [
        pytest.param(ends, "", id="watches end"),
        pytest.param(cut, "watch_broken", id="connections are reset"),
        pytest.param(half_a_line, "watch_broken", id="half a line"),
        pytest.param(stalled, "", id="silence"),
        pytest.param(forgotten, "relisted", id="410"),
        pytest.param(paged, "relisted", id="changes between pages"),
        pytest.param(meddling(skipping), "relisted", id="events are skipped"),
        pytest.param(meddling(backwards()), "relisted", id="versions run backwards"),
        pytest.param(meddling(maimed), "relisted", id="an event is maimed"),
        pytest.param(restarted, "watch_broken", id="the server restarts"),
        pytest.param(restarted_without_history, "relisted", id="the server restarts without history"),
        pytest.param(restarted_with_other_data, "watch_refused", id="the server restarts from a backup"),
        pytest.param(restarted_empty, "watch_refused", id="the server restarts empty"),
        pytest.param(foreign(http("200 OK", "text/html", PAGE)), "watch_broken", id="a web page"),
        pytest.param(foreign(http("502 Bad Gateway", "text/html", PAGE)), "watch_refused", id="a proxy's error page"),
        pytest.param(foreign(http("404 Not Found", "text/html", PAGE)), "watch_refused", id="a web server's 404"),
        pytest.param(foreign(http("200 OK", "application/json", LIST)), "watch_broken", id="half a list"),
        pytest.param(foreign(b""), "watch_broken", id="no answer"),
        pytest.param(refusing(status=429, retry_after_seconds=2), "watch_refused", id="429 with Retry-After"),
        pytest.param(refusing(status=500), "watch_refused", id="500"),
        pytest.param(refusing(status=503), "watch_refused", id="503"),
        pytest.param(refusing(status=401), "watch_refused", id="401 for a while"),
        pytest.param(refusing(lose="answer"), "watch_broken", id="answers are lost"),
    ],
)
async def test_the_cache_is_what_the_api_lists(
    site: Site, happen: Callable[[Site], Awaitable[None]], noticed: str
) -> None:
    """It happens, the cluster goes on meanwhile, and the two agree again: no event was lost, none counted twice."""
    await happen(site)
    site.unsettle()
    await site.settled()
    assert not noticed or site.warnings.counts[noticed] >= 1, dict(site.warnings.counts)
    assert set(site.books.made.values()) == {1}


# Tokens that end

#: How long a token is good for at most, in seconds; a server lets it pass for a minute after its end.
TOKEN_SECONDS = 2.0
LEEWAY_SECONDS = 60.0
#: What the checker shows; it does not end.
CHECKER = "looking-on"

ACCOUNT = [
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scheduler", "namespace": "kube-system"}},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "scheduler"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "scheduler", "namespace": "kube-system"}],
    },
]
#: Prints the token of a file as an exec plugin does, and that it is good for another second.
PLUGIN = """
import json, pathlib, sys
token, end = pathlib.Path(sys.argv[1]).read_text().split()
status = {"token": token, "expirationTimestamp": end}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


class TokenFile:
    """A file with a token in it that ends soon, written anew as long as it is `kept`."""

    def __init__(self, path: Path, cluster: EmbeddedCluster, *, with_end: bool) -> None:
        self._path = path
        self._cluster = cluster
        self._with_end = with_end
        self.is_kept = True
        self.written = 0

    def write(self) -> None:
        """Write a new token."""
        token = self._cluster.account_token("kube-system", "scheduler", expires_seconds=TOKEN_SECONDS - LEEWAY_SECONDS)
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        new = self._path.with_suffix(".new")
        new.write_text(f"{token} {end}" if self._with_end else token)
        new.replace(self._path)  # at once, as a kubelet does: nobody reads an empty file
        self.written += 1

    async def keep(self) -> None:
        """Write a new one in time, for ever."""
        while True:
            if self.is_kept:
                self.write()
            await asyncio.sleep(TOKEN_SECONDS / 8)


@pytest.mark.slow
async def test_tokens_that_end_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are renewed in time; a gap is lived through, counted, and over once there is a token again."""
    # By the scheduler's clock a minute is a second; on a busy machine the plugin takes longer to start.
    monkeypatch.setattr(auth, "_PLUGIN_SECONDS", SPEED * PATIENCE_SECONDS)
    kinds = ("file", "exec plugin")
    for kind in kinds:
        (tmp_path / kind).mkdir()
    await asyncio.gather(*(live_on_tokens(tmp_path / kind, kind) for kind in kinds))


async def live_on_tokens(tmp_path: Path, kind: str) -> None:
    """Run a scheduler whose tokens come from a file or an exec plugin; check that it survives a gap."""
    cluster = filled(first_version=50_000, authorization="rbac", tokens={CHECKER: ADMIN})
    cluster.add(*ACCOUNT)
    path = tmp_path / "token"
    tokens = TokenFile(path, cluster, with_end=kind == "exec plugin")
    tokens.write()
    (tmp_path / "plugin.py").write_text(PLUGIN)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(tmp_path / "plugin.py"), str(path)],
        "interactiveMode": "Never",
    }
    user = {"tokenFile": str(path)} if kind == "file" else {"exec": plugin}

    async def credentials(url: str, clock: Clock) -> auth.Credentials:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "main",
            "clusters": [{"name": "here", "cluster": {"server": url}}],
            "users": [{"name": "me", "user": user}],
            "contexts": [{"name": "main", "context": {"cluster": "here", "user": "me"}}],
        }
        (tmp_path / "config").write_text(json.dumps(config))
        return await auth.load(kubeconfig=str(tmp_path / "config"), clock=clock)

    keeping = asyncio.create_task(tokens.keep())
    async with at_work(cluster, credentials, token=CHECKER) as site:
        begun = tokens.written
        while tokens.written < begun + 16:
            site.unsettle()
            await asyncio.sleep(TOKEN_SECONDS / 4)
            site.cable.cut()
        await site.settled()
        tokens.is_kept = False
        await asyncio.sleep(TOKEN_SECONDS * 1.2)
        site.cable.cut()
        site.unsettle()
        await site.heard("watch_refused", 2)
        tokens.is_kept = True
        await site.settled()
        assert set(site.books.made.values()) == {1}
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
