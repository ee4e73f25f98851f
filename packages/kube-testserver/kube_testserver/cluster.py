"""An API server in memory, with methods to add and read objects.

Objects are decoded JSON, as in a manifest.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Literal

from kube_objects.errors import ConfigError
from kube_testserver.access.authorizer import AlwaysAllow, Authorizer, RbacAuthorizer
from kube_testserver.access.bootstrap import AUTHENTICATION_CONFIG, bootstrap_objects
from kube_testserver.access.gate import AccessGate
from kube_testserver.access.tokens import TokenIssuer
from kube_testserver.controllers import definitions, namespaces
from kube_testserver.controllers.event_expiry import EventExpiry
from kube_testserver.controllers.garbage_collection import GarbageCollector
from kube_testserver.controllers.lifecycle import Lifecycle
from kube_testserver.controllers.roles_and_accounts import (
    DEFAULT_ACCOUNT,
    aggregate_roles,
    ensure_account,
    restore_account,
)
from kube_testserver.manifests import load_manifests
from kube_testserver.registry import Registry
from kube_testserver.resources import rbac
from kube_testserver.resources.builtin import (
    BUILTIN_RESOURCES,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    NAMESPACES,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
)
from kube_testserver.resources.table import ResourceTable
from kube_testserver.rules.deletion import DeleteOptions
from kube_testserver.rules.pod_groups import POD_GROUP_RESOURCES
from kube_testserver.serving.discovery import RELEASE
from kube_testserver.serving.faults import Faults
from kube_testserver.serving.in_process import InProcessClient
from kube_testserver.serving.router import Router
from kube_testserver.store import Store

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from kube_objects.clock import Clock
    from kube_testserver.access.escalation import EscalationGuard
    from kube_testserver.access.users import User
    from kube_testserver.resources.table import Resource
    from kube_testserver.serving.http_server import ApiServer
    from kube_testserver.store import Object, Record

__all__ = ["EmbeddedCluster"]

_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class EmbeddedCluster:
    """A whole API server in memory. `clock` gives its time, `rng` its uids and names; `faults` is there to be armed.

    `authorization` ``always-allow`` allows every request. ``rbac`` authenticates users and applies roles and bindings;
    the usual ones exist. `tokens` maps bearer tokens to users; with any, ``always-allow`` checks credentials, too.

    With `pod_groups` it serves Workload and PodGroup of `scheduling.k8s.io/v1alpha2`, as the real server does with the
    gate GenericWorkload.

    `history_limit` is how many changes of each resource watches may lag behind; events are forgotten after
    `event_ttl_seconds`. Versions are counted from `first_version` on: one beyond all that an earlier server counted
    keeps its clients from mistaking this one for it, because what they know is too old (410).

    `release` is the Kubernetes release that /version names, for clients that check it; nothing else depends on it.
    """

    def __init__(  # noqa: PLR0913 - wiring, all by keyword
        self,
        *,
        clock: Clock,
        rng: random.Random | None = None,
        history_limit: int = 20_000,
        event_ttl_seconds: float = 3600.0,
        first_version: int = 1,
        authorization: Literal["always-allow", "rbac"] = "always-allow",
        tokens: Mapping[str, User] | None = None,
        pod_groups: bool = False,
        release: str = RELEASE,
    ) -> None:
        rng = rng if rng is not None else random.Random()
        self.clock = clock
        self.faults = Faults(random.Random(rng.getrandbits(64)))
        self.store = Store(history_limit=history_limit, first_version=first_version)
        self.table = ResourceTable((*BUILTIN_RESOURCES, *(POD_GROUP_RESOURCES if pod_groups else ())))
        self.registry = Registry(self.store, self.table, wall=clock.wall, rng=rng)
        self.registry.reactions[CUSTOM_RESOURCE_DEFINITIONS.collection] = definitions.react
        self.registry.reactions[NAMESPACES.collection] = ensure_account
        self.registry.reactions[SERVICE_ACCOUNTS.collection] = restore_account
        self.registry.reactions[EVENTS.collection] = EventExpiry(event_ttl_seconds)
        authorizer: Authorizer = RbacAuthorizer(self.store) if authorization == "rbac" else AlwaysAllow()
        issuer = TokenIssuer(wall=clock.wall, rng=random.Random(rng.getrandbits(256)), find=self._find)
        #: Who asks, and may they: tokens, the authorizer, and its record of used rules.
        self.access = AccessGate(authorizer, issuer, tokens=tokens)
        self.router = Router(self.registry, clock=clock, gate=self.access, faults=self.faults, release=release)
        if self.access.guard is not None:
            self._prepare_access(self.access.guard)
        for name in namespaces.BOOTSTRAP:
            self.registry.create(NAMESPACES, "", {"metadata": {"name": name}})
        for name, value in _SYSTEM_CLASSES.items():
            self.registry.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})
        if self.access.guard is not None:
            config = {"metadata": {"name": AUTHENTICATION_CONFIG}, "data": {}}
            self.registry.create(self.resource("v1", "ConfigMap"), "kube-system", config)
            for resource, namespace, obj in bootstrap_objects():
                self.registry.create(resource, namespace, obj)
        self._first_own_version = self.store.version + 1

    # --- ways in ---------------------------------------------------------------------------------

    def client(self, *, user: User | None = None, token: str = "") -> InProcessClient:
        """Return a client in this process, for a user, a bearer token, or else the server itself."""
        return InProcessClient(self.router, user=user, token=token)

    def server(self, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> ApiServer:
        """Return an HTTP server on this cluster, not yet started; with `tls`, an HTTPS server."""
        from kube_testserver.serving.http_server import ApiServer  # noqa: PLC0415 - most clusters are not served

        return ApiServer(self.router, host=host, port=port, tls=tls)

    def lifecycle(self, *, start_seconds: float = 0.0, stop_seconds: float = 0.0, run_pods: bool = True) -> Lifecycle:
        """Return what takes bound pods in, makes them run, and lets deleted ones go; not yet started.

        Without `run_pods` nodes only reject what does not fit them.
        """
        return Lifecycle(
            self.registry,
            clock=self.clock,
            start_seconds=start_seconds,
            stop_seconds=stop_seconds,
            run_pods=run_pods,
        )

    def garbage_collector(self) -> GarbageCollector:
        """Return what deletes objects without owners, not yet started. Deletions honour `propagationPolicy` with it."""
        return GarbageCollector(self.registry, clock=self.clock)

    # --- access ----------------------------------------------------------------------------------

    @property
    def rbac(self) -> RbacAuthorizer:
        """Return what decides by roles and bindings; `ConfigError` where everybody may do everything."""
        if not isinstance(self.access.authorizer, RbacAuthorizer):
            raise ConfigError('this cluster has no roles to go by; make it with authorization="rbac"')
        return self.access.authorizer

    def account_token(self, namespace: str, name: str, *, expires_seconds: float = 3600.0) -> str:
        """Return a token for a service account; raise `APIError` (404) if the account does not exist."""
        account = self.registry.get(SERVICE_ACCOUNTS, namespace, name)
        return self.access.issuer.issue(account, expires_seconds=expires_seconds)

    def _prepare_access(self, guard: EscalationGuard) -> None:
        registry = self.registry
        registry.guard = guard.check
        registry.reactions[rbac.CLUSTER_ROLES.collection] = aggregate_roles

    def _find(self, collection: str, key: str) -> Record | None:
        return self.store.collection(collection).get(key)

    # --- objects ---------------------------------------------------------------------------------

    def add(self, *objects: Object) -> list[Object]:
        """Create objects, in order; return them as stored. Their namespaces are made where they are missing.

        A status that a POST would drop is written as well, and a `spec.nodeName` is taken as it is: so a manifest of a
        running cluster can be loaded whole.
        """
        return [self._add(obj) for obj in objects]

    def load(self, text: str | bytes) -> list[Object]:
        """Create the objects of a YAML text; `APIError` for the first that is refused.

        It may be what `kubectl get -o yaml` printed: versions are made anew, namespaces come first, and what every
        server has from the beginning (`kube-system`, the class `system-node-critical` ...) or with a namespace (the
        service account `default`) is left as it is.
        """
        objects = sorted(load_manifests(text), key=lambda one: not _is_namespace(one))
        return [self._add(_without_version(one)) for one in objects if not self._is_built_in(one)]

    def plant(self, obj: Object) -> Object:
        """Store an object exactly as it is, unchecked and uncompleted: for tests of what no server should let in."""
        resource = self.resource_of(obj)
        metadata = obj["metadata"]
        key = resource.key(metadata.get("namespace", ""), metadata["name"])
        stored = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
        stored["metadata"] = dict(metadata)
        return resource.view(self.registry.collection(resource).insert(key, stored).decode())

    def get(self, api_version: str, kind: str, name: str, *, namespace: str = "") -> Object:
        """Return one object; `APIError` (404) when it is not there."""
        resource = self.resource(api_version, kind)
        return resource.view(self.registry.get(resource, _scope(resource, namespace), name).decode())

    def objects(self, api_version: str, kind: str, *, namespace: str = "") -> list[Object]:
        """Return all objects of a kind, in key order; of one namespace where it is given."""
        resource = self.resource(api_version, kind)
        prefix = f"{namespace}/" if namespace else ""
        page = self.registry.collection(resource).page(prefix=prefix)
        return [resource.view(record.decode()) for record in page.records]

    def remove(
        self, api_version: str, kind: str, name: str, *, namespace: str = "", grace_seconds: int | None = 0
    ) -> None:
        """Delete one object: at once, unless `grace_seconds` says otherwise (None: as the object itself asks)."""
        resource = self.resource(api_version, kind)
        options = DeleteOptions(grace_seconds=grace_seconds)
        self.registry.delete(resource, _scope(resource, namespace), name, options)

    def pods(self, *, namespace: str = "") -> list[Object]:
        """Return all pods."""
        return self.objects("v1", "Pod", namespace=namespace)

    def nodes(self) -> list[Object]:
        """Return all nodes."""
        return self.objects("v1", "Node")

    def resource(self, api_version: str, kind: str) -> Resource:
        """Return the served resource of a kind; `ConfigError` when there is none."""
        found = self.table.find_kind(api_version, kind)
        if found is None:
            raise ConfigError(f"{api_version} {kind} is not served; create its CustomResourceDefinition first")
        return found

    def resource_of(self, obj: Object) -> Resource:
        """Return the served resource of an object's kind."""
        return self.resource(obj.get("apiVersion") or "", obj.get("kind") or "")

    def check_invariants(self) -> None:
        """Raise `AssertionError` when the store contradicts itself."""
        self.store.check_invariants()

    def _add(self, obj: Object) -> Object:
        resource = self.resource_of(obj)
        metadata: Any = obj.get("metadata") or {}
        namespace = ""
        if resource.namespaced:
            namespace = metadata.get("namespace") or "default"
            if self.registry.collection(NAMESPACES).get(namespace) is None:
                self.registry.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        record = self.registry.create(resource, namespace, _copy(obj))
        status = obj.get("status")
        if status and resource.has_status and not resource.status_at_creation:
            born = record.decode()
            born["status"] = {**(born.get("status") or {}), **_copy(status)}
            record = self.registry.change(resource, record, born, subresource="status")
        return resource.view(record.decode())

    def _is_built_in(self, obj: Object) -> bool:
        metadata: Any = obj.get("metadata") or {}
        if not isinstance(metadata, dict):
            return False
        resource = self.resource_of(obj)
        if resource is SERVICE_ACCOUNTS and metadata.get("name") == DEFAULT_ACCOUNT:
            return True
        key = resource.key(metadata.get("namespace") or "default", metadata.get("name") or "")
        record = self.registry.collection(resource).get(key)
        return record is not None and record.version < self._first_own_version


def _is_namespace(obj: Object) -> bool:
    return obj.get("kind") == "Namespace" and obj.get("apiVersion") == "v1"


def _without_version(obj: Object) -> Object:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "resourceVersion" not in metadata:
        return obj
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "resourceVersion"}}


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(inner) for inner in value]
    return value


def _scope(resource: Resource, namespace: str) -> str:
    return (namespace or "default") if resource.namespaced else ""
