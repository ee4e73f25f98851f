"""Delegate authentication and authorization to the API server, with TokenReview and SubjectAccessReview.

Source: apiserver's plugin/pkg/authenticator/token/webhook, plugin/pkg/authorizer/webhook and util/webhook.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyscheduler.cluster.real.client import NO_ANSWER
from pyscheduler.cluster.real.response_errors import raise_for_status
from pyscheduler.framework.errors import APIError, TransportError
from pyscheduler.framework.watches import PolicyRule

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from kube_objects.clock import Clock
    from pyscheduler.scheduler.ports import Transport

__all__ = ["RULES", "Reviewer", "open_transport"]

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS: Final = 10.0
_ATTEMPTS: Final = 5
_PAUSE_SECONDS: Final = 0.5
_FACTOR: Final = 1.5
_JITTER: Final = 0.2
#: The permissions that the HTTPS port needs: reviews, and the ConfigMap with the cluster's client CA.
RULES: Final = (
    PolicyRule(api_groups=("authentication.k8s.io",), resources=("tokenreviews",), verbs=("create",)),
    PolicyRule(api_groups=("authorization.k8s.io",), resources=("subjectaccessreviews",), verbs=("create",)),
    PolicyRule(
        api_groups=("",),
        resources=("configmaps",),
        verbs=("get",),
        resource_names=("extension-apiserver-authentication",),
        namespaces=("kube-system",),
    ),
)
#: Statuses of errors that may be temporary.
_PASSING: Final = frozenset({429, 500, 503, 504})


async def open_transport(kubeconfig: str, *, flag: str) -> Transport | None:
    """Connect to the API server of the kubeconfig, else of the pod's cluster; return None outside a pod.

    Raises `ConfigError` naming `flag` if the kubeconfig cannot be used.
    """
    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.framework.errors import ConfigError

    if not kubeconfig and "KUBERNETES_SERVICE_HOST" not in os.environ:
        return None
    try:
        return HTTPTransport(await auth.load(kubeconfig=kubeconfig or None, in_cluster=not kubeconfig))
    except ConfigError as error:
        if kubeconfig:
            raise ConfigError(f"{flag}: {error}") from error
        # Optional, as in kube-scheduler: log the error and go on without reviews.
        _log.warning("Failed to read in-cluster kubeconfig for %s err=%s", flag.removeprefix("--"), error)
        return None


class Reviewer:
    """Creates reviews over one transport."""

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        rng: random.Random,
        reviewed: Callable[..., None] | None = None,
    ) -> None:
        self._transport = transport
        #: Called with `code` and `seconds` of each request.
        self._reviewed = reviewed
        self._clock = clock
        self._rng = rng

    async def review(self, path: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Return the status of a review; `kind` is its apiVersion and kind, separated by a space.

        Raises `APIError` or `TransportError` if the API server does not answer.
        """
        version, name = kind.split()
        body = msgspec.json.encode({"apiVersion": version, "kind": name, "metadata": {}, "spec": spec})
        begun, pause = self._clock.now(), _PAUSE_SECONDS
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._create(path, body)
            except (APIError, TransportError) as error:
                over = attempt == _ATTEMPTS or self._clock.now() - begun > _TIMEOUT_SECONDS
                if over or (isinstance(error, APIError) and error.status not in _PASSING):
                    raise
            await self._clock.sleep(pause * (1 + self._rng.random() * _JITTER))
            pause *= _FACTOR
        raise AssertionError  # the last attempt returns or raises

    async def get(self, path: str) -> dict[str, Any]:
        """Return an object. Raises as `review` does, at the first failure."""
        response = await self._transport.request("GET", path, timeout_seconds=_TIMEOUT_SECONDS)
        return _decoded(raise_for_status(response, f"GET {path}"), path)

    async def _create(self, path: str, body: bytes) -> dict[str, Any]:
        began, code = self._clock.now(), NO_ANSWER
        try:
            response = await self._transport.request("POST", path, body=body, timeout_seconds=_TIMEOUT_SECONDS)
            code = str(response.status)
        finally:
            if self._reviewed is not None:
                self._reviewed(code=code, seconds=self._clock.now() - began)
        status = _decoded(raise_for_status(response, f"POST {path}"), path).get("status")
        return status if isinstance(status, dict) else {}

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.close()


def _decoded(body: bytes, path: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TransportError(f"{path}: the API server's answer is not a JSON object") from error
