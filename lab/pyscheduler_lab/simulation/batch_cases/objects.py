"""Convert test cases of batch scheduling to API objects, and run them with the scheduler and the plugin `Batch`."""

from __future__ import annotations

import asyncio
import random
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from kube_testserver.virtual_time import VirtualClock
from pyscheduler.api import format_time
from pyscheduler.cluster.manifest_objects import manifest_objects
from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster
from pyscheduler.config.feature_gates import default_gates
from pyscheduler.config.load import loads
from pyscheduler.config.types import API_VERSION, KIND
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import build
from pyscheduler_batch.contract import Action
from pyscheduler_batch.model.axis import CPU
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_batch.settings.batch_file import FORM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyscheduler.config.types import Configuration
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler_batch.model.session import Session
    from pyscheduler_batch.sessions.source import Sessions

__all__ = [
    "NAMESPACE",
    "Json",
    "in_namespace",
    "manifest",
    "node",
    "pod",
    "quantities",
    "run_pass",
]

Json = dict[str, Any]

NAMESPACE: Final = "ns"
_PROFILE: Final = "batch"
_SOURCE: Final = "the case"


def run_pass(
    args: Json,
    objects: Iterable[Json],
    *,
    now: float,
    at_opening: Callable[[Session], object],
    at_close: Callable[[Session], object],
    prepare: Callable[[Sessions], object] | None = None,
    plugins: Iterable[str] = (),
) -> None:
    """Run one pass over the objects, with the configuration file `args`, at `now` (seconds since 1970).

    `at_opening` is called when the policies have opened the session, `at_close` when the actions have run. `prepare`
    may change the tables before. `plugins`: names of plugins that the profile has besides. Raises `ConfigError` for
    objects or args that cannot be used.
    """
    text = msgspec.json.encode({**args, "schedulerName": _PROFILE})
    asyncio.run(_run(_configuration(text, tuple(plugins)), objects, now, at_opening, at_close, prepare))


async def _run(
    config: Configuration,
    objects: Iterable[Json],
    now: float,
    at_opening: Callable[[Session], object],
    at_close: Callable[[Session], object],
    prepare: Callable[[Sessions], object] | None,
) -> None:
    cluster = ReadOnlyCluster(manifest_objects(objects, source=_SOURCE))
    clock = VirtualClock(epoch=now)
    scheduler = build(config, cluster, clock, random.Random(0), registry=_registry())
    await scheduler.start()
    sessions = sessions_of(scheduler)[0]
    # A case is one pass of KAI or Volcano, in which two jobs may take each other's room. On a cluster they may not.
    sessions.commitments.is_live = False
    async with scheduler.snapshot_access:
        if prepare is not None:
            (await sessions.decide(actions=())).session.ledger.put_back()
            prepare(sessions)
            sessions.tables.memory.forget()
        probes = _Probe(at_opening), _Probe(at_close)
        await sessions.decide(actions=[probes[0], *sessions.plugin.actions, probes[1]])


@attrs.define(eq=False)
class _Probe(Action):
    """An action that only looks at the session."""

    look: Callable[[Session], object]

    async def run(self, session: Session) -> None:
        """Look at the session."""
        self.look(session)


@cache
def _registry() -> Registry:
    return discover()


@cache
def _configuration(text: bytes, plugins: Sequence[str]) -> Configuration:
    if plugins:
        content: Any = FORM.content(msgspec.json.decode(text, type=Json), default_gates())
        content["profiles"][0]["plugins"]["multiPoint"]["enabled"] += [{"name": name} for name in plugins]
        text = msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, **content})
    return loads(text.decode(), source=_SOURCE)


# Manifests


def manifest(
    api_version: str,
    kind: str,
    name: str,
    *,
    uid: str = "",
    created: float = 0.0,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **parts: Any,
) -> Json:
    """Return an object. `created`: seconds since 1970; `parts`: `spec`, `status` and others."""
    metadata = {
        "name": name,
        "uid": uid or name,
        "creationTimestamp": format_time(created),
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def in_namespace(found: Json, namespace: str | None = None) -> Json:
    """Return the object with a namespace, by default that of all cases."""
    found["metadata"]["namespace"] = namespace or NAMESPACE
    return found


def quantities(amounts: Mapping[str, float]) -> dict[str, str]:
    """Return quantities of amounts: `cpu` in millicores, `memory` in bytes, others in units."""
    return {name: f"{amount:.0f}m" if name == CPU else f"{amount:.0f}" for name, amount in amounts.items()}


def node(name: str, allocatable: Mapping[str, float], labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """Return a ready node; `spec` has fields of its spec."""
    amounts = quantities(allocatable)
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
    return manifest("v1", "Node", name, labels=labels, spec=spec, status=status)


def pod(
    name: str,
    *,
    requests: Mapping[str, float],
    state: str,
    on: str = "",
    created: float,
    now: float,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """Return a pod in a state of the recordings; `on` is its node, `spec` has further fields of its spec."""
    amounts = quantities(requests)
    resources: Json = {"requests": amounts, "limits": amounts}
    if spec.get("resourceClaims"):
        resources["claims"] = [{"name": each["name"]} for each in spec["resourceClaims"]]
    container = {"name": "main", "image": "image", "resources": resources}
    spec |= {"schedulerName": _PROFILE, "containers": [container]}
    if on and state not in {"Pending", "Gated"}:
        spec["nodeName"] = on
    if state == "Gated":
        spec["schedulingGates"] = [{"name": "gate"}]
    phase = state if state in {"Succeeded", "Failed"} else "Pending"
    if state in {"Running", "Releasing", "Terminating"}:
        phase = "Running"
    found = manifest(
        "v1",
        "Pod",
        name,
        created=created,
        labels=labels,
        annotations=annotations,
        spec=spec,
        status={"phase": phase},
    )
    if state in {"Releasing", "Terminating"}:
        found["metadata"] |= {"deletionTimestamp": format_time(now), "deletionGracePeriodSeconds": 30}
    return in_namespace(found)
