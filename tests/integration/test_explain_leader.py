"""`explain` beside a scheduler that runs: its configuration, its stories, and what a tenant may see."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import yaml

from lab.tests.conftest import hooks, install
from pyscheduler.testing import pod_manifest
from tests.integration.programs import free_port, nodes, program, served
from tests.serving.pem import Authority

pytestmark = pytest.mark.slow

_RBAC = "rbac.authorization.k8s.io"
#: Fails, and lets pods wait, only in the process of the leader.
_PLUGIN = """
import os
from pyscheduler import FilterPlugin, PermitPlugin, Status


class Odd(FilterPlugin, PermitPlugin):
    def filter(self, state, pod, node):
        if pod.name == "breaks" and "LEADER" in os.environ:
            raise KeyError("team")
        return None

    def permit(self, state, pod, node_name):
        return Status.wait(timeout=600) if pod.name == "gang-member" else None
"""
_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: Odd}]}}
"""


def tenant_role() -> list[dict[str, object]]:
    """Return what lets the user `tenant` get pods in the namespace `default`."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    metadata = {"name": "tenant", "namespace": "default"}
    return [
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "subjects": [{"kind": "User", "name": "tenant", "apiGroup": _RBAC}],
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "tenant"},
        },
    ]


@attrs.frozen
class World:
    """A scheduler on a cluster with roles; `explain` runs beside it."""

    admin: Path
    tenant: Path
    url: str
    #: What finds the plugin of the profile.
    env: dict[str, str]

    async def explain(
        self, *arguments: str, kubeconfig: Path | None = None, has_plugin: bool = True
    ) -> tuple[int, str, str]:
        """Return exit code, output, and complaints."""
        options = ("--kubeconfig", str(kubeconfig or self.admin), "--scheduler", self.url)
        async with program("explain", *options, *arguments, env=self.env if has_plugin else {}) as shown:
            code = await shown.ended()
        return code, "\n".join(shown.out), "\n".join(shown.err)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[World]:
    """Run a scheduler with the plugin, until it has refused or held all pods."""
    tokens, admin, config = folder / "tokens.csv", folder / "kubeconfig", folder / "config.yaml"
    tokens.write_text("tenant-token,tenant,1\n")
    config.write_text(_CONFIG)
    env = install(folder / "site", "odd", hooks("Odd", "odd_plugin:Odd"), odd_plugin=_PLUGIN)
    port = free_port()
    named = ("breaks", "gang-member")
    waiting = [pod_manifest(name, requests={"cpu": "1"}) for name in named]
    waiting.append(pod_manifest("large", requests={"cpu": "64"}))
    waiting.append(pod_manifest("others", namespace="kube-system", requests={"cpu": "64"}))
    options = ("--authorization", "rbac", "--token-auth-file", str(tokens), "--write-kubeconfig", str(admin))
    async with served(folder, [*tenant_role(), *nodes(1), *waiting], options=options):
        content = yaml.safe_load(admin.read_text())
        content["users"][0]["user"] = {"token": "tenant-token"}
        tenant = folder / "tenant"
        tenant.write_text(yaml.safe_dump(content))
        arguments = (
            f"--config={config}",
            f"--kubeconfig={admin}",
            f"--authentication-kubeconfig={admin}",
            f"--authorization-kubeconfig={admin}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "-v=2",
        )
        async with program("run", *arguments, env={**env, "LEADER": "1"}) as scheduler:
            await scheduler.said("pod=default/breaks uid=")
            await scheduler.said("reason=WaitingOnPermit")
            await scheduler.said("pod=default/large uid=")
            await scheduler.said("pod=kube-system/others uid=")
            yield World(admin, tenant, f"https://localhost:{port}", env)


async def test_explain_takes_configuration_and_verdict_from_the_leader(tmp_path: Path) -> None:
    """Pods that wait for another reason than room are not said to be placed; the steps name the configuration."""
    async with running(tmp_path) as world:
        for name, reason, text in (
            ("breaks", "SchedulerError", "KeyError"),
            ("gang-member", "WaitingOnPermit", "Odd"),
            ("large", "Unschedulable", "Insufficient cpu"),
        ):
            code, out, err = await world.explain(f"default/{name}", "-o", "json")
            assert code == 0, (name, out, err)
            answer = json.loads(out)
            assert (answer["verdict"], answer["reason"], answer["contradicts"]) == ("waits", reason, False), name
            steps = {step["name"]: step for step in answer["steps"]}
            assert f"the leader's configuration ({world.url}/configz)" in steps["scheduler"]["text"]
            assert steps["story"]["text"].startswith(f"{reason} since 20")
            assert text in steps["story"]["text"]
            assert "would be placed" not in out
        # Without the plugin, the configuration cannot be used, but the story still decides.
        code, out, err = await world.explain("default/gang-member", has_plugin=False)
        assert code == 0
        assert "the default profile is used: the configuration of https://localhost:" in err
        assert 'no plugin named "Odd"' in err or 'plugin "Odd" does not exist' in err
        assert "Verdict: waits: WaitingOnPermit" in out
        assert "would be placed" not in out


async def test_tenant_reads_stories_of_its_namespace(tmp_path: Path) -> None:
    """A tenant may get the pods of one namespace, and not list nodes: `explain` prints the stories of these pods."""
    async with running(tmp_path) as world:
        code, out, err = await world.explain("large", kubeconfig=world.tenant)
        assert code == 0, err
        assert "Verdict: waits: Unschedulable" in out
        assert "1 Insufficient cpu" in out
        assert "nothing is evaluated, but the leader knows the story of the pod" in err
        other = tmp_path / "other.pem"
        other.write_bytes(Authority().pem)
        code, out, err = await world.explain("large", "--scheduler-ca", str(other), kubeconfig=world.tenant)
        assert (code, "Verdict: waits: Unschedulable" in out) == (0, True), err
        assert "certificate of the authority that signed it: --scheduler-ca" in " ".join(out.split())
        code, out, _ = await world.explain("large", "-o", "json", kubeconfig=world.tenant)
        (story,) = json.loads(out)["stories"]
        assert (code, story["reason"], story["runs"][0]["plugins"]) == (0, "Unschedulable", ["NodeResourcesFit"])
        code, out, err = await world.explain("kube-system/others", kubeconfig=world.tenant)
        (error,) = [line for line in err.splitlines() if line.startswith("error: ")]
        assert (code, out) == (1, "")
        assert "nothing can be evaluated: " in error
        assert 'in the namespace "kube-system"' in error


async def test_explain_without_a_scheduler_says_why(tmp_path: Path) -> None:
    """One line says which configuration was used, and why; the evaluation is there as before."""
    async with served(tmp_path, [*nodes(1), pod_manifest("large", requests={"cpu": "64"})]) as api:
        port = free_port()
        arguments = ("explain", "large", "--master", api.url)
        async with program(*arguments, "--scheduler", f"https://localhost:{port}") as shown:
            assert await shown.ended() == 0
        (note,) = shown.err
        assert note.startswith("note: the default profile is used: the scheduler at https://localhost:")
        async with program(*arguments) as shown:
            assert await shown.ended() == 0
        (note,) = shown.err
        assert note.endswith("name another one with --lease; give its address with --scheduler")
        assert "Verdict: waits: Unschedulable" in "\n".join(shown.out)
