"""TLS for the benchmarks: a new certificate, and a bearer token as long as that of a service account."""

from __future__ import annotations

import secrets
import ssl
import tempfile
from pathlib import Path
from typing import Any

import attrs

from kube_testserver.access.users import ADMIN, User
from pyscheduler.cluster.real.auth import Credentials
from pyscheduler.serving.certificates import self_signed

__all__ = ["Identity", "credentials"]

_TOKEN_BYTES = 700


@attrs.frozen
class Identity:
    """The TLS identity of the server, and the token that it accepts."""

    context: ssl.SSLContext
    #: PEM.
    authority: str
    token: str = attrs.field(factory=lambda: secrets.token_urlsafe(_TOKEN_BYTES), repr=False)

    @classmethod
    def make(cls) -> Identity:
        """Return a new one."""
        pair = self_signed("127.0.0.1")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:  # the ssl module takes files only
            both = Path(folder, "both.pem")
            both.write_bytes(pair.certificate + pair.key)
            context.load_cert_chain(both)
        return cls(context, pair.certificate.decode("ascii"))

    @property
    def tokens(self) -> dict[str, User]:
        """Return the tokens that the server takes."""
        return {self.token: ADMIN}

    def told(self) -> dict[str, Any]:
        """Return what a client has to know."""
        return {"authority": self.authority, "token": self.token}


def credentials(url: str, *, authority: str, token: str) -> Credentials:
    """Return what `pyscheduler run` makes of a kubeconfig with that authority and token."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority)
    return Credentials(server=url, ssl_context=context, authorization=f"Bearer {token}")
