"""Serve the API without a network, to a client in the same process, for tests and simulation."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kube_objects.errors import TransportError
from kube_testserver.access.users import LOOPBACK
from kube_testserver.requests import Request
from kube_testserver.serving.router import Router, UnansweredError
from kube_testserver.serving.watching import BrokenStreamError, WatchStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from kube_objects.http import Response, Stream
    from kube_testserver.access.users import User

__all__ = ["InProcessClient"]


class InProcessStream:
    """An open watch, or the error that came instead of one (a `status` other than 200)."""

    def __init__(self, answer: Response | WatchStream) -> None:
        self._answer = answer
        self.status = 200 if isinstance(answer, WatchStream) else answer.status
        self.headers: Mapping[str, str] = (
            {"content-type": "application/json"} if isinstance(answer, WatchStream) else answer.headers
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over chunks of whole lines until the stream ends; `TransportError` when it is cut."""
        if not isinstance(self._answer, WatchStream):
            yield self._answer.body
            return
        try:
            async for chunk in self._answer:
                yield chunk
        except BrokenStreamError as error:
            raise TransportError("the watch was cut off by the embedded API server") from error


class InProcessClient:
    """Carries requests straight into a router; any number of clients may share one.

    It acts as `user`, or as the user of `token`; without both, as the server itself.
    """

    def __init__(self, router: Router, *, user: User | None = None, token: str = "") -> None:
        self._router = router
        self._user = user if user is not None or token else LOOPBACK
        #: The bearer token that requests carry; it may be renewed.
        self.token = token
        self._closed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> Response:
        """Answer one request; `TransportError` when a fault swallows it or the client is closed."""
        del timeout_seconds  # an answer takes no time but what faults add, and those are to be waited out
        answer = await self._ask(self._request(method, path, query or {}, body or b"", content_type))
        if isinstance(answer, WatchStream):
            answer.close()
            raise TransportError(f"{path}: a watch was asked for as a plain request; use stream()")
        return answer

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, timeout_seconds: float | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a watch."""
        del timeout_seconds
        return self._opened(path, query)

    async def close(self) -> None:
        """Answer no more; idempotent."""
        self._closed = True

    @asynccontextmanager
    async def _opened(self, path: str, query: Mapping[str, str] | None) -> AsyncIterator[Stream]:
        answer = await self._ask(self._request("GET", path, query or {}))
        try:
            yield InProcessStream(answer)
        finally:
            if isinstance(answer, WatchStream):
                answer.close()

    def _request(
        self, method: str, path: str, query: Mapping[str, str], body: bytes = b"", content_type: str = ""
    ) -> Request:
        authorization = f"Bearer {self.token}" if self.token else ""
        return Request(method, path, query, body, content_type, authorization=authorization, user=self._user)

    async def _ask(self, request: Request) -> Response | WatchStream:
        await asyncio.sleep(0)
        if self._closed:
            raise TransportError("the transport is closed")
        try:
            return await self._router.handle(request)
        except UnansweredError as error:
            raise TransportError(f"{request.method} {request.path}: the connection was cut") from error
