"""The args of the plugin `PodGrouper` in the configuration file."""

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
class PodGrouperArgs(Settings):
    """Which pods are grouped, and the settings of rules. The names and defaults are those of KAI's podgrouper."""

    #: The `schedulerName` of the pods; the name of the profile if it is empty.
    scheduler_names: tuple[str, ...] = ()
    #: Labels of the pods, and of their namespaces.
    pod_label_selector: Mapping[str, str] = attrs.field(factory=dict)
    namespace_label_selector: Mapping[str, str] = attrs.field(factory=dict)
    extra_owners: tuple[ExtraOwner, ...] = ()
