"""The options of `pyscheduler explain`, as other distributions get them that explain jobs and pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ExplainOptions"]


@attrs.frozen(kw_only=True)
class ExplainOptions:
    """The options of the command: the pod to evaluate, by name or as a manifest, and the source of the cluster."""

    pods: Sequence[str]
    filename: str | None
    namespace: str
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
    scheduler_ca: str | None
    blocked: Sequence[str]
    feature_gates: str
    #: Where the configuration comes from, if it is neither the default nor that of --config.
    source: str = ""

    @property
    def pod(self) -> tuple[str, str]:
        """Namespace and name of the pod that is named."""
        namespace, _, name = self.pods[0].rpartition("/")
        return namespace or self.namespace, name
