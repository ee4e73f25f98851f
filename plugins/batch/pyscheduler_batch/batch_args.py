"""The args of the plugin `Batch` as typed values, with the defaults of a batch system, such as KAI."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pyscheduler_batch.settings.search_budgets import SearchBudgets
from pyscheduler_batch.usage.settings import UsageSettings
from pyscheduler_quota.controller import WAIT

__all__ = ["BatchArgs", "PolicyEntry"]


@attrs.frozen(kw_only=True)
class PolicyEntry:
    """A policy in a tier."""

    name: str
    #: As texts; a list or map is JSON.
    arguments: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    #: The flags of the file, such as `enablePreemptable`; a flag that is not there has its default.
    enabled: Mapping[str, bool] = attrs.field(factory=dict, hash=False)


@attrs.frozen(kw_only=True)
class BatchArgs:
    """The configuration of a batch profile, complete with the defaults of its preset."""

    preset: str
    actions: tuple[str, ...]
    tiers: tuple[tuple[PolicyEntry, ...], ...]
    #: Arguments of actions (Volcano's `configurations`), by action.
    action_arguments: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict, hash=False)
    #: The name that the file gives the scheduler, or the name of the preset's system.
    scheduler_name: str = ""
    #: How many jobs of a queue an action looks at; a missing action looks at all (KAI).
    queue_depth_per_action: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    #: At most this many victims of a consolidation; 0: none, -1: any number (KAI).
    max_consolidation_victims: int = 16
    #: Whether pods that find another node do not count as reclaimed (KAI).
    consolidating_reclaim: bool = True
    #: Whether jobs that look alike are tried once per action (KAI).
    scheduling_signatures: bool = True
    #: Seconds that a broken gang may stay, unless its group says otherwise; below 0: for ever (KAI).
    staleness_grace: float = 60.0
    #: How long the searches for victims may take (KAI).
    search_budgets: SearchBudgets = attrs.field(factory=SearchBudgets)
    #: Whether a pod without a group is refused; otherwise it is a job of its own.
    require_group: bool = False
    #: The queue of a job that names none; "" for the default of the job's dialect.
    default_queue: str = ""
    #: The label of pods that names their queue; None: that of the system (KAI).
    queue_label: str | None = None
    #: The label of nodes, pods and groups that names their node pool, None for that of the system and "" for none; and
    #: the pool of this profile (KAI).
    node_pool_label: str | None = None
    node_pool: str = ""
    #: Whether the members of a gang finish PreBind before the first one is bound.
    gang_barrier: bool = True
    #: `api` binds pods itself, `bindRequest` leaves that to a binder of BindRequests.
    binder: str = "api"
    #: `wait`: a job is held until the quotas of its namespace have room for all that its group declares; `none`.
    quota_reservation: str = WAIT
    #: Whether PodDisruptionBudgets protect victims: `ignore`, `prefer` (of equal victims the others go) or `respect`.
    disruption_budgets: str = "prefer"
    #: Where past use of queues is known from; None: shares do not depend on it (KAI).
    usage: UsageSettings | None = None
    #: Sentences for the log about what has no effect.
    warnings: tuple[str, ...] = ()

    def policy(self, name: str) -> PolicyEntry | None:
        """Return the first entry of a policy; None if it is not configured."""
        return next((entry for tier in self.tiers for entry in tier if entry.name == name), None)

    @property
    def has_queue_tree(self) -> bool:
        """Return whether a flag makes a tree of queues that have parents; `drf` reads annotations instead."""
        entries = (entry for tier in self.tiers for entry in tier if entry.name != "drf")
        return any(entry.enabled.get("enableHierarchy", False) for entry in entries)
