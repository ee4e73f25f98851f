"""`QueueSpec`: the settings of a queue, read from its object, in one form for all batch systems."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import attrs

__all__ = ["ROOT_QUEUE", "AmountsByResource", "QueueSpec", "QueueState"]

AmountsByResource: TypeAlias = Mapping[str, float]
"""Amounts by resource name: `cpu` in millicores, `memory` in bytes, all others in units; infinity is unlimited."""


ROOT_QUEUE: Final = "root"
"""The usual name of the queue above those that name no parent."""


class QueueState(StrEnum):
    """The state of a queue: whether it accepts new jobs. Only Volcano's queues have other states than Open."""

    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


@attrs.frozen(kw_only=True)
class QueueSpec:
    """The fields of a Queue object, with the defaults of its dialect.

    The keys of amounts are names of resources as pods request them: `cpu` (in millicores), `memory` (in bytes),
    `nvidia.com/gpu` (in devices), not `gpu`. A missing resource is one that the queue does not mention. For a limit
    that means unlimited in every dialect. For the others it means what the policies of the dialect say; see each
    attribute.
    """

    name: str
    uid: str
    #: The name of the dialect's row.
    dialect: str
    #: Name of the parent queue; "" at the top.
    parent: str = ""
    #: A name to show; the same as `name` if the object has none.
    display_name: str = attrs.field(default=attrs.Factory(lambda self: self.name, takes_self=True))
    #: Seconds since 1970; 0 if the object does not say.
    created: float = 0.0
    priority: float = 0.0
    #: Volcano's and kube-batch's weight, 1 to 65535.
    weight: float = 1.0
    #: KAI's quota, Volcano's `deserved`. KAI always sets cpu, memory and nvidia.com/gpu.
    quota: AmountsByResource = attrs.field(factory=dict, hash=False)
    #: KAI's limit, Volcano's and kube-batch's `capability`.
    limit: AmountsByResource = attrs.field(factory=dict, hash=False)
    #: Volcano's `guarantee.resource`; a missing resource has no guarantee.
    guarantee: AmountsByResource = attrs.field(factory=dict, hash=False)
    #: KAI's weight by resource for what is left after all quotas, without a unit; at least 0.
    over_quota_weight: AmountsByResource = attrs.field(factory=dict, hash=False)
    #: Whether other queues may reclaim from it (Volcano).
    reclaimable: bool = True
    state: QueueState = QueueState.OPEN
    #: Seconds for which a job is protected after its start (KAI); None if the queue does not say: the parent counts.
    preempt_min_runtime: float | None = None
    reclaim_min_runtime: float | None = None
    #: The annotations `volcano.sh/hierarchy` and `volcano.sh/hierarchy-weights`, "" if absent.
    hierarchy: str = ""
    hierarchy_weights: str = ""
    #: Volcano's `affinity` to groups of nodes, as in the object.
    affinity: Mapping[str, object] = attrs.field(factory=dict, hash=False)
    #: Sentences for the user: values that do not count, and unset fields that mean "nothing".
    warnings: tuple[str, ...] = ()
    #: A stable reason why the queue cannot be used at all, "" if it can.
    error: str = ""
