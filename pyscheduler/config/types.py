"""KubeSchedulerConfiguration v1 as typed objects, with the default value of each field.

The module `defaults` adds the default plugins and their args.
Differs from kube-scheduler: `leaderElection.resourceName` is `pyscheduler` by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs

from pyscheduler.framework.plugin_args import Duration, Float32, Int32, wire

__all__ = [
    "API_VERSION",
    "EXTENDER_TIMEOUT_SECONDS",
    "GROUP",
    "KIND",
    "ClientConnection",
    "Configuration",
    "Extender",
    "ExtenderTLS",
    "LeaderElection",
    "ManagedResource",
    "PluginConfig",
    "PluginEntry",
    "PluginSet",
    "Plugins",
    "SchedulerProfile",
]

GROUP: Final = "kubescheduler.config.k8s.io"
API_VERSION: Final = f"{GROUP}/v1"
KIND: Final = "KubeSchedulerConfiguration"

#: Timeout of an extender whose `httpTimeout` is 0.
EXTENDER_TIMEOUT_SECONDS: Final = 5.0


@attrs.frozen(kw_only=True)
class LeaderElection:
    """Leader election among replicas; times in seconds."""

    leader_elect: bool = True
    lease_duration_seconds: Duration = attrs.field(default=15.0, metadata=wire(zero_is_unset=True))
    renew_deadline_seconds: Duration = attrs.field(default=10.0, metadata=wire(zero_is_unset=True))
    retry_period_seconds: Duration = attrs.field(default=2.0, metadata=wire(zero_is_unset=True))
    resource_lock: str = attrs.field(default="leases", metadata=wire(zero_is_unset=True))
    resource_name: str = attrs.field(default="pyscheduler", metadata=wire(zero_is_unset=True))
    resource_namespace: str = attrs.field(default="kube-system", metadata=wire(zero_is_unset=True))


@attrs.frozen(kw_only=True)
class ClientConnection:
    """Connection to the API server, and client-side rate limits; a negative `qps` means no limit."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = attrs.field(default="application/vnd.kubernetes.protobuf", metadata=wire(zero_is_unset=True))
    qps: Float32 = attrs.field(default=50.0, metadata=wire(zero_is_unset=True))
    burst: Int32 = attrs.field(default=100, metadata=wire(zero_is_unset=True))


@attrs.frozen
class PluginEntry:
    """A plugin in a list; `weight` is for scores, 0 means 1.

    `place` is its position in the list of the file, for messages; None for a default plugin.
    """

    name: str = ""
    weight: Int32 = 0
    place: int | None = attrs.field(default=None, eq=False, repr=False, metadata={"internal": True})


@attrs.frozen(kw_only=True)
class PluginSet:
    """The plugins enabled at an extension point, in order, and the disabled defaults (`*`: all of them)."""

    enabled: tuple[PluginEntry, ...] = attrs.field(default=(), metadata=wire(omit_empty=True))
    disabled: tuple[PluginEntry, ...] = attrs.field(default=(), metadata=wire(omit_empty=True))


@attrs.frozen(kw_only=True)
class Plugins:
    """The plugins of a profile by extension point, and those enabled at all their points (`multi_point`)."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def sets(self) -> Iterator[tuple[str, PluginSet]]:
        """Yield the attribute name and the set of every extension point."""
        for field in attrs.fields(Plugins):
            yield field.name, getattr(self, field.name)


@attrs.frozen(kw_only=True)
class PluginConfig:
    """The args of one plugin.

    `args` is an object of `framework.in_tree_args` for kube-scheduler's own plugins. For other plugins it is the
    mapping in the file, or None.
    """

    name: str = ""
    args: object = None

    @property
    def raw(self) -> Mapping[str, object] | None:
        """The args as in the file, if they are not typed."""
        return self.args if isinstance(self.args, Mapping) else None


@attrs.frozen(kw_only=True)
class SchedulerProfile:
    """One profile: these plugins schedule the pods with this `schedulerName`."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = attrs.field(default=None, metadata=wire(omit_empty=True))
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = attrs.field(default=(), metadata=wire(omit_empty=True))


@attrs.frozen(kw_only=True)
class ManagedResource:
    """An extended resource that an extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = attrs.field(default=False, metadata=wire(omit_empty=True))


@attrs.frozen(kw_only=True)
class ExtenderTLS:
    """TLS settings for an extender: files, or contents in PEM, which have priority."""

    insecure: bool = attrs.field(default=False, metadata=wire(omit_empty=True))
    server_name: str = attrs.field(default="", metadata=wire(omit_empty=True))
    cert_file: str = attrs.field(default="", metadata=wire(omit_empty=True))
    key_file: str = attrs.field(default="", metadata=wire(omit_empty=True))
    ca_file: str = attrs.field(default="", metadata=wire(omit_empty=True))
    cert_data: bytes = attrs.field(default=b"", metadata=wire(omit_empty=True))
    key_data: bytes = attrs.field(default=b"", metadata=wire(omit_empty=True), repr=False)
    ca_data: bytes = attrs.field(default=b"", metadata=wire(omit_empty=True))


@attrs.frozen(kw_only=True)
class Extender:
    """A webhook that takes part in scheduling; an empty verb is not called."""

    url_prefix: str = ""
    filter_verb: str = attrs.field(default="", metadata=wire(omit_empty=True))
    preempt_verb: str = attrs.field(default="", metadata=wire(omit_empty=True))
    prioritize_verb: str = attrs.field(default="", metadata=wire(omit_empty=True))
    weight: int = attrs.field(default=0, metadata=wire(omit_empty=True))
    bind_verb: str = attrs.field(default="", metadata=wire(omit_empty=True))
    enable_https: bool = attrs.field(default=False, metadata=wire(key="enableHTTPS", omit_empty=True))
    tls_config: ExtenderTLS | None = attrs.field(default=None, metadata=wire(omit_empty=True))
    http_timeout_seconds: Duration = 0.0
    node_cache_capable: bool = attrs.field(default=False, metadata=wire(omit_empty=True))
    managed_resources: tuple[ManagedResource, ...] = attrs.field(default=(), metadata=wire(omit_empty=True))
    ignorable: bool = attrs.field(default=False, metadata=wire(omit_empty=True))


@attrs.frozen(kw_only=True)
class Configuration:
    """A whole effective configuration: defaults filled in, default plugins merged, values checked.

    `source` is the file name for messages, `placed` turns their paths into those of a file of another form; comparisons
    ignore both.
    """

    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    #: By default, contention profiling is enabled if profiling is.
    enable_contention_profiling: bool = attrs.field(
        default=attrs.Factory(lambda self: self.enable_profiling, takes_self=True)
    )
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[SchedulerProfile, ...] = attrs.field(default=(), metadata=wire(omit_empty=True))
    extenders: tuple[Extender, ...] = attrs.field(default=(), metadata=wire(omit_empty=True))
    delay_cache_until_active: bool = attrs.field(default=False, metadata=wire(omit_empty=True))
    source: str | None = attrs.field(default=None, eq=False, metadata={"internal": True})
    placed: Callable[[str], str] | None = attrs.field(default=None, eq=False, metadata={"internal": True})
