"""Certificates and authorities that are written anew, in the same files, while the program runs."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from kube_testserver.virtual_time import VirtualClock
from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.framework.errors import TransportError
from tests.serving.pem import Authority

#: A bit more than the time within which files are read again.
MINUTE = 61.0


async def ok(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    """Answer everything well."""
    wire.reply(writer, b"{}")


@attrs.define
class Rotating:
    """A kubeconfig of file names, and the files."""

    folder: Path
    clock: VirtualClock
    authority: Authority
    transports: list[HTTPTransport] = attrs.Factory(list)

    def serve_by(self, authority: Authority, *, clients_of: Authority | None = None) -> ssl.SSLContext:
        """Return the context of a server whose certificate `authority` has signed."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.pair(self.folder, "server", names=["127.0.0.1"]))
        if clients_of is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=clients_of.pem.decode())
        return context

    def trust(self, *authorities: Authority) -> None:
        """Write the authorities to trust."""
        (self.folder / "ca.crt").write_bytes(b"".join(each.pem for each in authorities))

    def read_key(self) -> bytes:
        """Return the client's key."""
        return (self.folder / "client.key").read_bytes()

    def write_key(self, content: bytes) -> None:
        """Replace the client's key."""
        (self.folder / "client.key").write_bytes(content)

    async def connect(self, url: str, user: dict[str, Any]) -> HTTPTransport:
        """Return a transport that goes by the files."""
        path = self.folder / "config"
        config = {
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": url, "certificate-authority": "ca.crt"}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        }
        path.write_text(yaml.safe_dump(config))
        self.transports.append(HTTPTransport(await auth.load(kubeconfig=str(path), clock=self.clock)))
        return self.transports[-1]


@pytest.fixture
async def rotating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rotating]:
    """Return files that can be written anew."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    made = Rotating(tmp_path, VirtualClock(), Authority())
    made.trust(made.authority)
    yield made
    for transport in made.transports:
        await transport.close()


async def test_client_certificate_written_anew_is_shown_within_a_minute(wire: Any, rotating: Rotating) -> None:
    """An agent renews the certificate in its file: the next connection shows the new one."""
    first, second = rotating.authority, Authority("the next")
    server = await wire(ok, context=rotating.serve_by(first, clients_of=second))
    certificate, key = first.pair(rotating.folder, "client", client=True)
    transport = await rotating.connect(server.url, {"client-certificate": certificate, "client-key": key})
    with pytest.raises(TransportError):
        await transport.request("GET", "/x")
    second.pair(rotating.folder, "client", client=True)
    await rotating.clock.advance(MINUTE)
    assert (await transport.request("GET", "/x")).status == 200
    async with transport.stream("/x") as stream:
        assert stream.status == 200


async def test_client_certificate_written_anew_is_shown_at_once_after_a_refusal(wire: Any, rotating: Rotating) -> None:
    """An API server answers 401 to a certificate that has expired: that does not wait for the minute to be over."""

    async def refuse_first(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        wire.reply(writer, b"{}", "401 Unauthorized" if wire.connections == 1 else "200 OK")

    authority = rotating.authority
    server = await wire(refuse_first, context=rotating.serve_by(authority, clients_of=authority))
    certificate, key = authority.pair(rotating.folder, "client", client=True)
    transport = await rotating.connect(server.url, {"client-certificate": certificate, "client-key": key})
    assert (await transport.request("GET", "/x")).status == 401, "there is no other one yet"
    authority.pair(rotating.folder, "client", client=True)
    await rotating.clock.advance(11)
    assert (await transport.request("GET", "/x")).status == 200
    assert server.connections == 2


async def test_connections_of_old_certificates_are_let_go(wire: Any, rotating: Rotating) -> None:
    """However often they are rotated, what is kept is what the last one and the one before it were shown on."""
    authority = rotating.authority
    server = await wire(ok, context=rotating.serve_by(authority, clients_of=authority))
    certificate, key = authority.pair(rotating.folder, "client", client=True)
    transport = await rotating.connect(server.url, {"client-certificate": certificate, "client-key": key})
    for _ in range(5):
        for method in ("GET", "POST"):
            assert (await transport.request(method, "/x", body=b"{}")).status == 200
        async with transport.stream("/x") as stream:
            assert stream.status == 200
        authority.pair(rotating.folder, "client", client=True)
        await rotating.clock.advance(MINUTE)
    assert server.connections == 5 * 3
    assert (len(transport._pools), len(transport._sessions)) == (2, 4)
    if transport._closing:
        await asyncio.wait(transport._closing)
    assert not transport._closing


async def test_half_a_rotation_changes_nothing(wire: Any, rotating: Rotating, caplog: pytest.LogCaptureFixture) -> None:
    """A certificate whose key is still the old one is told of and not used; once both are there, they are."""
    authority = rotating.authority
    server = await wire(ok, context=rotating.serve_by(authority, clients_of=authority))
    certificate, key = authority.pair(rotating.folder, "client", client=True)
    old = rotating.read_key()
    transport = await rotating.connect(server.url, {"client-certificate": certificate, "client-key": key})
    assert (await transport.request("GET", "/x")).status == 200
    authority.pair(rotating.folder, "client", client=True)
    new = rotating.read_key()
    rotating.write_key(old)
    await rotating.clock.advance(MINUTE)
    with caplog.at_level(logging.WARNING):
        assert (await transport.request("GET", "/x")).status == 200
    assert "the client certificate and its key cannot be used" in caplog.text
    assert server.connections == 1, "the connection is the old one"
    rotating.write_key(new)
    await rotating.clock.advance(MINUTE)
    assert (await transport.request("GET", "/x")).status == 200
    assert server.connections == 2


async def test_authority_written_anew_is_trusted_within_a_minute(wire: Any, rotating: Rotating) -> None:
    """A cluster's authority is replaced: the new one counts, and the old one no longer does."""
    first, second = rotating.authority, Authority("the next")
    old = await wire(ok, context=rotating.serve_by(first))
    new = await wire(ok, context=rotating.serve_by(second))
    to_old = await rotating.connect(old.url, {"token": "abc"})
    to_new = await rotating.connect(new.url, {"token": "abc"})
    assert (await to_old.request("GET", "/x")).status == 200
    with pytest.raises(TransportError, match="not trusted"):
        await to_new.request("GET", "/x")
    rotating.trust(second)
    await rotating.clock.advance(MINUTE)
    assert (await to_new.request("GET", "/x")).status == 200
    with pytest.raises(TransportError, match="not trusted"):
        await to_old.request("GET", "/x")


@pytest.mark.parametrize("content", [None, b"", b"half a certif"], ids=["gone", "empty", "half"])
async def test_authority_that_cannot_be_read_for_a_while(wire: Any, rotating: Rotating, content: bytes | None) -> None:
    """What was trusted stays trusted while the file is being replaced."""
    server = await wire(ok, context=rotating.serve_by(rotating.authority))
    transport = await rotating.connect(server.url, {"token": "abc"})
    path = rotating.folder / "ca.crt"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    await rotating.clock.advance(MINUTE)
    assert (await transport.request("GET", "/x")).status == 200


async def test_files_are_looked_at_though_a_plugins_token_is_good_for_ever(wire: Any, rotating: Rotating) -> None:
    """An exec plugin without an expiry is not run again; the authority beside it is read again all the same."""
    first, second = rotating.authority, Authority("the next")
    server = await wire(ok, context=rotating.serve_by(second))
    rotating.trust(first)
    runs = rotating.folder / "runs"
    answer = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"abc"}}'
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": ["-c", f"echo x >>{runs}; echo '{answer}'"],
    }
    transport = await rotating.connect(server.url, {"exec": command})
    with pytest.raises(TransportError, match="not trusted"):
        await transport.request("GET", "/x")
    rotating.trust(first, second)
    await rotating.clock.advance(MINUTE)
    assert (await transport.request("GET", "/x")).status == 200
    assert runs.read_text() == "x\n"
