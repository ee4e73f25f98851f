"""The first question to a server, and what is said when the answer is not the one hoped for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.cluster.real.probe import check_server
from pyscheduler.framework.errors import ConfigError, TransportError


def status(reason: str, message: str = "no") -> bytes:
    """Return the body by which an API server refuses."""
    return msgspec.json.encode({"kind": "Status", "reason": reason, "message": message})


async def test_api_server_is_recognised(stage: Any) -> None:
    """The embedded server answers as a real one does."""
    await check_server(stage.cluster.transport())


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
