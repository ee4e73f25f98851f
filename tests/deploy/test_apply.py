"""configs/deploy on an API server: every field is one that Kubernetes knows, and kubectl takes the folder as it is."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.testing import VirtualClock
from tests import processes
from tests.deploy.conftest import FOLDER, ROOT, manifests, shell_lines
from tests.integration.programs import program

KUBECTL = shutil.which("kubectl")

Kubectl = Callable[..., Awaitable[str]]


def named(obj: dict[str, Any]) -> str:
    """Name an object as test ids should."""
    return str(obj["kind"])


@pytest.mark.parametrize("obj", manifests(), ids=named)
async def test_every_field_is_one_that_kubernetes_knows(obj: dict[str, Any]) -> None:
    """Created under strict validation, by the field tables of Kubernetes itself, without refusal or warning."""
    cluster = EmbeddedCluster(clock=VirtualClock(), rng=random.Random(1), authorization="rbac")
    resource = cluster.resource_of(obj)
    place = f"/namespaces/{obj['metadata']['namespace']}" if resource.namespaced else ""
    root = f"/apis/{resource.group}" if resource.group else "/api"
    path = f"{root}/{resource.version}{place}/{resource.plural}"
    transport = InProcessTransport(cluster.router)
    body = json.dumps(obj).encode()
    answer = await transport.request("POST", path, query={"fieldValidation": "Strict"}, body=body)
    assert (answer.status, answer.headers.get("warning")) == (201, None), answer.body
    misspelt = json.dumps({**obj, "specs": {}}).encode()
    answer = await transport.request("POST", path, query={"fieldValidation": "Strict"}, body=misspelt)
    assert answer.status == 400


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """Run kubectl as an administrator of a cluster that goes by roles; return what it prints."""
    config = tmp_path / "config"
    options = ("--port", "0", "--authorization", "rbac", "--tls", "--write-kubeconfig", str(config))

    async def run(*arguments: str, quiet: bool = True) -> str:
        assert KUBECTL is not None
        env = {**os.environ, "KUBECONFIG": str(config)}
        done = await processes.run_async(KUBECTL, f"--cache-dir={tmp_path / 'cache'}", *arguments, cwd=ROOT, env=env)
        assert (done.returncode, done.stderr if quiet else "") == (0, ""), done.stderr
        return done.stdout

    async with program("cluster", *options) as server:
        await server.said("serving ")
        yield run


@pytest.mark.slow
@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on this machine: applying configs/deploy is not tested")
async def test_kubectl_takes_the_folder(kubectl: Kubectl) -> None:
    """With its own validation, as a dry run and for good, a second time without a change, and as a Kustomization."""
    folder = str(FOLDER)
    tried = await kubectl("apply", "--dry-run=server", "-f", folder)
    assert tried.count(" created (server dry run)\n") == len(manifests())
    made = await kubectl("apply", "--validate=strict", "-f", folder)
    assert made.count(" created\n") == len(manifests())
    # Of what is merged in ways of its own kubectl says "configured" every time; the server knows better.
    versions = ("get", "-f", folder, "-o", "jsonpath={.items[*].metadata.resourceVersion}")
    before = await kubectl(*versions)
    await kubectl("apply", "-f", folder)
    assert (await kubectl(*versions), len(before.split())) == (before, len(manifests()))
    assert await kubectl("diff", "-k", folder) == ""
    token = (await kubectl("create", "token", "pyscheduler", "--namespace", "kube-system")).strip()
    for verb, resource, answer in (
        ("create", "pods --subresource=binding", "yes"),
        ("get", "leases/pyscheduler --namespace=kube-system", "yes"),
    ):
        words = (*resource.split(), f"--token={token}")
        assert (await kubectl("auth", "can-i", verb, *words)).strip() == answer
    listed = await kubectl("auth", "can-i", "--list", f"--token={token}", "--namespace", "kube-system")
    assert not [line for line in listed.splitlines() if line.startswith(("secrets", "*"))]


#: What asks the pods of the Deployment, and there are none: nobody runs them here.
NEED_PODS = ("rollout status", " logs ", " exec ")


@pytest.mark.slow
@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on this machine: the operator's page is not tried out")
async def test_the_commands_of_the_operators_page_work(kubectl: Kubectl, tmp_path: Path) -> None:
    """In the order of the page, as they stand, but for those that need running pods."""
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "pyscheduler"}}
    file = tmp_path / "lease.json"
    file.write_text(json.dumps(lease | {"spec": {"holderIdentity": "somebody"}}))
    await kubectl("create", "--namespace", "kube-system", "-f", str(file))
    commands = [words for words in shell_lines(ROOT / "docs/how-to/operate.md") if words[0] == "kubectl"]
    tried = [words for words in commands if not any(part in " ".join(words) for part in NEED_PODS)]
    assert len(tried) >= 6
    said = {" ".join(words): await kubectl(*words[1:], quiet=False) for words in tried}
    assert (
        said["kubectl --namespace kube-system get lease pyscheduler -o jsonpath={.spec.holderIdentity}"] == "somebody"
    )
