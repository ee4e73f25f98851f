"""Options of `audit.check`: names of the schedulers to check, the formula of fair shares, and time limits."""

from __future__ import annotations

from typing import Literal

import attrs

__all__ = ["Formula", "Options"]

Formula = Literal["kai", "proportion", "capacity", "kube-batch", "none"]
"""The formula of fair shares; "none" skips rule 5.

For Volcano name a formula only if the tier of its plugin decides about victims. In the default tiers of Volcano gang
and conformance decide before, and a reclaim may take from a queue within its share."""


@attrs.frozen(kw_only=True)
class Options:
    """Options of a check. All times are in seconds."""

    #: Names of the batch profiles. Pods of every other scheduler are foreign. Empty: pods in a group are ours.
    schedulers: frozenset[str] = frozenset()
    formula: Formula = "kai"
    #: Queue of pods that name none.
    default_queue: str = "default"
    #: From the first to the last write of one decision: bindings of a gang, evictions of a gang.
    burst_seconds: float = 5.0
    #: A decision may rest on objects as they were so long before its first write.
    in_flight_seconds: float = 1.0
    #: After the victims are gone, the job that evicted them has so long to bind its minimum.
    lease_seconds: float = 60.0
    #: A broken gang may keep its pods so long, unless its group says something else.
    staleness_seconds: float = 60.0
    #: Broken gangs are evicted (KAI). Otherwise they may stay.
    evicts_stale_gangs: bool = True
    #: Evictions may leave a part of a gang. In Volcano's default tiers, gang only has the first word: if it spares all
    #: tasks, the next tier chooses, and may take one task of a gang at its minimum. kube-batch's gang looks at each
    #: task alone: of a gang with one surplus task it may give away two.
    breaks_gangs: bool = False
    #: Evictions must end so long after the last change from outside, plus the longest timer of a queue or group.
    settle_seconds: float = 600.0
    #: A pod must have a reason so long after its creation.
    reason_seconds: float = 30.0
    #: The status of a queue may lag so long behind the pods; None skips rule 9.
    status_seconds: float | None = 10.0
    #: KAI's `relcaimerSaturationMultiplier`.
    saturation_multiplier: float = 1.0
    #: KAI's `kValue`.
    k_value: float = 1.0
    #: KAI's `reclaimResolveMethod`: ``lca`` or ``queue``.
    reclaim_resolve_method: str = "lca"
    #: KAI's time-based fairness: usage by queue and resource, as a part of the cluster.
    usage: dict[str, dict[str, float]] = attrs.field(factory=dict)
