"""Authorize requests to the HTTPS port.

Requests to the paths of `--authorization-always-allow-paths`, and requests of the group `system:masters`, are allowed.
The API server decides about other requests.

Source: apiserver's server/options/authorization.go, authorization/path and plugin/pkg/authorizer/webhook.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
from cachetools import TTLCache

from pyscheduler.framework.errors import APIError, TransportError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.serving.authentication import User
    from pyscheduler.serving.delegation import Reviewer

__all__ = ["Authorizer", "Decision"]

_log = logging.getLogger(__name__)

_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_CACHE_SIZE: Final = 8192
#: Decisions about longer requests are not cached, so that clients cannot fill the memory.
_CACHED_BYTES: Final = 10_000
_PRIVILEGED: Final = "system:masters"


@attrs.frozen
class Decision:
    """The decision about a request, and the reason that the API server gave."""

    allowed: bool
    reason: str = ""
    #: True if the API server denied the request; False if it only knows of no rule that allows it.
    denied: bool = False

    @property
    def label(self) -> str:
        """Return the name of the decision in metrics."""
        return "allowed" if self.allowed else "denied" if self.denied else "no-opinion"


class Authorizer:
    """Decides on paths and verbs, and who may get pods. Without a `reviewer`, only the open paths are allowed."""

    def __init__(
        self,
        *,
        reviewer: Reviewer | None,
        clock: Clock,
        open_paths: Sequence[str],
        allowed_seconds: float,
        denied_seconds: float,
    ) -> None:
        self._reviewer = reviewer
        paths = [path.removeprefix("/") for path in open_paths]
        self._paths = frozenset(path for path in paths if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in paths if path.endswith("*"))
        self._allowed: TTLCache[bytes, Decision] = TTLCache(_CACHE_SIZE, allowed_seconds, timer=clock.now)
        self._denied: TTLCache[bytes, Decision] = TTLCache(_CACHE_SIZE, denied_seconds, timer=clock.now)

    async def authorize(self, user: User, verb: str, path: str) -> Decision:
        """Return whether `user` may `verb` (a method in lower case) `path`.

        Raises `APIError` or `TransportError` if the API server gives no decision.
        """
        bare = path.removeprefix("/")
        if bare in self._paths or bare.startswith(self._prefixes):
            return Decision(True)
        return await self._decide(user, {"nonResourceAttributes": {"path": path, "verb": verb}})

    async def authorize_pods(self, user: User, namespace: str) -> Decision:
        """Return whether `user` may get the pods of a namespace. Raises as `authorize` does."""
        pods = {"namespace": namespace, "verb": "get", "group": "", "version": "v1", "resource": "pods"}
        return await self._decide(user, {"resourceAttributes": pods})

    async def _decide(self, user: User, attributes: Mapping[str, Mapping[str, str]]) -> Decision:
        if _PRIVILEGED in user.groups:
            return Decision(True)
        if self._reviewer is None:
            return Decision(False)
        spec = _spec(user, attributes)
        key = msgspec.json.encode(spec)
        known = self._allowed.get(key) or self._denied.get(key)
        if known is not None:
            return known
        decision = await self._review(self._reviewer, spec)
        if len(key) < _CACHED_BYTES:
            (self._allowed if decision.allowed else self._denied)[key] = decision
        return decision

    async def _review(self, reviewer: Reviewer, spec: dict[str, Any]) -> Decision:
        try:
            status = await reviewer.review(_ACCESS_REVIEWS, "authorization.k8s.io/v1 SubjectAccessReview", spec)
        except (APIError, TransportError) as error:
            _log.error("Failed to make webhook authorizer request err=%s", error)
            raise
        denied = bool(status.get("denied"))
        return Decision(bool(status.get("allowed")) and not denied, str(status.get("reason") or ""), denied)


def _spec(user: User, attributes: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    spec: dict[str, Any] = {**attributes, "user": user.name}
    more: Mapping[str, Any] = {"groups": list(user.groups), "extra": dict(user.extra), "uid": user.uid}
    return spec | {key: value for key, value in more.items() if value}
