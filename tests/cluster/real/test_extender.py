"""The way to an extender: what is sent, what comes back, TLS, and servers that fail in every way."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.cluster.real import extender as extender_module
from pyscheduler.cluster.real.extender import HTTPExtenderConnection
from pyscheduler.config.types import Extender, ExtenderTLS
from pyscheduler.framework.errors import ConfigError, TransportError
from tests.cluster.real.test_auth_tls import context


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., HTTPExtenderConnection]]:
    """Make connections that are closed at the end."""
    made: list[HTTPExtenderConnection] = []

    def make(url: str, **fields: Any) -> HTTPExtenderConnection:
        made.append(HTTPExtenderConnection(Extender(url_prefix=url, **fields)))
        return made[-1]

    yield make
    for connection in made:
        await connection.close()


async def echo(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    """Answer with what was asked."""
    wire.reply(writer, json.dumps({"head": head, "body": body.decode()}).encode())


async def test_question_and_answer(wire: Any, connect: Any) -> None:
    """JSON is posted with its length, however many pieces it has; status, headers and body come back."""
    server = await wire(echo)
    connection = connect(server.url)
    answer = await connection.post(f"{server.url}/filter", [b"[", b"1" * 300_000, b"]"])
    assert answer.status == 200
    told = json.loads(answer.body)
    assert told["body"] == f"[{'1' * 300_000}]"
    head = told["head"].lower()
    assert head.startswith("post /filter http/1.1")
    assert "content-type: application/json" in head
    assert "content-length: 300002" in head
    assert "transfer-encoding" not in head
    assert json.loads((await connection.post(f"{server.url}/x", [b"{}"])).body)["body"] == "{}"


async def test_any_status_is_an_answer(wire: Any, connect: Any) -> None:
    """What a status means is the asker's business; a redirection that keeps the question is followed."""

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        path = head.split()[1]
        if path == "/moved":
            writer.write(b"HTTP/1.1 307 Moved\r\nLocation: /filter\r\nContent-Length: 0\r\n\r\n")
        elif path == "/circle":
            writer.write(b"HTTP/1.1 308 Moved\r\nLocation: /circle\r\nContent-Length: 0\r\n\r\n")
        elif path == "/filter":
            wire.reply(writer, body)
        else:
            writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")

    server = await wire(answer)
    connection = connect(server.url)
    assert (await connection.post(f"{server.url}/other", [b"{}"])).status == 503
    assert (await connection.post(f"{server.url}/moved", [b'{"a":', b"1}"])).body == b'{"a":1}'
    with pytest.raises(TransportError, match="stopped after 10 redirects"):
        await connection.post(f"{server.url}/circle", [b"{}"])


async def test_proxy_is_that_of_the_environment(wire: Any, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_PROXY may hold networks, as for all Go programs; this machine is never asked for through a proxy."""
    proxy = await wire(echo)
    # A proxy may be named without a scheme.
    monkeypatch.setenv("HTTP_PROXY", proxy.url.removeprefix("http://"))
    monkeypatch.setenv("NO_PROXY", "192.0.2.0/24")
    connection = connect("http://extender.test")
    answer = await connection.post("http://extender.test/filter", [b"{}"])
    assert json.loads(answer.body)["head"].startswith("POST http://extender.test/filter HTTP/1.1")
    own = await wire(echo)
    answer = await connection.post(f"{own.url}/filter", [b"{}"])
    assert json.loads(answer.body)["head"].startswith("POST /filter HTTP/1.1")
    with suppress(TransportError, TimeoutError):  # no machine has an address of this network
        async with asyncio.timeout(0.2):
            await connection.post("http://192.0.2.1:1/filter", [b"{}"])
    assert len(proxy.heads) == 1


async def test_unreachable_server(connect: Any, unused_tcp_port: int) -> None:
    """The message is Go's."""
    url = f"http://127.0.0.1:{unused_tcp_port}/filter"
    with pytest.raises(TransportError) as told:
        await connect(url).post(url, [b"{}"])
    assert str(told.value) == f'Post "{url}": dial tcp 127.0.0.1:{unused_tcp_port}: connect: connection refused'


@pytest.mark.parametrize(
    ("url", "message"),
    [
        pytest.param("extender/filter", 'unsupported protocol scheme ""', id="no scheme"),
        pytest.param("ftp://extender/filter", 'unsupported protocol scheme "ftp"', id="another scheme"),
    ],
)
async def test_urls_that_are_none(connect: Any, url: str, message: str) -> None:
    """A prefix that cannot work is told at each call, as in Go, not by a traceback."""
    with pytest.raises(TransportError) as told:
        await connect(url).post(url, [b"{}"])
    assert str(told.value) == f'Post "{url}": {message}'


async def test_connections_that_break(wire: Any, connect: Any) -> None:
    """A server that hangs up, before its answer or in it, is an error of one line."""

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if "/half" in head:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
            await writer.drain()
        writer.close()

    server = await wire(answer)
    connection = connect(server.url)
    with pytest.raises(TransportError, match=r'^Post "[^"]+/none": EOF$'):
        await connection.post(f"{server.url}/none", [b"{}"])
    with pytest.raises(TransportError, match=r'^Post "[^"]+/half": unexpected EOF$'):
        await connection.post(f"{server.url}/half", [b"{}"])


async def test_an_answer_without_end(wire: Any, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is larger than any sense is not read to its end."""
    monkeypatch.setattr(extender_module, "_LARGEST", 1 << 20)

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        for _ in range(64):
            writer.write(b" " * (1 << 16))
            await writer.drain()
        writer.close()

    server = await wire(answer)
    with pytest.raises(TransportError, match="the answer has more than 1 MiB"):
        await connect(server.url).post(f"{server.url}/filter", [b"{}"])


async def test_cancelled_calls_leave_nothing_open(wire: Any, connect: Any) -> None:
    """Who gives up waiting may ask again at once, over the same session."""
    asked = asyncio.Event()

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if "/slow" in head:
            asked.set()
            return
        wire.reply(writer, b"{}")

    server = await wire(answer)
    connection = connect(server.url)
    call = asyncio.create_task(connection.post(f"{server.url}/slow", [b"{}"]))
    await asked.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert call.cancelled()
    assert (await connection.post(f"{server.url}/quick", [b"{}"])).body == b"{}"


async def test_after_the_end_nothing_is_sent(connect: Any) -> None:
    """A connection that was closed says so; closing twice is fine."""
    connection = connect("http://127.0.0.1:1")
    await connection.close()
    await connection.close()
    with pytest.raises(TransportError, match="the scheduler is stopping"):
        await connection.post("http://127.0.0.1:1/filter", [b"{}"])


# TLS


def tls(**fields: Any) -> ExtenderTLS:
    """Return TLS settings."""
    return ExtenderTLS(**fields)


@pytest.mark.parametrize("form", ["file", "data"])
async def test_an_authority_of_ones_own(wire: Any, connect: Any, pki: Path, form: str) -> None:
    """It comes from a file or stands in the configuration."""
    server = await wire(echo, context=context(pki))
    file = pki / "authority.crt"
    settings = tls(ca_file=str(file)) if form == "file" else tls(ca_data=file.read_bytes())
    connection = connect(server.url, enable_https=True, tls_config=settings)
    assert (await connection.post(f"{server.url}/filter", [b"{}"])).status == 200


async def test_a_server_that_is_not_trusted(wire: Any, connect: Any, pki: Path) -> None:
    """Another authority's certificate is refused; without `enableHTTPS` the system's authorities decide."""
    server = await wire(echo, context=context(pki))
    for fields in ({"tls_config": tls(ca_file=str(pki / "stranger.crt"))}, {}):
        with pytest.raises(TransportError, match="tls: failed to verify certificate: x509: "):
            await connect(server.url, **fields).post(f"{server.url}/filter", [b"{}"])


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"enable_https": True}, id="enableHTTPS alone"),
        pytest.param({"enable_https": True, "tls_config": tls()}, id="enableHTTPS with empty settings"),
        pytest.param({"tls_config": tls(insecure=True)}, id="insecure"),
    ],
)
async def test_without_an_authority_any_server_will_do(
    wire: Any, connect: Any, pki: Path, fields: dict[str, Any]
) -> None:
    """HTTPS that is switched on without an authority trusts whoever answers, as in kube-scheduler."""
    server = await wire(echo, context=context(pki))
    assert (await connect(server.url, **fields).post(f"{server.url}/filter", [b"{}"])).status == 200


async def test_a_server_by_another_name(wire: Any, connect: Any, pki: Path) -> None:
    """`serverName` is what the certificate has to say, whatever the address."""
    server = await wire(echo, context=context(pki, "named"))
    authority = str(pki / "authority.crt")
    named = connect(server.url, tls_config=tls(ca_file=authority, server_name="kubernetes.default.svc"))
    assert (await named.post(f"{server.url}/filter", [b"{}"])).status == 200
    with pytest.raises(TransportError, match="x509"):
        await connect(server.url, tls_config=tls(ca_file=authority)).post(f"{server.url}/filter", [b"{}"])


@pytest.mark.parametrize("form", ["file", "data"])
async def test_a_client_certificate(wire: Any, connect: Any, pki: Path, form: str) -> None:
    """The extender sees who asks; certificate and key come from files or stand in the configuration."""
    server = await wire(echo, context=context(pki, client=True))
    certificate, key = pki / "client.crt", pki / "client.key"
    settings = (
        tls(ca_file=str(pki / "authority.crt"), cert_file=str(certificate), key_file=str(key))
        if form == "file"
        else tls(ca_file=str(pki / "authority.crt"), cert_data=certificate.read_bytes(), key_data=key.read_bytes())
    )
    assert (await connect(server.url, tls_config=settings).post(f"{server.url}/filter", [b"{}"])).status == 200
    nobody = connect(server.url, tls_config=tls(ca_file=str(pki / "authority.crt")))
    with pytest.raises(TransportError):
        await nobody.post(f"{server.url}/filter", [b"{}"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            {"insecure": True, "ca_data": b"x"},
            "specifying a root certificates file with the insecure flag is not allowed",
            id="insecure with an authority",
        ),
        pytest.param({"cert_data": b"x"}, "a client certificate needs its key", id="no key"),
        pytest.param({"ca_data": b"nonsense"}, "the certificate-authority cannot be used", id="no authority at all"),
        pytest.param({"ca_data": b"\xf7\xdf"}, "the certificate-authority cannot be used", id="no text at all"),
        pytest.param({"ca_file": "nowhere.crt"}, "the certificate-authority cannot be used", id="no such file"),
        pytest.param(
            {"cert_data": b"nonsense", "key_data": b"nonsense"}, "client certificate", id="no certificate at all"
        ),
    ],
)
async def test_settings_that_cannot_be_used(connect: Any, fields: dict[str, Any], message: str) -> None:
    """They are told before anything is asked."""
    with pytest.raises(ConfigError, match=message):
        connect("https://extender", tls_config=tls(**fields))


# Leadership


async def test_only_a_leader_has_pods_bound(wire: Any, cluster_of_one: EmbeddedCluster) -> None:
    """A replica that leads no more may ask what it likes, but has nothing bound."""
    server = await wire(echo)
    leads = True
    transport = InProcessTransport(cluster_of_one.router)
    transport.fence(lambda: leads)
    connection = transport.extender(Extender(url_prefix=server.url, bind_verb="bind", filter_verb="filter"))
    assert (await connection.post(f"{server.url}/bind", [b"{}"])).status == 200
    leads = False
    assert (await connection.post(f"{server.url}/filter", [b"{}"])).status == 200
    with pytest.raises(TransportError, match="not sent, because this replica does not lead"):
        await connection.post(f"{server.url}/bind", [b"{}"])
    await connection.close()


@pytest.fixture
def cluster_of_one(stage: Any) -> EmbeddedCluster:
    """Return an embedded cluster."""
    cluster: EmbeddedCluster = stage.cluster
    return cluster


def test_contexts_are_strict_by_default(pki: Path) -> None:
    """With an authority, certificate and name are checked."""
    made = extender_module._context(Extender(url_prefix="https://e"), ExtenderTLS(ca_file=str(pki / "authority.crt")))
    assert isinstance(made, ssl.SSLContext)
    assert (made.verify_mode, made.check_hostname) == (ssl.CERT_REQUIRED, True)
