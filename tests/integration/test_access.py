"""The embedded API server with credentials and roles, as a process: what kubectl and our own client see of it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.http import HTTPTransport
from tests import processes
from tests.integration.programs import PATIENCE_SECONDS, program

KUBECTL = shutil.which("kubectl")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on this machine: it is not asked for access")


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    """Serve a cluster with roles over HTTPS; yield its administrator's kubeconfig."""
    config, tokens = tmp_path / "admin.yaml", tmp_path / "tokens.csv"
    tokens.write_text('kim-token,kim,u-1,"devs"\n')
    options = ("--authorization", "rbac", "--tls", "--token-auth-file", str(tokens), "--write-kubeconfig", str(config))
    async with program("cluster", "--port", "0", *options) as server:
        line = await server.said("serving ")
        assert line.startswith("serving https://127.0.0.1:")
        yield config


def of(kubeconfig: Path, token: str) -> Path:
    """Return the kubeconfig with another token in it."""
    other = kubeconfig.with_name(f"{len(token)}.yaml")
    other.write_text(re.sub(r"token: '[^']*'", f"token: '{token}'", kubeconfig.read_text()))
    return other


async def kubectl(kubeconfig: Path, *arguments: str, code: int = 0) -> str:
    """Run kubectl; return what it prints, on standard error where it is to fail."""
    assert KUBECTL is not None
    options = (f"--kubeconfig={kubeconfig}", f"--cache-dir={kubeconfig.parent / 'cache'}")
    done = await processes.run_async(KUBECTL, *arguments, *options)
    assert done.returncode == code, done
    return done.stdout if code == 0 else done.stderr or done.stdout


async def ask(kubeconfig: Path, path: str) -> tuple[int, Any]:
    """Send one request as our own client does: with the token of a kubeconfig, trusting the authority in it."""
    transport = HTTPTransport(await auth.load(kubeconfig=str(kubeconfig)))
    try:
        answer = await transport.request("GET", path, timeout_seconds=PATIENCE_SECONDS)
    finally:
        await transport.close()
    return answer.status, json.loads(answer.body)


async def test_our_own_client(kubeconfig: Path) -> None:
    """The administrator may everything, a user of the token file what they are allowed, nobody else anything."""
    assert (await ask(kubeconfig, "/api/v1/nodes"))[0] == 200
    kim = of(kubeconfig, "kim-token")
    status, body = await ask(kim, "/api/v1/nodes")
    assert status == 403
    assert body["message"].startswith('nodes is forbidden: User "kim" cannot list resource "nodes" in API group ""')
    assert (await ask(of(kubeconfig, "nonsense"), "/api/v1/nodes"))[0] == 401
    status, record = await ask(kubeconfig, "/debug/rbac?clusterrole=view")
    assert (status, [one["user"] for one in record["refused"]]) == (200, ["kim"])
    assert "rule 0: list pods" in record["unused"]


@needs_kubectl
async def test_a_session_with_kubectl(kubeconfig: Path) -> None:
    """Accounts, tokens, bindings, `auth can-i` and `auth whoami`, as an administrator and as who may little."""
    assert "kubernetes-admin" in await kubectl(kubeconfig, "auth", "whoami")
    assert await kubectl(kubeconfig, "auth", "can-i", "create", "pods") == "yes\n"
    assert await kubectl(kubeconfig, "create", "serviceaccount", "bob") == "serviceaccount/bob created\n"
    binding = ("create", "rolebinding", "bob", "--clusterrole=view", "--serviceaccount=default:bob")
    assert "rolebinding.rbac.authorization.k8s.io/bob created" in await kubectl(kubeconfig, *binding)
    bob = of(kubeconfig, (await kubectl(kubeconfig, "create", "token", "bob")).strip())
    assert "system:serviceaccount:default:bob" in await kubectl(bob, "auth", "whoami")
    assert await kubectl(bob, "get", "pods", "-o", "name") == ""
    assert await kubectl(bob, "auth", "can-i", "list", "pods") == "yes\n"
    assert await kubectl(bob, "auth", "can-i", "delete", "pods", code=1) == "no\n"
    assert "pods" in await kubectl(bob, "auth", "can-i", "--list")
    refused = await kubectl(bob, "delete", "pod", "p", code=1)
    assert refused == (
        'Error from server (Forbidden): pods "p" is forbidden: User "system:serviceaccount:default:bob" cannot delete '
        'resource "pods" in API group "" in the namespace "default"\n'
    )
    assert await kubectl(kubeconfig, "auth", "can-i", "list", "pods", "--as=kim", code=1) == "no\n"
    assert "cannot impersonate" in await kubectl(bob, "get", "pods", "--as=kim", code=1)
    wrong = of(kubeconfig, "nonsense")
    assert await kubectl(wrong, "get", "pods", code=1) == (
        "error: You must be logged in to the server (Unauthorized)\n"
    )
    escalating = ("create", "clusterrolebinding", "x", "--clusterrole=cluster-admin", "--user=kim")
    assert "cannot create resource" in await kubectl(bob, *escalating, code=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            ("--token-auth-file", "{}/none"), "--token-auth-file: {}/none: cannot be read: No such file", id="none"
        ),
        pytest.param(("--token-auth-file", "{}/bad"), "--token-auth-file: {}/bad: must have at least 3 col", id="bad"),
        pytest.param(("--tls-cert-file", "{}/bad"), "--tls-cert-file needs --tls-private-key-file; give", id="half"),
        pytest.param(
            ("--tls-cert-file", "{}/bad", "--tls-private-key-file", "{}/bad"),
            "--tls-cert-file and --tls-private-key-file ({}/bad, {}/bad): ",
            id="no pair",
        ),
    ],
)
async def test_mistakes(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    """A wrong file is one line that names it."""
    (tmp_path / "bad").write_text("a,b\n")
    arguments = [option.replace("{}", str(tmp_path)) for option in options]
    async with program("cluster", "--port", "0", *arguments) as server:
        assert await server.process.wait() == 1
        await server.said("error: " + message.replace("{}", str(tmp_path)))
        assert len(server.err) == 1


async def test_tokens_without_tls(tmp_path: Path) -> None:
    """Plain HTTP works for those who send tokens over it; a note says that kubectl does not."""
    async with program("cluster", "--port", "0", "--authorization", "rbac") as server:
        await server.said("serving http://")
        assert (await server.said("token ")).startswith("token ")
        assert "add --tls" in await server.said("note: ")
