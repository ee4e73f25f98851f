"""Run one benchmark on an existing cluster, and then delete the objects that the benchmark created."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

import click
import msgspec

from benchmarks.shapes import LABEL
from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.framework.errors import ConfigError, TransportError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.plan import Churn, Deletions, Plan
    from benchmarks.shapes import Manifest
    from pyscheduler.scheduler.ports import Response, Transport

__all__ = ["ForeignCluster", "check"]

#: How many requests are under way at once.
_AT_ONCE: Final = 32
_PLURALS: Final = {
    "Namespace": "namespaces",
    "Node": "nodes",
    "Pod": "pods",
    "PodGroup": "podgroups",
    "PriorityClass": "priorityclasses",
    "Queue": "queues",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
}
#: What a namespace of ours may still hold when its pods are gone, its default ServiceAccount and ConfigMap among it.
_CONTENT: Final = (
    "/api/v1/namespaces/{}/services",
    "/api/v1/namespaces/{}/serviceaccounts",
    "/api/v1/namespaces/{}/configmaps",
    "/apis/events.k8s.io/v1/namespaces/{}/events",
)
#: How long a controller manager may take to empty a namespace before it is taken for absent, in seconds.
_EMPTIED_SECONDS: Final = 60
_AT_ONCE_GONE: Final = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}


async def check(kubeconfig: str | None, *, shared: bool) -> None:
    """Refuse a cluster that cannot be reached, or is somebody's, before one row after the other meets it."""
    transport = await _connect(kubeconfig)
    try:
        await _check_nodes(transport, shared=shared)
    finally:
        await transport.close()


class ForeignCluster:
    """The objects of a plan on somebody's cluster; made by `open`."""

    def __init__(self, plan: Plan, kubeconfig: str | None, transport: HTTPTransport) -> None:
        self._plan = plan
        self._kubeconfig = kubeconfig
        self._transport = transport
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(cls, plan: Plan, kubeconfig: str | None, *, shared: bool) -> Self:
        """Create what is there at the beginning; a mistake is a `ClickException`."""
        world = cls(plan, kubeconfig, await _connect(kubeconfig))
        try:
            await world._check(shared=shared)
            for manifests in (plan.surroundings(), plan.node_objects(), plan.initial_pods()):
                await world._create_all(manifests)
        except BaseException:
            await world.close()
            raise
        return world

    async def fill(self) -> None:
        """Create the measured pods."""
        await self._create_all(self._plan.measured_pods())

    async def begin(self) -> None:
        """Let begin what happens while it is measured."""
        self._tasks = [asyncio.create_task(self._churn(churn)) for churn in self._plan.churns]
        self._tasks += [asyncio.create_task(self._delete(deletions)) for deletions in self._plan.deletions]

    async def clear(self) -> None:
        """Delete all pods and what churns made, and create the initial pods anew."""
        await self._stop()
        await self._remove_pods()
        await self._create_all(self._plan.initial_pods())

    async def transport(self) -> Transport:
        """Return a connection for a scheduler."""
        return await _connect(self._kubeconfig)

    async def server_cpu_seconds(self) -> float | None:
        """Return None: its processes are somebody else's."""
        return None

    async def close(self) -> None:
        """Delete whatever was created, as long as the cluster answers."""
        with suppress(click.ClickException):
            await self._stop()
            await self._remove_pods()
            selector = {"labelSelector": f"{LABEL}=true"}
            await self._ask("DELETE", "/api/v1/nodes", query=selector)
            await self._ask("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses", query=selector)
            if self._plan.queue_count and self._plan.gangs is not None:
                await self._ask("DELETE", f"/apis/{self._plan.gangs.queues}/queues", query=selector)
            for name in self._plan.namespaces:
                await self._ask("DELETE", f"/api/v1/namespaces/bench-{name}")
            await self._see_namespaces_off()
        await self._transport.close()

    # Parts

    async def _see_namespaces_off(self) -> None:
        """Wait until the namespaces are gone; where no controller manager empties them, do it in its place.

        Otherwise the next run would find them terminating for ever.
        """
        for name in self._plan.namespaces:
            path = f"/api/v1/namespaces/bench-{name}"
            with suppress(TimeoutError):
                async with asyncio.timeout(_EMPTIED_SECONDS):
                    while (await self._ask("GET", path)).status == 200:  # noqa: ASYNC110 - nobody tells
                        await asyncio.sleep(0.5)
                continue
            for content in _CONTENT:
                await self._ask("DELETE", content.format(f"bench-{name}"))
            namespace = msgspec.json.decode((await self._ask("GET", path)).body)
            await self._ask("PUT", f"{path}/finalize", body={**namespace, "spec": {"finalizers": []}})

    async def _check(self, *, shared: bool) -> None:
        """Refuse a cluster that is somebody's, or where an earlier run has left its objects."""
        await _check_nodes(self._transport, shared=shared)
        for name in self._plan.namespaces:
            answer = await self._ask("GET", f"/api/v1/namespaces/bench-{name}")
            found = msgspec.json.decode(answer.body)
            if answer.status == 200 and LABEL not in found["metadata"].get("labels", {}):
                raise click.ClickException(f"namespace bench-{name} is there already, and is not the benchmark's")

    async def _create_all(self, manifests: Iterable[Manifest]) -> None:
        """Create objects, many at once, in order of their kinds."""
        waiting = iter(manifests)

        async def work() -> None:
            for manifest in waiting:
                await self._create(manifest)

        # Namespaces before what is in them: what comes first is created by one worker.
        first: list[Manifest] = []
        for manifest in waiting:
            if manifest["kind"] in ("Pod", "Node"):
                first.append(manifest)
                break
            await self._create(manifest)
        await asyncio.gather(*(self._create(manifest) for manifest in first), *(work() for _ in range(_AT_ONCE)))

    async def _create(self, manifest: Manifest) -> None:
        answer = await self._ask("POST", _path(manifest), body=manifest)
        # What an interrupted run left is as good.
        if answer.status == 404 and self._plan.gangs is not None and manifest["kind"] in ("PodGroup", "Queue"):
            files = " ".join(f"-f configs/crds/{name}" for name in self._plan.gangs.definitions)
            raise click.ClickException(f"the cluster does not know {manifest['kind']}s; kubectl apply {files}")
        if answer.status not in (200, 201, 409):
            raise click.ClickException(
                f"{manifest['kind']} {manifest['metadata']['name']} was refused: {_message(answer)}"
            )
        if manifest["kind"] == "Namespace":
            # Admission wants it, and the controller that makes it may be late, or absent.
            name = manifest["metadata"]["name"]
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": name},
            }
            await self._ask("POST", _path(account), body=account)
        elif manifest["kind"] == "Node":
            await self._take_off_taints(manifest, answer)

    async def _take_off_taints(self, node: Manifest, answer: Response) -> None:
        """Take off what admission has put on: TaintNodesByCondition taints each new node as not ready.

        A controller takes that off when the node says that it is ready, as these do; but it may be absent.
        """
        wanted = node["spec"].get("taints", [])
        # What an interrupted run left may have been left with its taint.
        if answer.status != 409 and msgspec.json.decode(answer.body)["spec"].get("taints", []) == wanted:
            return
        patch = {"spec": {"taints": wanted}}
        path = f"{_path(node)}/{quote(node['metadata']['name'])}"
        patched = await self._ask("PATCH", path, body=patch, content_type="application/merge-patch+json")
        if patched.status != 200:
            raise click.ClickException(f"Node {node['metadata']['name']} keeps its taints: {_message(patched)}")

    async def _remove_pods(self) -> None:
        for name in self._plan.namespaces:
            pods = f"/api/v1/namespaces/bench-{name}/pods"
            while msgspec.json.decode((await self._ask("GET", pods, query={"limit": "1"})).body)["items"]:
                # Not all of them: an API server ends a request after a minute.
                answer = await self._ask("DELETE", pods, query={"limit": "500"}, body=_AT_ONCE_GONE)
                if answer.status >= 400:
                    raise click.ClickException(f"{pods} cannot be emptied: {_message(answer)}")
            if self._plan.gangs is not None:
                path = f"/apis/{self._plan.gangs.api_version}/namespaces/bench-{name}/podgroups"
                await self._ask("DELETE", path)

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _churn(self, churn: Churn) -> None:
        made: list[list[Manifest]] = []
        try:
            while True:
                made.append(churn.made(len(made)))
                for manifest in made[-1]:
                    await self._create(manifest)
                await asyncio.sleep(churn.interval_seconds)
                if churn.recreate:
                    await self._forget(made[-1])
        finally:
            await asyncio.shield(self._forget([manifest for each in made for manifest in each]))

    async def _forget(self, manifests: Iterable[Manifest]) -> None:
        for manifest in manifests:
            name = quote(manifest["metadata"]["name"])
            await self._ask("DELETE", f"{_path(manifest)}/{name}", body=_AT_ONCE_GONE)

    async def _delete(self, deletions: Deletions) -> None:
        for manifest in self._plan.initial_pods():
            if manifest["metadata"]["namespace"] == f"bench-{deletions.namespace}":
                await self._forget([manifest])
                await asyncio.sleep(1 / deletions.per_second)

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Response:
        return await _ask(self._transport, method, path, query=query, body=body, content_type=content_type)


async def _ask(
    transport: HTTPTransport,
    method: str,
    path: str,
    *,
    query: dict[str, str] | None = None,
    body: Any = None,
    content_type: str = "application/json",
) -> Response:
    data = msgspec.json.encode(body) if body is not None else None
    try:
        return await transport.request(
            method, path, query=query, body=data, content_type=content_type, timeout_seconds=300
        )
    except TransportError as error:
        raise click.ClickException(str(error)) from error


async def _check_nodes(transport: HTTPTransport, *, shared: bool) -> None:
    answer = await _ask(transport, "GET", "/api/v1/nodes", query={"labelSelector": f"!{LABEL}", "limit": "1"})
    if answer.status != 200:
        raise click.ClickException(f"{transport.server} lists no nodes: {_message(answer)}")
    if msgspec.json.decode(answer.body)["items"] and not shared:
        raise click.ClickException(
            f"{transport.server} has nodes of its own, on which measured pods would run; "
            "use an empty cluster, or say --among-other-nodes"
        )


async def _connect(kubeconfig: str | None) -> HTTPTransport:
    try:
        return HTTPTransport(await auth.find(kubeconfig=kubeconfig, master=None))
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


def _path(manifest: Manifest) -> str:
    version = manifest["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = manifest["metadata"].get("namespace")
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{inside}/{_PLURALS[manifest['kind']]}"


def _message(answer: Response) -> str:
    try:
        return str(msgspec.json.decode(answer.body)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"HTTP {answer.status}"
