"""Send a first request to the API server, so that wrong credentials give one clear error at the start.

`pyscheduler run` waits for an API server that is down or not ready yet. Other commands report an error at once.

Differs from kube-scheduler: wrong credentials or an untrusted certificate end the program; kube-scheduler retries.
"""

from __future__ import annotations

import logging
import math
import ssl
from typing import TYPE_CHECKING, Final

import msgspec

from pyscheduler.cluster.real.response_errors import quoted, raise_for_status
from pyscheduler.framework.errors import APIError, ConfigError, ForbiddenError, TransportError, UnauthorizedError

if TYPE_CHECKING:
    from kube_objects.clock import Clock
    from pyscheduler.scheduler.ports import Transport

__all__ = ["check_server", "wait_for_server"]

_log = logging.getLogger(__name__)

_PATH: Final = "/api/v1"
_PATIENCE_SECONDS: Final = 10.0
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 5.0
#: How often the log says that the server is waited for.
_TELL_SECONDS: Final = 30.0
#: How long a server that has just come up may refuse credentials: it answers before it has read accounts and roles.
_STARTING_SECONDS: Final = 30.0
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500


async def check_server(transport: Transport) -> None:
    """Raise `ConfigError` if no server answers, it refuses the credentials, or it is no Kubernetes API server."""
    try:
        await _ask(transport)
    except (APIError, TransportError) as error:
        _raise_mistake(error, _name_of(transport))


async def wait_for_server(transport: Transport, *, clock: Clock) -> None:
    """Return when the API server answers; raise `ConfigError` for an answer that waiting does not change."""
    server, begun = _name_of(transport), clock.now()
    pause, told, told_at = _FIRST_PAUSE_SECONDS, "", -math.inf
    answered_at: float | None = None
    while True:
        try:
            await _ask(transport)
        except (APIError, TransportError) as error:
            now = clock.now()
            if isinstance(error, APIError) and error.status < _SERVER_ERROR and answered_at is None:
                answered_at = now
            may_be_starting = bool(told) and answered_at is not None and now - answered_at < _STARTING_SECONDS
            if not _passes(error, may_be_starting=may_be_starting):
                _raise_mistake(error, server)
                break
            reason = " ".join(str(error).split())
            if reason != told or now - told_at >= _TELL_SECONDS:
                _log.warning("Waiting for the API server server=%s seconds=%.0f err=%s", server, now - begun, reason)
                told, told_at = reason, now
        else:
            break
        await clock.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
    if told:
        _log.info("The API server answers server=%s seconds=%.1f", server, clock.now() - begun)


async def _ask(transport: Transport) -> None:
    response = await transport.request("GET", _PATH, timeout_seconds=_PATIENCE_SECONDS)
    body = raise_for_status(response, f"GET {_PATH}")
    if _kind_of(body) != "APIResourceList":
        said = quoted(body) or "nothing"
        raise ConfigError(f"{_name_of(transport)} is not a Kubernetes API server: GET {_PATH} answered {said}")


def _passes(error: APIError | TransportError, *, may_be_starting: bool) -> bool:
    """Return True if another answer may come later."""
    if isinstance(error, TransportError):
        cause = error.__cause__
        return not isinstance(getattr(cause, "certificate_error", cause), ssl.SSLCertVerificationError)
    if isinstance(error, UnauthorizedError | ForbiddenError):
        return may_be_starting
    return error.status == _TOO_MANY_REQUESTS or error.status >= _SERVER_ERROR


def _raise_mistake(error: APIError | TransportError, server: str) -> None:
    """Raise `ConfigError` with what a person can do; return where nothing is wrong.

    Discovery is not granted to everybody. What is needed is asked for later, by name.
    """
    if isinstance(error, ForbiddenError) and error.reason:
        return
    if isinstance(error, TransportError):
        raise ConfigError(f"the API server cannot be reached: {error}") from error
    if isinstance(error, UnauthorizedError):
        text = f"{server} does not accept the credentials: {error}; renew the token or mend the kubeconfig"
        raise ConfigError(text) from error
    raise ConfigError(f"{server} refused: {error}") from error


def _name_of(transport: Transport) -> str:
    return getattr(transport, "server", "the API server")


def _kind_of(body: bytes) -> object:
    try:
        return msgspec.json.decode(body, type=dict[str, object]).get("kind")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
