"""The options of the command `pyscheduler explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ExplainOptions"]


@attrs.frozen(kw_only=True)
class ExplainOptions:
    """The options of the command: the pod to evaluate, by name or as a manifest, and the source of the cluster."""

    pods: Sequence[str]
    filename: str | None
    #: None: that of the kubeconfig's context, or `default` if the cluster is in files.
    namespace: str | None
    objects: Sequence[str]
    kubeconfig: str | None
    master: str | None
    config_file: str | None
    cases: str | None
    workers: int | None
    top: int
    output: str | None
    traceback: bool
    dialect: str | None
    history: bool
    logs: Sequence[str]
    scheduler: str | None
    #: `NAMESPACE/NAME`.
    lease: str | None
    scheduler_ca: str | None
    blocked: Sequence[str]
    feature_gates: str
    #: Where the configuration comes from, if it is neither the default nor that of --config.
    source: str = ""
    #: Profiles of the leader's configuration that cannot be used here, and why.
    left_out: Mapping[str, str] = attrs.field(factory=dict)

    def key_of(self, argument: str) -> tuple[str, str]:
        """Return namespace and name of a pod that an argument names; raise `ConfigError` if it names none."""
        namespace, slash, name = argument.rpartition("/")
        if not name or "/" in namespace or (slash and not namespace):
            raise ConfigError(f"{argument!r} names nothing; write [NAMESPACE/]POD, or [NAMESPACE/]KIND/NAME")
        return namespace or self.namespace or "default", name
