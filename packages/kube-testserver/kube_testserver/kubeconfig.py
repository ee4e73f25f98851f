"""Write kubeconfig files for servers of this package: one cluster, one user, one context."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["kubeconfig_text", "write_kubeconfig"]


def kubeconfig_text(url: str, *, token: str = "", authority: bytes = b"") -> str:
    """Return a kubeconfig for a server. `token` is the user's bearer token, `authority` the CA certificate in PEM."""
    trust = f", certificate-authority-data: {base64.b64encode(authority).decode()}" if authority else ""
    user = f"{{token: '{token}'}}" if token else "{}"
    return (
        "apiVersion: v1\n"
        "kind: Config\n"
        f"clusters: [{{name: embedded, cluster: {{server: '{url}'{trust}}}}}]\n"
        f"users: [{{name: embedded, user: {user}}}]\n"
        "contexts: [{name: embedded, context: {cluster: embedded, user: embedded}}]\n"
        "current-context: embedded\n"
    )


def write_kubeconfig(path: Path, url: str, *, token: str = "", authority: bytes = b"") -> None:
    """Write a kubeconfig; a new file can be read only by its owner, because it may contain a token."""
    path.touch(mode=0o600)
    path.write_text(kubeconfig_text(url, token=token, authority=authority), encoding="utf-8")
