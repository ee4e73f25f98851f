"""A webhook that a test tells what to answer."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from aiohttp import web

if TYPE_CHECKING:
    import ssl

GROUP = "/apis/admissionregistration.k8s.io/v1"

Respond = Callable[[dict[str, Any]], dict[str, Any] | web.Response]


@attrs.define
class Hook:
    """A webhook that remembers its reviews; `respond` makes the response of one, or the whole HTTP answer."""

    url: str = ""
    reviews: list[dict[str, Any]] = attrs.Factory(list)
    paths: list[str] = attrs.Factory(list)
    respond: Respond = lambda _: {"allowed": True}
    delay_seconds: float = 0.0
    called: asyncio.Event = attrs.Factory(asyncio.Event)
    all_rules = ({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]},)

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one review."""
        review = await request.json()
        self.reviews.append(review)
        self.paths.append(request.path_qs)
        self.called.set()
        await asyncio.sleep(self.delay_seconds)
        made = self.respond(review["request"])
        if isinstance(made, web.Response):
            return made
        head = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview"}
        return web.json_response({**head, "response": {"uid": review["request"]["uid"], **made}})

    def asked(self) -> list[tuple[str, str, str]]:
        """Return operation, resource and name of each review."""
        return [(one["operation"], one["resource"]["resource"], one.get("name", "")) for one in self.requests()]

    def requests(self) -> list[dict[str, Any]]:
        """Return what the reviews are about."""
        return [review["request"] for review in self.reviews]

    def spec(self, **fields: Any) -> dict[str, Any]:
        """Return this webhook as a configuration for configmaps has it; `fields` replace parts of it."""
        return {
            "name": "hook.example.com",
            "clientConfig": {"url": self.url},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            **fields,
        }

    @staticmethod
    async def configure(api: Any, *webhooks: dict[str, Any], kind: str = "validating", name: str = "hooks") -> None:
        """Store a configuration."""
        await api.ok("POST", f"{GROUP}/{kind}webhookconfigurations", {"metadata": {"name": name}, "webhooks": webhooks})

    @staticmethod
    def patch_of(*operations: dict[str, Any]) -> dict[str, Any]:
        """Return a response that changes the object."""
        raw = json.dumps(operations).encode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(raw).decode()}


async def serve(hook: Hook, tls: ssl.SSLContext | None = None) -> web.AppRunner:
    """Start a webhook on a free port."""
    app = web.Application()
    app.router.add_post("/{path:.*}", hook.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    hook.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}/review"
    return runner


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    """Yield a webhook that allows everything."""
    made = Hook()
    runner = await serve(made)
    yield made
    await runner.cleanup()


@pytest.fixture
async def tls_hook(server_tls: ssl.SSLContext) -> AsyncIterator[Hook]:
    """Yield a webhook behind TLS that allows everything."""
    made = Hook()
    runner = await serve(made, server_tls)
    yield made
    await runner.cleanup()
