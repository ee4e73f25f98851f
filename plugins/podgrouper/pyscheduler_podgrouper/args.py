"""The args of `PodGrouper`."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pyscheduler_podgrouper.contract import Settings

__all__ = ["ExtraOwner", "PodGrouperArgs"]


@attrs.frozen(kw_only=True)
class ExtraOwner:
    """A kind of owners without a rule, which the grouper may read."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True


@attrs.frozen(kw_only=True)
class PodGrouperArgs:
    """Which pods are grouped, and the settings of rules. The names and defaults are those of KAI's podgrouper."""

    #: The `schedulerName` of the pods; the name of the profile if it is empty.
    scheduler_names: tuple[str, ...] = ()
    #: Labels of the pods, and of their namespaces.
    pod_label_selector: Mapping[str, str] = attrs.field(factory=dict)
    namespace_label_selector: Mapping[str, str] = attrs.field(factory=dict)
    queue_label_key: str = "kai.scheduler/queue"
    node_pool_label_key: str = "kai.scheduler/node-pool"
    default_queue: str = "default-queue"
    search_for_legacy_pod_groups: bool = True
    gang_schedule_knative: bool = True
    defaults_config_map: str = ""
    defaults_config_map_namespace: str = ""
    extra_owners: tuple[ExtraOwner, ...] = ()

    @property
    def settings(self) -> Settings:
        """Return the settings of rules."""
        return Settings(
            queue_label_key=self.queue_label_key,
            node_pool_label_key=self.node_pool_label_key,
            default_queue=self.default_queue,
            search_for_legacy_pod_groups=self.search_for_legacy_pod_groups,
            gang_schedule_knative=self.gang_schedule_knative,
            defaults_config_map=self.defaults_config_map,
            defaults_config_map_namespace=self.defaults_config_map_namespace,
        )
