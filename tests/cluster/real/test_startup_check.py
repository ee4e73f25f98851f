"""The first question to a server, and what is said when the answer is not the one hoped for."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

import msgspec
import pytest

from kube_testserver.virtual_time import VirtualClock, settle
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.cluster.real.startup_check import check_server, wait_for_server
from pyscheduler.framework.errors import ConfigError, TransportError


def status(reason: str, message: str = "no") -> bytes:
    """Return the body by which an API server refuses."""
    return msgspec.json.encode({"kind": "Status", "reason": reason, "message": message})


async def test_api_server_is_recognised(stage: Any) -> None:
    """The embedded server answers as a real one does."""
    await check_server(InProcessTransport(stage.cluster.router))


async def test_discovery_need_not_be_granted(script: Any) -> None:
    """An API server's 403 is an API server's all the same."""
    transport = script((403, status("Forbidden")))
    await check_server(transport)
    assert not transport.answers


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(TransportError("GET http://x: connection refused"), "cannot be reached", id="nobody"),
        pytest.param((401, status("Unauthorized")), "does not accept the credentials", id="credentials"),
        pytest.param((403, b"<html>Blocked by policy</html>"), "refused: .* Blocked by policy", id="proxy-403"),
        pytest.param((503, b"<h1>down</h1>"), "refused: .*HTTP 503: down", id="proxy-503"),
        pytest.param((302, b""), "redirected", id="login-page"),
        pytest.param((404, b"not here"), "refused: .*HTTP 404: not here", id="some-server"),
        pytest.param((200, b"<html>Welcome</html>"), "is not a Kubernetes API server: .* Welcome", id="html"),
        pytest.param((200, b'{"kind":"Other"}'), "is not a Kubernetes API server", id="json"),
        pytest.param((200, b'["x"]'), "is not a Kubernetes API server", id="list"),
        pytest.param((200, b""), "answered nothing", id="empty"),
    ],
)
async def test_anything_else_is_one_clear_line(script: Any, answer: object, message: str) -> None:
    """Nobody there, refused, or something else altogether: a ConfigError of one line that says which."""
    with pytest.raises(ConfigError, match=message) as caught:
        await check_server(script(answer))
    assert "\n" not in str(caught.value)


NOBODY = TransportError("GET http://x: connection refused")
READY = (200, b'{"kind":"APIResourceList"}')


async def waited(transport: Any, seconds: float = 120) -> float:
    """Wait for the server; return how long it took by the clock."""
    clock = VirtualClock()
    begun = clock.now()
    waiting = asyncio.create_task(wait_for_server(transport, clock=clock))
    await settle()
    while not waiting.done():
        await clock.advance(0.5)
        assert clock.now() - begun < seconds
    await waiting
    return clock.now() - begun


@pytest.mark.parametrize(
    "away",
    [
        pytest.param(NOBODY, id="nobody"),
        pytest.param((503, status("ServiceUnavailable")), id="503"),
        pytest.param((500, b"<h1>starting</h1>"), id="500"),
        pytest.param((429, status("TooManyRequests")), id="429"),
    ],
)
async def test_a_server_that_is_not_there_yet_is_waited_for(
    script: Any, away: object, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says so once while nothing changes, and that it answers in the end."""
    caplog.set_level(logging.INFO, logger="pyscheduler")
    transport = script(*[away] * 5, READY)
    assert 10 < await waited(transport) < 15
    assert not transport.answers
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "INFO"]
    assert "Waiting for the API server" in caplog.messages[0]


async def test_a_long_wait_is_told_of_twice_a_minute(script: Any, caplog: pytest.LogCaptureFixture) -> None:
    """One line in thirty seconds, not one for each attempt."""
    await waited(script(*[NOBODY] * 20, READY))
    assert 3 <= len(caplog.records) <= 4


async def test_a_server_that_is_there_is_not_waited_for(script: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Neither a pause nor a line in the log; discovery need not be granted."""
    caplog.set_level(logging.INFO, logger="pyscheduler")
    assert await waited(script(READY)) == 0
    assert await waited(script((403, status("Forbidden")))) == 0
    assert caplog.records == []


@pytest.mark.parametrize("refusal", [(401, status("Unauthorized")), (403, status("Forbidden"))], ids=["401", "403"])
async def test_a_server_that_has_just_come_up_may_refuse(script: Any, refusal: tuple[int, bytes]) -> None:
    """It answers before it has read accounts and roles; refused for half a minute, the credentials are wrong."""
    await waited(script(NOBODY, refusal, refusal, READY))
    late = script(NOBODY, *[refusal] * 20)
    if refusal[0] == 401:
        with pytest.raises(ConfigError, match="does not accept the credentials"):
            await waited(late)
    else:
        await waited(late)
    assert 10 < len(late.answers) < 15


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param((401, status("Unauthorized")), "does not accept the credentials", id="401"),
        pytest.param((404, b"not here"), "refused: .*HTTP 404", id="404"),
        pytest.param((200, b"<html>Welcome</html>"), "is not a Kubernetes API server", id="html"),
    ],
)
async def test_a_mistake_is_not_waited_for(script: Any, answer: object, message: str) -> None:
    """What waiting does not change ends the program, also after a wait, but for a refusal that may pass."""
    with pytest.raises(ConfigError, match=message):
        await waited(script(answer))


async def test_a_certificate_that_is_not_trusted_is_not_waited_for(script: Any) -> None:
    """The kubeconfig is wrong then, not the time."""
    error = TransportError("GET https://x: its certificate is not trusted: self-signed")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed")
    with pytest.raises(ConfigError, match="its certificate is not trusted"):
        await waited(script(error))
