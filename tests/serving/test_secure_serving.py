"""The HTTPS port over real sockets, with an API server that knows its users and goes by roles."""

from __future__ import annotations

import json
import logging
import random
import re
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import attrs
import pytest

from kube_objects.clock import LoopClock
from kube_testserver.access.users import User
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.serving.faults import Fault
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.flags.run_flags import AuthenticationFlags, AuthorizationFlags, Flags, SecureServingFlags
from pyscheduler.framework.errors import ConfigError
from pyscheduler.runtime.routes import Routes
from pyscheduler.serving.debug_pages import DebugPages
from pyscheduler.serving.health_checks import Probes
from pyscheduler.serving.inspection import InspectionPages
from pyscheduler.serving.pages import Pages
from pyscheduler.serving.secure_serving import SecureServer
from pyscheduler.telemetry.metrics import Metrics
from tests.serving.pem import Authority

ANONYMOUS = "system:anonymous"
_RBAC = "rbac.authorization.k8s.io"


def role(name: str, user: str, rule: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a ClusterRole of one rule, and its binding to a user."""
    subject = {"kind": "User", "name": user, "apiGroup": _RBAC}
    return [
        {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "subjects": [subject],
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        },
    ]


def delegates(user: str) -> list[dict[str, Any]]:
    """Return what lets a user ask about others, and read the cluster's client authority."""
    reviews = ["tokenreviews", "subjectaccessreviews"]
    groups = ["authentication.k8s.io", "authorization.k8s.io"]
    return [
        *role("reviews", user, {"verbs": ["create"], "apiGroups": groups, "resources": reviews}),
        *role("authority", user, {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}),
    ]


@attrs.define
class SecuredCluster:
    """A cluster with users, and HTTPS ports that authenticate against it."""

    cluster: EmbeddedCluster
    kubeconfig: Path
    folder: Path
    servers: list[SecureServer] = attrs.Factory(list)
    #: Called at the end.
    closing: list[Callable[[], Awaitable[None]]] = attrs.Factory(list)
    #: What was recorded of all its ports.
    metrics: Metrics = attrs.Factory(Metrics)

    async def open(
        self,
        *,
        asking: bool = True,
        profiling: bool = True,
        authentication: Mapping[str, Any] | None = None,
        inspection: InspectionPages | None = None,
    ) -> Port:
        """Open an HTTPS port; with `asking`, it asks the cluster as `scheduler`."""
        file = str(self.kubeconfig) if asking else ""
        flags = Flags(
            secure_serving=SecureServingFlags(bind_address="127.0.0.1"),
            authentication=AuthenticationFlags(authentication_kubeconfig=file, **(authentication or {})),
            authorization=AuthorizationFlags(authorization_kubeconfig=file),
        )
        clock = LoopClock()
        pages = Pages(
            probes=Probes(started_at=clock.wall(), healthz=(), livez=(), readyz=()),
            metrics=lambda: (b"scheduler_pending_pods 1\n", "text/plain; version=0.0.4"),
            configz=lambda: b"{}",
            routes=Routes(),
        )
        debugging = DebugPages(
            clock=clock,
            started_at=clock.wall() - 3725,
            version="pyscheduler 1",
            flags={"v": "2", "config": "x.yaml"},
            profiling=profiling,
            with_flagz=True,
            with_statusz=True,
            paths=pages.paths,
        )
        server = SecureServer(
            pages,
            flags,
            clock=clock,
            rng=random.Random(1),
            debugging=debugging.answer,
            inspection=inspection,
            request_metrics=self.metrics.request_metrics(),
        )
        self.servers.append(server)
        await server.prepare()
        await server.start(socket.create_server(("127.0.0.1", 0)))
        return Port(server.port)


@attrs.define
class Port:
    """A client of an HTTPS port."""

    number: int

    async def get(
        self,
        path: str,
        token: str = "",
        *,
        method: str = "GET",
        pair: tuple[str, str] | None = None,
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, str]:
        """Return status and text."""
        status, data = await self.download(path, token, method=method, pair=pair, body=body, headers=headers)
        return status, data.decode()

    async def download(
        self,
        path: str,
        token: str = "",
        *,
        method: str = "GET",
        pair: tuple[str, str] | None = None,
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Return status and body."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if pair is not None:
            context.load_cert_chain(*pair)
        sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method, f"https://127.0.0.1:{self.number}{path}", ssl=context, headers=sent, data=body
            ) as answer,
        ):
            self.headers = answer.headers
            return answer.status, await answer.read()

    headers: Any = None


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SecuredCluster]:
    """Yield a cluster that goes by roles."""
    names = ("scheduler", "prometheus", "jane")
    tokens = {name: User(name=name) for name in names} | {"root": User(name="root", groups=("system:masters",))}
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1), authorization="rbac", tokens=tokens)
    cluster.add(
        *delegates("scheduler"),
        *role("metrics", "prometheus", {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/metrics/slis"]}),
        *role("certified", "cert-user", {"verbs": ["get"], "nonResourceURLs": ["/configz"]}),
    )
    server = cluster.server()
    await server.start()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": server.url}}],
                "users": [{"name": "u", "user": {"token": "scheduler"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "c",
            }
        )
    )
    world = SecuredCluster(cluster, kubeconfig, tmp_path)
    yield world
    for each in world.servers:
        await each.stop()
    for close in world.closing:
        await close()
    await server.stop()


def forbidden(user: str, path: str, verb: str = "get") -> dict[str, Any]:
    """Return the body of a refusal."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'forbidden: User "{user}" cannot {verb} path "{path}"',
        "reason": "Forbidden",
        "details": {},
        "code": 403,
    }


UNAUTHORIZED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Unauthorized",
    "reason": "Unauthorized",
    "code": 401,
}


@pytest.mark.slow
async def test_probes_are_open_and_other_paths_need_authorization(world: SecuredCluster) -> None:
    """Without credentials one is anonymous, who may look at the probes and nothing else."""
    port = await world.open()
    for path in ("/healthz", "/livez", "/readyz"):
        assert await port.get(path) == (200, "ok")
    for path in ("/metrics", "/configz", "/livez/ping", "/debug/pprof/", "/nothing"):
        status, text = await port.get(path)
        assert (status, json.loads(text)) == (403, forbidden(ANONYMOUS, path))
    assert port.headers["Cache-Control"] == "no-cache, private"
    assert port.headers["Content-Type"] == "application/json"
    assert text.endswith("}\n")


@pytest.mark.slow
async def test_roles_decide_what_a_token_may_read(world: SecuredCluster) -> None:
    """Prometheus reads metrics and nothing else; a token that the cluster does not know is refused."""
    port = await world.open()
    assert await port.get("/metrics", "prometheus") == (200, "scheduler_pending_pods 1\n")
    status, text = await port.get("/configz", "prometheus")
    assert (status, json.loads(text)) == (403, forbidden("prometheus", "/configz"))
    status, text = await port.get("/metrics", "prometheus", method="DELETE")
    assert (status, json.loads(text)) == (403, forbidden("prometheus", "/metrics", "delete"))
    status, text = await port.get("/metrics", "nonsense")
    assert (status, json.loads(text)) == (401, UNAUTHORIZED)
    assert (await port.get("/healthz", "nonsense"))[0] == 401
    assert await port.get("/configz", "root") == (200, "{}")


@pytest.mark.slow
async def test_errors_are_indented_for_browsers_and_curl(world: SecuredCluster) -> None:
    """As an API server does it: for curl, or where `pretty` asks for it."""
    port = await world.open()
    status, text = await port.get("/metrics?pretty=true")
    assert (status, text) == (403, json.dumps(forbidden(ANONYMOUS, "/metrics"), indent=2))
    assert (await port.get("/metrics", headers={"User-Agent": "curl/8.5.0"}))[1] == text
    assert "\n  " not in (await port.get("/metrics?pretty=0", headers={"User-Agent": "curl/8.5.0"}))[1]


@pytest.mark.slow
async def test_user_names_are_escaped_in_errors(world: SecuredCluster) -> None:
    """A path with markup comes back harmless."""
    port = await world.open()
    message = json.loads((await port.get("/%3Cb%3E&"))[1])["message"]
    assert message == f'forbidden: User "{ANONYMOUS}" cannot get path "/&lt;b&gt;&amp;"'


@pytest.mark.slow
async def test_without_a_kubeconfig_only_the_probes_answer(
    world: SecuredCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said at the start, once for authentication and once for authorization; tokens say nothing then."""
    with caplog.at_level(logging.WARNING):
        port = await world.open(asking=False)
    told = [record.getMessage() for record in caplog.records if "secure_serving" in record.name]
    assert [line.split(" provided")[0] for line in told] == [
        "No authorization-kubeconfig",
        "No authentication-kubeconfig",
    ]
    assert await port.get("/readyz", "prometheus") == (200, "ok")
    status, text = await port.get("/metrics", "prometheus")
    assert (status, json.loads(text)["message"]) == (403, forbidden(ANONYMOUS, "/metrics")["message"])


@pytest.mark.slow
async def test_an_api_server_that_does_not_answer(world: SecuredCluster) -> None:
    """A token cannot be checked: 401. A decision cannot be had: 500, with the reason."""
    port = await world.open()
    assert (await port.get("/metrics", "prometheus"))[0] == 200
    world.cluster.faults.add(Fault(method="POST", path="subjectaccessreviews", status=403))
    status, text = await port.get("/metrics/slis", "prometheus")
    assert status == 500
    assert text.startswith('Internal Server Error: "/metrics/slis": ')
    world.cluster.faults.add(Fault(method="POST", path="tokenreviews", status=403))
    assert (await port.get("/metrics", "jane"))[0] == 401
    # What was found out a moment ago still counts.
    assert (await port.get("/metrics", "prometheus"))[0] == 200


# --- client certificates ------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_client_certificate_of_the_file(world: SecuredCluster) -> None:
    """Its common name is the user, whom the cluster is asked about."""
    authority = Authority()
    file = world.folder / "ca.crt"
    file.write_bytes(authority.pem)
    port = await world.open(authentication={"client_ca_file": str(file)})
    pair = authority.pair(world.folder, "cert-user", client=True)
    assert await port.get("/configz", pair=pair) == (200, "{}")
    status, text = await port.get("/metrics", pair=pair)
    assert (status, json.loads(text)) == (403, forbidden("cert-user", "/metrics"))
    masters = authority.pair(world.folder, "admin", organizations=["system:masters"], client=True)
    assert (await port.get("/metrics", pair=masters))[0] == 200
    with pytest.raises(aiohttp.ClientError):
        await port.get("/healthz", pair=Authority().pair(world.folder, "eve", client=True))
    assert await port.get("/healthz") == (200, "ok")


@pytest.mark.slow
async def test_requests_are_measured_as_by_kube_scheduler(world: SecuredCluster) -> None:
    """Users, decisions, tokens and questions to the cluster are counted in kube-scheduler's families."""
    authority = Authority()
    file = world.folder / "ca.crt"
    file.write_bytes(authority.pem)
    port = await world.open(authentication={"client_ca_file": str(file)})
    for _ in range(2):
        assert (await port.get("/metrics", "prometheus"))[0] == 200
    assert (await port.get("/metrics", "nobody"))[0] == 401
    assert (await port.get("/metrics"))[0] == 403
    masters = authority.pair(world.folder, "admin", organizations=["system:masters"], client=True)
    assert (await port.get("/metrics", pair=masters))[0] == 200
    world.cluster.faults.add(Fault(method="POST", path="subjectaccessreviews", status=403))
    assert (await port.get("/configz", "prometheus"))[0] == 500
    text = world.metrics.render()[0].decode()
    found = dict(re.findall(r"(?m)^(\S+?(?:total|requests|attempts|_count)(?:{.*})?) (\d+)\.0$", text))
    expected = {
        'authenticated_user_requests{username="admin"}': 1,
        'authenticated_user_requests{username="other"}': 4,
        'authentication_attempts{result="error"}': 1,
        'authentication_attempts{result="success"}': 5,
        'authentication_duration_seconds_count{result="success"}': 5,
        'authentication_token_cache_active_fetch_count{status="in_flight"}': 0,
        'authentication_token_cache_fetch_total{status="error"}': 1,
        'authentication_token_cache_fetch_total{status="ok"}': 1,
        'authentication_token_cache_request_total{status="hit"}': 2,
        'authentication_token_cache_request_total{status="miss"}': 2,
        'authorization_attempts_total{result="allowed"}': 3,
        'authorization_attempts_total{result="no-opinion"}': 1,
        'authorization_attempts_total{result="error"}': 1,
        'apiserver_delegated_authn_request_total{code="201"}': 2,
        'apiserver_delegated_authz_request_total{code="201"}': 2,
        'apiserver_delegated_authz_request_total{code="403"}': 1,
        "apiserver_client_certificate_expiration_seconds_count": 1,
    }
    assert {name: int(found.get(name, -1)) for name in expected} == expected


async def publish(world: SecuredCluster, authority: Authority) -> None:
    """Let the cluster say whose certificates it believes."""
    answer = await InProcessTransport(world.cluster.router).request(
        "PATCH",
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
        body=json.dumps({"data": {"client-ca-file": authority.pem.decode()}}).encode(),
        content_type="application/merge-patch+json",
    )
    assert answer.status == 200, answer


@pytest.mark.slow
async def test_cluster_ca_is_looked_up(world: SecuredCluster) -> None:
    """Without a file, the cluster says whose certificates count."""
    authority = Authority()
    await publish(world, authority)
    port = await world.open(authentication={"authentication_tolerate_lookup_failure": False})
    await until_reloaded(world)
    pair = authority.pair(world.folder, "cert-user", client=True)
    assert await port.get("/configz", pair=pair) == (200, "{}")


@pytest.mark.slow
async def test_cluster_ca_lookup_can_be_skipped(world: SecuredCluster) -> None:
    """Then nobody is asked for a certificate."""
    authority = Authority()
    await publish(world, authority)
    port = await world.open(authentication={"authentication_skip_lookup": True})
    await until_reloaded(world)
    pair = authority.pair(world.folder, "cert-user", client=True)
    assert (await port.get("/configz", pair=pair))[0] == 403


@pytest.mark.slow
async def test_a_look_up_that_fails(world: SecuredCluster, caplog: pytest.LogCaptureFixture) -> None:
    """It is fatal only where that is wanted; otherwise it is said, and all is as without."""
    world.cluster.faults.add(Fault(method="GET", path="configmaps", status=403))
    with pytest.raises(ConfigError, match=r"^--authentication-tolerate-lookup-failure=false: unable to load configmap"):
        await world.open(authentication={"authentication_tolerate_lookup_failure": False})
    with caplog.at_level(logging.WARNING):
        port = await world.open()
        await until_reloaded(world)
    assert "Error looking up in-cluster authentication configuration: " in caplog.text
    assert (await port.get("/metrics", "prometheus"))[0] == 200


async def until_reloaded(world: SecuredCluster) -> None:
    """Wait for the first look at files and cluster."""
    await world.servers[-1].looked


# --- what only this port has --------------------------------------------------------------------


@pytest.mark.slow
async def test_flags_and_status(world: SecuredCluster) -> None:
    """For people: the flags with their values; since when it runs, and what it answers."""
    port = await world.open()
    status, text = await port.get("/flagz", "root")
    assert (status, text.splitlines()[1], text.splitlines()[-2:]) == (
        200,
        "kube-scheduler flagz",
        ["config=x.yaml", "v=2"],
    )
    status, text = await port.get("/statusz", "root")
    assert text.startswith("\nkube-scheduler statusz\nWarning: This endpoint is not meant to be machine parseable")
    assert re.search(r"\nUp: 1 hr 02 min \d\d sec\n", text)
    assert f"\nPython version: {sys.version.split()[0]}\n" in text
    assert "\nPaths: /configz /flagz /healthz /livez /metrics /readyz\n" in text


@pytest.mark.slow
async def test_profiles(world: SecuredCluster) -> None:
    """Who waits where, and what takes how long; nonsense is refused."""
    port = await world.open()
    assert "/debug/pprof/goroutine" in (await port.get("/debug/pprof/", "root"))[1]
    assert "serving certificates" in (await port.get("/debug/pprof/goroutine", "root"))[1]
    assert "function calls" in (await port.get("/debug/pprof/profile?seconds=0.05", "root"))[1]
    assert (await port.get("/debug/pprof/cmdline", "root"))[0] == 200
    for nonsense in ("0", "-1", "x", "1e9"):
        assert (await port.get(f"/debug/pprof/profile?seconds={nonsense}", "root"))[0] == 400


@pytest.mark.slow
async def test_profiling_can_be_off(world: SecuredCluster) -> None:
    """Then there is nothing below /debug."""
    port = await world.open(profiling=False)
    for path in ("/debug/pprof/", "/debug/pprof/goroutine", "/debug/flags/v"):
        assert (await port.get(path, "root"))[0] == 404


@pytest.mark.slow
async def test_the_log_level_can_be_changed(world: SecuredCluster) -> None:
    """As for kube-scheduler: PUT a number."""
    port = await world.open()
    logger = logging.getLogger("pyscheduler")
    before = logger.level
    try:
        assert await port.get("/debug/flags/v", "root", method="PUT", body="4") == (
            200,
            "successfully set klog.logging.verbosity to 4\n",
        )
        assert logger.level == logging.DEBUG
        assert (await port.get("/debug/flags/v", "root", method="PUT", body="much"))[0] == 400
        assert (await port.get("/debug/flags/v", "root"))[0] == 406
        assert (await port.get("/debug/flags/v", "jane", method="PUT", body="0"))[0] == 403
        assert logger.level == logging.DEBUG
    finally:
        logger.setLevel(before)


@pytest.mark.slow
async def test_slis_can_be_reset(world: SecuredCluster) -> None:
    """DELETE, as there."""
    port = await world.open()
    await port.get("/readyz")
    assert "kubernetes_healthcheck{" in (await port.get("/metrics/slis", "root"))[1]
    assert await port.get("/metrics/slis", "root", method="DELETE") == (200, "metrics reset\n")
    assert "kubernetes_healthcheck{" not in (await port.get("/metrics/slis", "root"))[1]
    assert (await port.get("/metrics", "root", method="POST"))[0] == 405
