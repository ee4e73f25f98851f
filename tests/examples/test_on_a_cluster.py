"""examples/03-on-a-cluster: the roles that its command prints are those that the scheduler needs, each of them."""

from __future__ import annotations

import asyncio
import random
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kube_testserver.serving.faults import Fault
from pyscheduler.api import PersistentVolumeClaim
from pyscheduler.cli.main import cli
from pyscheduler.cluster.real.base_transport import ConnectingTransport
from pyscheduler.cluster.real.lease import LeaderElector
from pyscheduler.config.types import LeaderElection
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.scheduler.ports import Response, Stream, Transport
from pyscheduler.testing import FakeCluster
from tests.examples.conftest import ROOT
from tests.plugins import devices
from tests.plugins.storage import COMPLETED, claim, storage_class, volume

PAGE = (ROOT / "examples/03-on-a-cluster/README.md").read_text(encoding="utf-8")

Asked = tuple[str, str, str]


def granted() -> set[Asked]:
    """Return what the roles of the page's command grant, as (API group, resource, verb)."""
    words = shlex.split(next(line for line in PAGE.splitlines() if "--rbac" in line).partition(" | ")[0])
    printed = CliRunner().invoke(cli, words[1:], catch_exceptions=False)
    return {
        (group, resource, verb)
        for manifest in yaml.safe_load_all(printed.output)
        for rule in manifest.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(method: str, path: str, *, watch: bool = False) -> Asked:
    """Return what an API server would look for in the rules before it answers this request."""
    root, *parts = path.strip("/").split("/")
    group = "" if root == "api" else parts.pop(0)
    parts.pop(0)
    if parts[0] == "namespaces" and len(parts) > 2:
        del parts[:2]
    resource, name, subresource = [*parts, "", ""][:3]
    verbs = {"GET": "get" if name else "list", "POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
    return group, f"{resource}/{subresource}".strip("/"), "watch" if watch else verbs[method]


class Guard(ConnectingTransport):
    """A transport that refuses what the rules do not grant, and remembers what was asked."""

    def __init__(self, transport: Transport, rules: set[Asked]) -> None:
        self.transport = transport
        self.rules = rules
        self.seen: set[Asked] = set()

    def check(self, wanted: Asked) -> Response | None:
        """Note a request; return the refusal, if it is one."""
        self.seen.add(wanted)
        if wanted in self.rules:
            return None
        body = b'{"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}'
        return Response(403, body, {"content-type": "application/json"})

    async def request(self, method: str, path: str, **keywords: Any) -> Response:
        return self.check(asked(method, path)) or await self.transport.request(method, path, **keywords)

    def stream(self, path: str, **keywords: Any) -> AbstractAsyncContextManager[Stream]:
        refusal = self.check(asked("GET", path, watch=True))
        return self.transport.stream(path, **keywords) if refusal is None else refused(refusal)

    async def close(self) -> None:
        await self.transport.close()


@asynccontextmanager
async def refused(answer: Response) -> AsyncIterator[Stream]:
    """Give a stream that is an error."""

    class Refused:
        status = answer.status
        headers: Mapping[str, str] = answer.headers

        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield answer.body

    yield Refused()


async def lead(guard: Guard, cluster: FakeCluster) -> None:
    """Take the lease, renew it, and give it back."""

    async def transport() -> Transport:
        return guard

    elector = LeaderElector(
        config=LeaderElection(),
        transport=transport,
        rng=random.Random(0),
        recorder=NullRecorder(),
        clock=cluster.clock,
    )
    leading = asyncio.create_task(elector.acquire())
    await cluster.clock.advance(30)
    await leading
    assert elector.is_leader
    await elector.release()


async def test_the_rules_are_enough_and_none_is_idle(
    pyscheduler_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods are bound, refused, retried and reported under these rules, which leaves no rule unused and asks no more."""
    cluster = pyscheduler_cluster
    guard = Guard(cluster.transport(), granted())
    monkeypatch.setattr(cluster, "transport", lambda: guard)
    cluster.add_node("n1", allocatable={"cpu": "4"})
    framework = cluster.framework()
    # The pod is bound, but nobody hears of it: the scheduler has to ask.
    cluster.server.faults.add(Fault(method="POST", path="/binding$", lose="answer", times=1))
    await framework.schedule("fits", requests={"cpu": "1"})
    await framework.schedule("large", requests={"cpu": "8"})
    # One pod has to go for another, and one needs volumes: a claim that a volume fits, and one that is to be provided.
    await framework.schedule("humble", requests={"cpu": "3"})
    await framework.schedule("urgent", requests={"cpu": "3"}, priority=1000)
    cluster.server.add(storage_class("local"), volume("disk", of="local", size="10Gi"))
    cluster.server.add(claim("kept", of="local", size="10Gi"), claim("fresh", of="local", size="20Gi"))
    claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("kept", "fresh")]
    await framework.schedule("stores", spec={"volumes": claims})
    # What the volume controller does then.
    cluster.server.add(volume("made", of="local", size="20Gi", promised_to="fresh"))
    for name, held in (("kept", "disk"), ("fresh", "made")):
        done = {"metadata": {"annotations": {COMPLETED: "yes"}}, "spec": {"volumeName": held}}
        cluster.patch(PersistentVolumeClaim, name, done)
        cluster.patch(PersistentVolumeClaim, name, {"status": {"phase": "Bound"}}, status=True)
    # A claim gets a device; the scheduler has to ask what became of the write whose answer was lost.
    offer = devices.resource_slice("n1", "gpu-0", "gpu-1")
    devices.add(cluster, devices.device_class(), offer, devices.claim("gpu"))
    cluster.server.faults.add(Fault(method="PATCH", path="/resourceclaims/gpu/status$", lose="answer", times=1))
    await framework.schedule("computes", spec=devices.using("gpu"))
    # A claim is made for an extended resource; one that cannot be allocated is deleted, and made anew.
    cluster.server.faults.add(Fault(method="PATCH", path="/resourceclaims/extends-[^/]*/status$", status=403, times=1))
    await framework.schedule("extends", requests={"deviceclass.resource.kubernetes.io/gpu": "1"})
    # An event that repeats becomes a series, which is patched when it has been quiet for a while.
    for name in ("n2", "n3"):
        cluster.add_node(name, allocatable={"cpu": "5"})
        await cluster.clock.advance(60)
    await cluster.clock.advance(900)
    assert framework.result("fits").node == "n1"
    assert framework.result("stores").bound
    assert framework.result("computes").bound
    assert framework.result("extends").bound
    assert framework.result("large").message.startswith("0/3 nodes are available: 3 Insufficient cpu.")
    await lead(guard, cluster)
    # Whoever writes an allocation is asked for this right, too, though no request names it.
    assert guard.seen | {("resource.k8s.io", "resourceclaims/binding", "patch")} == granted()
    await framework.close()


async def test_a_rule_less_is_noticed(pyscheduler_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to bind, no pod is bound and none is lost: it waits with the reason."""
    cluster = pyscheduler_cluster
    guard = Guard(cluster.transport(), granted() - {("", "pods/binding", "create")})
    monkeypatch.setattr(cluster, "transport", lambda: guard)
    cluster.add_node("n1")
    framework = cluster.framework()
    result = await framework.schedule("p")
    assert result.state == "pending"
    assert "403" in result.message or "orbidden" in result.message
    await framework.close()
