"""A cluster for tests: an embedded API server in this process, and schedulers with the plugins under test."""

from __future__ import annotations

import asyncio
import random
import warnings
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import msgspec

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.patching.requests import PatchOptions, apply_patch
from kube_testserver.resources.open_definitions import open_definition
from kube_testserver.schema.unknown_fields import FieldCheck
from kube_testserver.virtual_time import VirtualClock
from pyscheduler.api import KubeObject, Node, Pod, PodCondition, decode, encode
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.framework.in_tree_args import NodeResourcesFitArgs
from pyscheduler.framework.node_info import NodeInfo
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.testing.argument_checks import check_name, check_type
from pyscheduler.testing.builders import node_manifest, pod_manifest
from pyscheduler.testing.fake_framework import FakeFramework, advance_until_done
from pyscheduler.testing.plugin_errors import is_answer_of_the_server, raise_failures, raise_unawaited, unbound_pods
from pyscheduler.testing.watched_calls import PluginWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler.framework.hooks import PluginRegistry
    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.testing.builders import NodeKeywords, PodKeywords

__all__ = ["FakeCluster"]

K = TypeVar("K", bound=KubeObject)


class FakeCluster:
    """Objects in an embedded API server, on a virtual clock; `server` is that API server.

    No kubelet runs: a pod that the scheduler evicts keeps its node, with a `deletionTimestamp`, until the test calls
    `delete_pod`; with `spec={"terminationGracePeriodSeconds": 0}` it is gone at once. A bound pod does not start.

    With `watch_plugins`, each call of a plugin that is not in-tree is timed, and plugins are asked for signatures; a
    call then takes some microseconds longer.

    Use the cluster in a running event loop and `close` it at the end; the pytest fixture `pyscheduler_cluster` does
    both, and watches plugins.
    """

    def __init__(self, *, seed: int = 0, clock: VirtualClock | None = None, watch_plugins: bool = False) -> None:
        self.clock = clock if clock is not None else VirtualClock()
        self.seed = seed
        self.watch_plugins = watch_plugins
        self.server = EmbeddedCluster(clock=self.clock, rng=random.Random(seed))
        self._frameworks: list[FakeFramework] = []

    def transport(self) -> InProcessTransport:
        """Return a way to the API server that `pyscheduler.scheduler.assembly.build` takes."""
        return InProcessTransport(self.server.router)

    # Objects

    def add_node(self, name: str, **keywords: Unpack[NodeKeywords]) -> Node:
        """Create a node; keywords as for `node_manifest` (`allocatable`, `labels`, `taints` ...)."""
        return self.add(node_manifest(name, **keywords), Node)

    def add_pod(self, pod: Pod | str, **keywords: Unpack[PodKeywords]) -> Pod:
        """Create a pod, from an object or from a name and the keywords of `pod_manifest`."""
        if keywords and not isinstance(pod, str):
            raise TypeError("add_pod() takes keywords with a name only; pass them to make_pod(...)")
        manifest = msgspec.json.decode(encode(pod)) if isinstance(pod, Pod) else pod_manifest(pod, **keywords)
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            manifest["metadata"].pop(field, None)
        return self.add(manifest, Pod)

    def add(self, manifest: Mapping[str, Any], type_: type[K]) -> K:
        """Create an object; return it as the scheduler reads it, decoded to `type_`."""
        check_type(type_, "add")
        stored = self.server.add(dict(manifest))[0]
        return decode(type_, msgspec.json.encode(stored))

    def pod(self, name: str, *, namespace: str = "default") -> Pod:
        """Return a pod in its current state; raise `APIError` (404) if it does not exist."""
        check_name(name, "pod")
        return decode(Pod, msgspec.json.encode(self.server.get("v1", "Pod", name, namespace=namespace)))

    def pods(self) -> list[Pod]:
        """Return all pods in their current state."""
        return [decode(Pod, msgspec.json.encode(item)) for item in self.server.pods()]

    def nodes(self) -> list[Node]:
        """Return all nodes in their current state."""
        return [decode(Node, msgspec.json.encode(item)) for item in self.server.nodes()]

    def objects(self, type_: type[K], *, namespace: str = "") -> list[K]:
        """Return all objects of a kind in their current state, optionally of one namespace."""
        check_type(type_, "objects")
        found = self.server.objects(type_.api_version, type_.kind, namespace=namespace)
        return [decode(type_, msgspec.json.encode(item)) for item in found]

    def patch(
        self,
        type_: type[K],
        name: str,
        patch: Mapping[str, object],
        *,
        namespace: str = "default",
        status: bool = False,
    ) -> K:
        """Change an object by a JSON merge patch, or its status with `status`; return the new state."""
        check_type(type_, "patch")
        check_name(name, "patch")
        resource = self.server.resource(type_.api_version, type_.kind)
        record, _ = apply_patch(
            self.server.registry,
            resource,
            namespace if resource.namespaced else "",
            name,
            msgspec.json.encode(patch),
            PatchOptions("application/merge-patch+json", FieldCheck(), "status" if status else ""),
        )
        return decode(type_, self.server.registry.render(resource, record))

    def delete(self, type_: type[KubeObject], name: str, *, namespace: str = "default") -> None:
        """Delete an object at once."""
        check_type(type_, "delete")
        self.server.remove(type_.api_version, type_.kind, name, namespace=namespace)

    def delete_pod(self, name: str, *, namespace: str = "default") -> None:
        """Delete a pod at once."""
        check_name(name, "delete_pod")
        self.delete(Pod, name, namespace=namespace)

    def delete_node(self, name: str) -> None:
        """Delete a node."""
        check_name(name, "delete_node")
        self.delete(Node, name)

    def serve(self, kind: ResourceKind) -> None:
        """Create the CustomResourceDefinition of a kind that a plugin watches; it accepts any fields."""
        self.server.add(open_definition(kind.group, kind.kind, kind.plural, [kind.version], namespaced=kind.namespaced))

    def serves(self, kind: ResourceKind) -> bool:
        """Return True if the API server serves a kind, built in or by a CustomResourceDefinition."""
        return self.server.table.find_kind(kind.api_version, kind.kind) is not None

    def events(self, reason: str | None = None) -> list[dict[str, Any]]:
        """Return the recorded events (events.k8s.io/v1) in order of their time."""
        found = self.server.objects("events.k8s.io/v1", "Event")
        found.sort(key=lambda event: event.get("eventTime") or "")
        return [event for event in found if reason is None or event.get("reason") == reason]

    # Frameworks

    def framework(  # noqa: PLR0913 - what a test chooses, all by keyword
        self,
        *,
        enable: Sequence[type[Plugin] | str] = (),
        disable: Sequence[str] = (),
        weights: Mapping[str, int] | None = None,
        args: Mapping[str, Mapping[str, object]] | None = None,
        config: str | None = None,
        feature_gates: str = "",
        seed: int | None = None,
        allow_plugin_errors: bool = False,
        register: Callable[[PluginRegistry], object] | None = None,
    ) -> FakeFramework:
        """Return a framework with the default plugins and those in `enable`, without those in `disable` (`*` for all).

        `enable` takes plugin classes, or names of installed plugins; `args` their `pluginConfig` args, as in a file.
        `weights` are those of scores by plugin name, of the default plugins, too; without it a plugin has its default
        weight, 1 if it has none.

        `config` is the text of a KubeSchedulerConfiguration; with it, the profiles are those of the text, and the
        classes in `enable` are only registered.

        With `allow_plugin_errors`, a test may let a plugin fail; otherwise the fixture `pyscheduler_cluster` fails the
        test at teardown, with the exception of the plugin. `FakeFramework.plugin_errors` has the failures.

        `register` is a hook `pyscheduler_register`; it is called as the hook of an installed distribution is.
        """
        made = FakeFramework(
            self,
            enable=enable,
            disable=disable,
            weights=weights or {},
            args=args or {},
            config=config,
            feature_gates=feature_gates,
            seed=self.seed if seed is None else seed,
            allow_plugin_errors=allow_plugin_errors,
            register=register,
        )
        self._frameworks.append(made)
        return made

    def assert_invariants(self) -> None:
        """Check the invariants of the API server and of every framework, and that no node is overcommitted."""
        self.server.check_invariants()
        for framework in self._frameworks:
            framework.assert_invariants()
        self._assert_capacity()

    def raise_plugin_errors(self, unawaited: Sequence[str] = ()) -> None:
        """Raise the first exception that a plugin raised, of the frameworks that do not allow it.

        `unawaited`: what Python said of coroutines that nobody awaited.
        """
        strict = [each for each in self._frameworks if not each.allow_plugin_errors]
        for framework in strict:
            for pod, method in unbound_pods(framework):
                framework.scheduler.binding.unconfirmed.report(pod, method)
            plugins = framework.profile.plugins
            raise_failures([each for each in framework.plugin_errors if not is_answer_of_the_server(each, plugins)])
        if len(strict) == len(self._frameworks):
            raise_unawaited(unawaited, [plugin for each in strict for plugin in each.profile.plugins.values()])

    def warn_of_plugins(self) -> None:
        """Issue a `PluginWarning` for each slow call and each method that nobody calls, if errors are not allowed."""
        texts = [text for each in self._frameworks if not each.allow_plugin_errors for text in each.plugin_warnings]
        for text in dict.fromkeys(texts):
            warnings.warn(text, PluginWarning, stacklevel=2)

    def _assert_capacity(self) -> None:
        nodes = {node.name: NodeInfo.of(node) for node in self.nodes()}
        #: Pairs of node and extended resource that devices of the node provide.
        served: set[tuple[str, str]] = set()
        for pod in self.pods():
            if pod.node_name in nodes and not pod.is_terminal:
                nodes[pod.node_name].add_pod(PodInfo.of(_as_allocated(pod)))
                made = pod.status.extended_resource_claim_status
                served.update((pod.node_name, each.resource_name) for each in (made.request_mappings if made else ()))
        for name, info in nodes.items():
            limits = info.allocatable
            wanted = info.requested
            assert wanted.milli_cpu <= limits.milli_cpu, f"node {name} is overcommitted: cpu"
            assert wanted.memory <= limits.memory, f"node {name} is overcommitted: memory"
            assert len(info.pods) <= limits.allowed_pods, f"node {name} is overcommitted: pods"
            for scalar, amount in wanted.scalars.items():
                offered = amount <= limits.get(scalar) or (name, scalar) in served or self._is_of_cluster(scalar)
                assert offered, f"node {name} is overcommitted: {scalar}"

    def _is_of_cluster(self, resource: str) -> bool:
        """Return True if a profile lets another plugin than NodeResourcesFit count the resource, for the cluster."""
        for framework in self._frameworks:
            for profile in framework.scheduler.profiles.values():
                fit = profile.plugins.get("NodeResourcesFit")
                args = getattr(fit, "args", None)
                if isinstance(args, NodeResourcesFitArgs) and (
                    resource in args.ignored_resources or resource.partition("/")[0] in args.ignored_resource_groups
                ):
                    return True
        return False

    async def close(self) -> None:
        """Stop all frameworks; raise `TimeoutError` if one does not end. Closing again does nothing."""
        await advance_until_done(self.clock, self._stop_schedulers())
        for framework in self._frameworks:
            await framework.close()

    async def _stop_schedulers(self) -> None:
        # All at once: none goes on while the clock advances for another.
        await asyncio.gather(*(framework.scheduler.stop() for framework in self._frameworks))


def _as_allocated(pod: Pod) -> Pod:
    """Return the pod as if its resizes were infeasible: with what its node says to have set aside for it.

    A resize that the node defers asks for more than the node has, and the scheduler has no part in it.
    """
    mark = PodCondition(type="PodResizePending", status="True", reason="Infeasible")
    return msgspec.structs.replace(
        pod, status=msgspec.structs.replace(pod.status, conditions=(mark, *pod.status.conditions))
    )
