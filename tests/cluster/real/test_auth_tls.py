"""TLS as kubeconfig and service account describe it, against a server with a certificate of our own authority."""

from __future__ import annotations

import asyncio
import base64
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.aio.config import incluster_config

from kube_testserver.virtual_time import VirtualClock
from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.framework.errors import ConfigError, TransportError
from tests.serving.pem import Authority


async def ok(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    """Answer everything well."""
    wire.reply(writer, b"{}")


def context(pki: Path, name: str = "server", *, client: bool = False) -> ssl.SSLContext:
    """Return the TLS context of a server, which may insist on a client certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(pki / f"{name}.crt", pki / f"{name}.key")
    if client:
        made.verify_mode = ssl.CERT_REQUIRED
        made.load_verify_locations(pki / "authority.crt")
    return made


def encoded(path: Path) -> str:
    """Return a file as kubeconfigs embed it."""
    return base64.b64encode(path.read_bytes()).decode()


@pytest.fixture
async def connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Any]]:
    """Load a kubeconfig for a server and return a transport; closed at the end."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    made: list[HTTPTransport] = []

    async def to(url: str, user: dict[str, Any] | None = None, **cluster: Any) -> HTTPTransport:
        config = {
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": url, **cluster}}],
            "users": [{"name": "u", "user": user or {"token": "abc"}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        }
        path = tmp_path / "config"
        path.write_text(yaml.safe_dump(config))
        made.append(HTTPTransport(await auth.load(kubeconfig=str(path), clock=VirtualClock())))
        return made[-1]

    yield to
    for transport in made:
        await transport.close()


async def test_connection_has_a_small_buffer(wire: Any, connect: Any, pki: Path) -> None:
    """A connection for writes over TLS takes two records of buffer, not the 256 KiB that asyncio would give it."""
    server = await wire(ok, context=context(pki))
    transport = await connect(server.url, **{"certificate-authority": str(pki / "authority.crt")})
    assert (await transport.request("POST", "/x", body=b"{}")).status == 200
    (open_one,) = transport._pool()._all
    assert len(open_one._transport._ssl_protocol._ssl_buffer) == 32 << 10


@pytest.mark.parametrize("form", ["file", "data"])
async def test_own_authority(wire: Any, connect: Any, pki: Path, form: str) -> None:
    """The authority comes from a file or from the kubeconfig itself; requests and watches use it."""
    server = await wire(ok, context=context(pki))
    authority = {"certificate-authority": str(pki / "authority.crt")}
    if form == "data":
        authority = {"certificate-authority-data": encoded(pki / "authority.crt")}
    transport = await connect(server.url, **authority)
    assert (await transport.request("GET", "/x")).status == 200
    assert (await transport.request("POST", "/x", body=b"{}")).status == 200
    async with transport.stream("/x") as stream:
        assert stream.status == 200
    assert all("Authorization: Bearer abc" in head for head in server.heads)


async def test_authority_that_has_not_signed_itself(wire: Any, connect: Any, pki: Path) -> None:
    """Whatever the kubeconfig names is trusted as it is, as by Go: here the server's own certificate, and no other."""
    server = await wire(ok, context=context(pki))
    transport = await connect(server.url, **{"certificate-authority": str(pki / "server.crt")})
    assert (await transport.request("GET", "/x")).status == 200
    assert (await transport.request("POST", "/x", body=b"{}")).status == 200
    transport = await connect(server.url, **{"certificate-authority": str(pki / "named.crt")})
    with pytest.raises(TransportError, match="certificate is not trusted"):
        await transport.request("GET", "/x")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        pytest.param({"certificate-authority": "stranger.crt"}, "certificate is not trusted", id="wrong-authority"),
        pytest.param({}, "certificate is not trusted", id="no-authority"),
        pytest.param(
            {"certificate-authority": "authority.crt", "tls-server-name": "other"}, "not trusted", id="wrong-name"
        ),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_server_that_is_not_trusted(
    wire: Any, connect: Any, pki: Path, cluster: dict[str, str], message: str, method: str
) -> None:
    """A certificate that does not prove who the server is ends the request in one line that says what to mend."""
    server = await wire(ok, context=context(pki))
    if "certificate-authority" in cluster:
        cluster = {**cluster, "certificate-authority": str(pki / cluster["certificate-authority"])}
    transport = await connect(server.url, **cluster)
    with pytest.raises(TransportError, match=message) as caught:
        await transport.request(method, "/x")
    remedy = "use an address for which the certificate was made"
    if "tls-server-name" not in cluster:
        setting = "certificate-authority of the cluster in the kubeconfig"
        remedy = f"name the file with the certificate of the authority that signed it: {setting}"
    assert str(caught.value).endswith(f"; {remedy}")
    assert "\n" not in str(caught.value)
    assert not server.heads, "no credential was shown"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_certificate_of_the_server_has_expired(wire: Any, connect: Any, tmp_path: Path, method: str) -> None:
    """It is not the kubeconfig that has to be mended then."""
    authority = Authority()
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(*authority.pair(tmp_path, "server", names=["127.0.0.1"], valid_days=-1))
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    server = await wire(ok, context=server_context)
    transport = await connect(server.url, **{"certificate-authority": str(tmp_path / "ca.crt")})
    with pytest.raises(TransportError, match="its certificate has expired; renew it on the server") as caught:
        await transport.request(method, "/x")
    assert "\n" not in str(caught.value)
    assert not server.heads


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_certificate_of_the_client_has_expired(wire: Any, connect: Any, tmp_path: Path, method: str) -> None:
    """A server that insists on one hangs up, often without a word; an API server, which does not, answers 401."""
    authority = Authority()
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(*authority.pair(tmp_path, "server", names=["127.0.0.1"]))
    server_context.load_verify_locations(cadata=authority.pem.decode())
    server_context.verify_mode = ssl.CERT_REQUIRED
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    certificate, key = authority.pair(tmp_path, "client", client=True, valid_days=-1)
    server = await wire(ok, context=server_context)
    user = {"client-certificate": certificate, "client-key": key}
    transport = await connect(server.url, user, **{"certificate-authority": str(tmp_path / "ca.crt")})
    with pytest.raises(TransportError, match=rf"^{method} {server.url}/x: \S") as caught:
        await transport.request(method, "/x")
    assert "\n" not in str(caught.value)


async def test_key_with_a_password(connect: Any, tmp_path: Path) -> None:
    """It is refused in one line; nobody is asked for the password, and nothing waits for it."""
    certificate, key = Authority().pair(tmp_path, "client", client=True, password=b"secret")
    with pytest.raises(ConfigError, match="the client's key is encrypted; only a key without a password") as caught:
        await connect("https://127.0.0.1:1", {"client-certificate": certificate, "client-key": key})
    assert "\n" not in str(caught.value)


async def test_verification_may_be_skipped(wire: Any, connect: Any, pki: Path) -> None:
    """insecure-skip-tls-verify is the user's own decision."""
    server = await wire(ok, context=context(pki))
    transport = await connect(server.url, **{"insecure-skip-tls-verify": True})
    assert (await transport.request("GET", "/x")).status == 200


async def test_server_known_under_another_name(wire: Any, connect: Any, pki: Path) -> None:
    """tls-server-name says which name the certificate must bear, where the address is not it."""
    server = await wire(ok, context=context(pki, "named"))
    authority = {"certificate-authority": str(pki / "authority.crt")}
    with pytest.raises(TransportError, match="IP address mismatch"):
        await (await connect(server.url, **authority)).request("GET", "/x")
    transport = await connect(server.url, **authority, **{"tls-server-name": "kubernetes.default.svc"})
    assert (await transport.request("GET", "/x")).status == 200
    assert (await transport.request("POST", "/x", body=b"{}")).status == 200
    async with transport.stream("/x") as stream:
        assert stream.status == 200


async def test_client_certificate(wire: Any, connect: Any, pki: Path) -> None:
    """A certificate and its key, embedded in the kubeconfig, are shown to a server that asks for them."""
    server = await wire(ok, context=context(pki, client=True))
    user = {
        "client-certificate-data": encoded(pki / "client.crt"),
        "client-key-data": encoded(pki / "client.key"),
    }
    transport = await connect(server.url, user, **{"certificate-authority": str(pki / "authority.crt")})
    without = await connect(server.url, **{"certificate-authority": str(pki / "authority.crt")})
    for method in ("GET", "POST"):
        assert (await transport.request(method, "/x")).status == 200
        with pytest.raises(TransportError):
            await without.request(method, "/x")


CERTIFICATE_PLUGIN = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
runs = pathlib.Path(sys.argv[2])
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
status = {
    "clientCertificateData": (folder / "client.crt").read_text() + "# " + runs.read_text() + "\\n",
    "clientKeyData": (folder / "client.key").read_text(),
}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_client_certificate_of_an_exec_plugin_is_renewed(
    wire: Any, connect: Any, pki: Path, tmp_path: Path, method: str
) -> None:
    """Refused, the plugin is asked for another certificate, which is shown on a new connection."""

    async def refuse_first(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        wire.reply(writer, b"{}", "401 Unauthorized" if wire.connections == 1 else "200 OK")

    server = await wire(refuse_first, context=context(pki, client=True))
    script = tmp_path / "plugin.py"
    script.write_text(CERTIFICATE_PLUGIN)
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script), str(pki), str(tmp_path / "runs")],
    }
    transport = await connect(server.url, {"exec": command}, **{"certificate-authority": str(pki / "authority.crt")})
    assert (await transport.request(method, "/x")).status == 200
    assert (tmp_path / "runs").read_text() == "xx"
    assert server.connections == 2


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_plain_http_at_a_tls_port(wire: Any, connect: Any, pki: Path, method: str) -> None:
    """A kubeconfig that says http where TLS is spoken gets one line."""
    server = await wire(ok, context=context(pki))
    transport = await connect(server.url.replace("https", "http"))
    with pytest.raises(TransportError, match=f"{method} http:") as caught:
        await transport.request(method, "/x")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_tls_at_a_plain_http_port(connect: Any, method: str) -> None:
    """And the other way round."""

    async def complain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(complain, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = await connect(f"https://127.0.0.1:{port}", **{"insecure-skip-tls-verify": True})
    with pytest.raises(TransportError, match=f"{method} https:") as caught:
        await transport.request(method, "/x")
    assert "\n" not in str(caught.value)
    server.close()


class ServiceAccount:
    """What a pod finds in its file system."""

    def __init__(self, folder: Path, pki: Path) -> None:
        self.token = folder / "token"
        self.authority = folder / "ca.crt"
        self.token.write_text("first\n")
        self.authority.write_bytes((pki / "authority.crt").read_bytes())


@pytest.fixture
def account(tmp_path: Path, pki: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceAccount:
    """Make this process look like one in a pod."""
    made = ServiceAccount(tmp_path, pki)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(made.token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(made.authority))
    return made


async def test_service_account(wire: Any, pki: Path, account: ServiceAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a pod the API server, its authority and the token are found; a rotated token is in use in a minute."""
    server = await wire(ok, context=context(pki))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", server.url.rpartition(":")[2])
    clock = VirtualClock()
    transport = HTTPTransport(await auth.load(clock=clock))
    assert transport.server == server.url
    await transport.request("GET", "/x")
    account.token.write_text("second\n")
    await transport.request("GET", "/x")
    await clock.advance(61)
    await transport.request("GET", "/x")
    await transport.close()
    shown = [line for head in server.heads for line in head.splitlines() if line.startswith("Authorization")]
    assert [line.lower() for line in shown] == [
        "authorization: bearer first",
        "authorization: bearer first",
        "authorization: bearer second",
    ]


async def test_service_account_is_passed_over_for_a_kubeconfig(
    account: ServiceAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubeconfig that was asked for wins over the pod's own account."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"kubeconfig .*none does not exist"):
        await auth.load()


async def test_service_account_whose_token_is_gone_for_a_while(account: ServiceAccount) -> None:
    """While the file is being replaced, the old token goes on."""
    clock = VirtualClock()
    credentials = await auth.load(clock=clock)
    for content in (None, "", "second"):
        if content is None:
            account.token.unlink()
        else:
            account.token.write_text(content)
        await clock.advance(61)
        shown = await credentials.authorization()
        assert shown == ("bearer second" if content else "bearer first")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(lambda account: account.token.unlink(), "token file does not exist", id="no-token"),
        pytest.param(lambda account: account.token.write_text(""), "Token file exists but empty", id="empty-token"),
        pytest.param(lambda account: account.authority.unlink(), "certification file does not exist", id="no-ca"),
        pytest.param(lambda account: account.authority.write_text("x"), "certificate-authority cannot", id="bad-ca"),
    ],
)
async def test_service_account_that_is_incomplete(
    account: ServiceAccount, spoil: Callable[[ServiceAccount], object], message: str
) -> None:
    """A pod without a mounted token says so in one line."""
    spoil(account)
    with pytest.raises(ConfigError, match=rf"service account.*{message}"):
        await auth.load()
