"""A first question to the API server, so that a wrong address or a refused credential is one clear line at start.

Differs from kube-scheduler, which waits without end for a server that does not answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from pyscheduler.cluster.real.responses import quoted, raise_for_status
from pyscheduler.framework.errors import APIError, ConfigError, ForbiddenError, TransportError, UnauthorizedError

if TYPE_CHECKING:
    from pyscheduler.scheduler.ports import Transport

__all__ = ["check_server"]

_PATH: Final = "/api/v1"
_PATIENCE_SECONDS: Final = 10.0


async def check_server(transport: Transport) -> None:
    """Raise `ConfigError` where nobody answers, the credentials are refused, or it is no Kubernetes API server."""
    server = getattr(transport, "server", "the API server")
    try:
        response = await transport.request("GET", _PATH, timeout_seconds=_PATIENCE_SECONDS)
        body = raise_for_status(response, f"GET {_PATH}")
    except TransportError as error:
        raise ConfigError(f"the API server cannot be reached: {error}") from error
    except UnauthorizedError as error:
        raise ConfigError(
            f"{server} does not accept the credentials: {error}; renew the token or mend the kubeconfig"
        ) from error
    except ForbiddenError as error:
        if error.reason:
            return  # discovery is not granted to everybody; what is needed is asked for later, by name
        raise ConfigError(f"{server} refused: {error}") from error
    except APIError as error:
        raise ConfigError(f"{server} refused: {error}") from error
    if _kind_of(body) != "APIResourceList":
        raise ConfigError(f"{server} is not a Kubernetes API server: GET {_PATH} answered {quoted(body) or 'nothing'}")


def _kind_of(body: bytes) -> object:
    try:
        return msgspec.json.decode(body, type=dict[str, object]).get("kind")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
