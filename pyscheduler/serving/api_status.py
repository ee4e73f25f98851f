"""Errors of the HTTPS port in the format of Kubernetes' API server.

Source: apiserver's endpoints/handlers/responsewriters.
"""

from __future__ import annotations

import json
from typing import Any, Final

from aiohttp import web

__all__ = ["api_status", "quoted"]

_PRETTY_AGENTS: Final = ("curl", "Wget", "Mozilla/5.0")


def api_status(
    request: web.BaseRequest, code: int, reason: str, message: str, *, details: dict[str, Any] | None = None
) -> web.Response:
    """Return an error as an object `Status`, indented for browsers and curl."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details is not None:
        status["details"] = details
    status["code"] = code
    agent = request.headers.get("User-Agent", "")
    pretty = request.query.get("pretty", str(agent.startswith(_PRETTY_AGENTS))).lower() in {"", "1", "t", "true"}
    text = json.dumps(status, indent=2) if pretty else json.dumps(status, separators=(",", ":")) + "\n"
    headers = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
    return web.Response(status=code, body=text.encode(), headers=headers)


def quoted(text: str) -> str:
    """Return a text in double quotes, as the API server writes names into messages."""
    return json.dumps(text, ensure_ascii=False)
