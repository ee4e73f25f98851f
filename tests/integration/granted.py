"""Schedulers whose accounts have just the roles that are printed for them, and what they did not use of these."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import attrs

from kube_testserver.access.rules import compile_rule
from kube_testserver.access.usage import RoleName
from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.cli.offline_scheduler import offline_scheduler
from pyscheduler.cli.rbac import as_list, grants_of
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.config.load import loads
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.runtime.assembly.registry import Registry
from pyscheduler.scheduler.assembly import build
from pyscheduler.scheduler.scheduler import Scheduler
from tests.deploy.conftest import manifest


def unused(cluster: EmbeddedCluster, roles: list[dict[str, Any]]) -> list[str]:
    """Return each verb on each resource of the roles that allowed nothing so far."""
    found = []
    for role in roles:
        metadata = role["metadata"]
        name = RoleName(role["kind"], metadata.get("namespace", ""), metadata["name"])
        rules = [compile_rule(rule) for rule in role["rules"]]
        found += [f"{name}: {cell}" for _, cell in cluster.rbac.usage.unused(name, rules)]
    return found


def roles_among(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the roles."""
    return [each for each in objects if each["kind"] in {"Role", "ClusterRole"}]


@attrs.define
class Granted:
    """A scheduler whose account has the roles that are printed for its configuration."""

    cluster: EmbeddedCluster
    scheduler: Scheduler
    roles: list[dict[str, Any]]
    #: The verbs that the roles allow, with their resources.
    verbs: set[tuple[str, str]]
    _running: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, cluster: EmbeddedCluster, name: str, text: str, registry: Registry | None = None) -> Granted:
        """Grant what a configuration needs to an account of that name."""
        config = loads(text.replace("leaderElect: true", "leaderElect: false"), source="test")
        registry = registry or discover()
        grants = grants_of(offline_scheduler(config, registry), config, delegated_auth=False)
        objects = as_list(grants, name=name, account=("kube-system", name))["items"]
        account = manifest("ServiceAccount")
        account["metadata"]["name"] = name
        cluster.add(account, *objects)
        transport = InProcessTransport(cluster.router, token=cluster.account_token("kube-system", name))
        scheduler = build(config, transport, cluster.clock, random.Random(1), registry=registry)
        verbs = {(grant.resource, verb) for here in grants.values() for grant in here for verb in grant.verbs}
        return cls(cluster, scheduler, roles_among(objects), verbs)

    async def start(self) -> None:
        """List, watch and schedule."""
        starting = asyncio.create_task(self.scheduler.start())
        await self.cluster.clock.advance(5)
        await starting
        self._running = asyncio.create_task(self.scheduler.run())

    async def stop(self) -> None:
        """End it."""
        assert self._running is not None
        stopping = asyncio.create_task(self.scheduler.stop())
        await self.cluster.clock.advance(20)
        await stopping
        await self._running
