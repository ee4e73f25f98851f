"""The address of the scheduler that leads: from an option, or from the holder of the lease."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from pyscheduler.cli.leader import find_leader
from pyscheduler.cluster.real.auth import plain
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.framework.errors import ConfigError
from pyscheduler.scheduler.ports import Response
from tests.serving.pem import Authority

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/pyscheduler"
PODS = "/api/v1/namespaces/kube-system/pods"
UUID = "ddb52b77-6375-4629-8f70-f5635bebacc0"


class Cluster:
    """Answers with objects by path; all else is not found."""

    def __init__(self, objects: Mapping[str, object], status: int = 404) -> None:
        self._objects = objects
        self._status = status

    async def request(self, _method: str, path: str, **_: object) -> Response:
        """Return the object, or an error in the API server's format."""
        found = self._objects.get(path)
        if found is not None:
            headers = {"date": "Thu, 01 Jan 2026 00:00:30 GMT"}
            return Response(status=200, body=json.dumps(found).encode(), headers=headers)
        reason = {404: "NotFound", 403: "Forbidden"}[self._status]
        body = {"kind": "Status", "apiVersion": "v1", "reason": reason, "message": "said", "code": self._status}
        return Response(status=self._status, body=json.dumps(body).encode(), headers={})


def lease(holder: str, second: int = 30) -> dict[str, Any]:
    """Return the lease with a holder, who renewed it in some second of the minute in which the API server answers."""
    renewed = f"2026-01-01T00:00:{second:02}.000000Z"
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "pyscheduler", "namespace": "kube-system"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed},
    }


def pod(address: str) -> dict[str, Any]:
    """Return the leader's pod."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {"podIP": address}}


async def found(
    objects: Mapping[str, object], *, url: str | None = None, authority: str | None = None, status: int = 404
) -> tuple[str, str]:
    """Return address and reason."""
    leader = await find_leader(
        plain("http://127.0.0.1:1"),
        cast(HTTPTransport, Cluster(objects, status)),
        url=url,
        authority=authority,
        lease=("kube-system", "pyscheduler"),
    )
    assert bool(leader.url) != bool(leader.why)
    return leader.url, leader.why


@pytest.mark.parametrize(
    ("objects", "url"),
    [
        pytest.param({}, "https://10.1.2.3:4443", id="option"),
        pytest.param({LEASE: lease(f"{socket.gethostname()}_{UUID}")}, "https://localhost:10259", id="this machine"),
        pytest.param({LEASE: lease(f"a_{UUID}"), f"{PODS}/a": pod("10.0.0.5")}, "https://10.0.0.5:10259", id="a pod"),
        pytest.param({LEASE: lease(f"a_{UUID}"), f"{PODS}/a": pod("fd00::5")}, "https://[fd00::5]:10259", id="IPv6"),
    ],
)
async def test_address_of_the_leader(tmp_path: Path, objects: Mapping[str, object], url: str) -> None:
    """The option wins; else the holder of the lease is this machine or a pod."""
    authority = tmp_path / "ca.pem"
    authority.write_bytes(Authority().pem)
    assert await found(objects, url=url if not objects else None, authority=str(authority)) == (url, "")


@pytest.mark.parametrize(
    ("objects", "status", "why"),
    [
        pytest.param({}, 404, "no lease kube-system/pyscheduler; name another one with --lease", id="no lease"),
        pytest.param({}, 403, "said; give its address with --scheduler", id="forbidden"),
        pytest.param({LEASE: lease("")}, 404, "nobody holds the lease kube-system/pyscheduler", id="no holder"),
        pytest.param(
            {LEASE: lease(f"a_{UUID}", 9)},
            404,
            f"no replica leads: the lease kube-system/pyscheduler has expired; a_{UUID} renewed it last at "
            "2026-01-01T00:00:09.000000Z, 21s ago",
            id="expired",
        ),
        pytest.param(
            {LEASE: lease(f"a_{UUID}")}, 404, "its host a is neither this machine nor a pod in kube-system", id="no pod"
        ),
        pytest.param({LEASE: lease("a_1"), f"{PODS}/a": pod("")}, 404, "kube-system/a has no address", id="no address"),
        pytest.param(
            {LEASE: lease("a_1"), f"{PODS}/a": pod("10.0.0.5")},
            404,
            "give its authority with --scheduler-ca, or run kubectl --namespace kube-system port-forward pod/a 10259, "
            "and add --scheduler https://localhost:10259",
            id="no authority",
        ),
    ],
)
async def test_leader_that_cannot_be_asked(objects: Mapping[str, object], status: int, why: str) -> None:
    """The reason names what to do. Without a known certificate, no credentials are sent to a pod."""
    _, said = await found(objects, status=status)
    assert why in said


@pytest.mark.parametrize("url", ["http://10.0.0.5:10259", "10.0.0.5:10259", "https://", "https://h:x"])
async def test_wrong_address_is_a_mistake(url: str) -> None:
    """Credentials are sent over HTTPS only."""
    with pytest.raises(ConfigError, match="--scheduler must be a URL like https://"):
        await found({}, url=url)


async def test_authority_that_is_no_certificate_is_a_mistake(tmp_path: Path) -> None:
    """The message names the option and the file."""
    file = tmp_path / "ca.pem"
    file.write_text("nothing")
    with pytest.raises(ConfigError, match=r"--scheduler-ca .*ca\.pem: the .* cannot be used: it has no cert"):
        await found({}, url="https://10.0.0.5:10259", authority=str(file))


async def test_scheduler_that_identifies_nobody_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --authentication-kubeconfig each user is anonymous; the refusal alone does not say what to mend."""
    refusal = {
        "kind": "Status",
        "reason": "Forbidden",
        "message": 'User "system:anonymous" cannot get path',
        "code": 403,
    }

    async def request(*_: object, **__: object) -> Response:
        return Response(status=403, body=json.dumps(refusal).encode(), headers={})

    monkeypatch.setattr(HTTPTransport, "request", request)
    credentials = plain("http://localhost:1")
    leader = await find_leader(
        credentials, cast("HTTPTransport", Cluster({})), url="https://localhost:2", authority=None, lease=("a", "b")
    )
    answer = await leader.get("/configz")
    assert answer.why.endswith("; it cannot identify users; start it with --authentication-kubeconfig")
