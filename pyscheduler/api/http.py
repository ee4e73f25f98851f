"""An answer of an API server, whatever carried it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["Response"]


class Response(msgspec.Struct, frozen=True):
    """An answer of the API server: any HTTP status; header names in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]
