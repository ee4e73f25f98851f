"""The answers that an API client receives: a whole response, or the stream of a watch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

import msgspec

__all__ = ["Response", "Stream"]


class Response(msgspec.Struct, frozen=True):
    """An answer of the API server: any HTTP status; header names in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Stream(Protocol):
    """An open watch: chunks of bytes, cut anywhere, lines end in a newline. Any status but 200 brings an error body."""

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers, names in lower case."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over chunks until the server ends the stream; raise `TransportError` when it breaks."""
        ...
