"""Check the decisions of a batch scheduler: read all writes on an API server, and return the violated rules.

The package shares no code with the scheduler, so that a mistake of the scheduler is not repeated here. A *gang* is a
group of pods that start together or not at all. A gang that lost members is *broken*. The rules:

1. No gang is partly bound.
2. No binding exceeds a limit of a queue.
3. No protected pod and no pod of another scheduler is evicted.
4. Each eviction lets a job start, or ends a broken gang.
5. If a pod is evicted for a job of another queue, the fair shares of the queues justify it.
6. Evictions do not repeat, and jobs do not evict each other in a cycle.
7. Evictions end if nothing else changes in the cluster.
8. Each pending pod shows why it waits.
9. The status of queues is right.
"""

from __future__ import annotations

from pyscheduler_lab.audit.checker import RULES as RULES, check as check
from pyscheduler_lab.audit.evictions import EvictionRecord as EvictionRecord
from pyscheduler_lab.audit.history import Change as Change, History as History
from pyscheduler_lab.audit.options import Options as Options
from pyscheduler_lab.audit.verdict import Verdict as Verdict, Violation as Violation

__all__ = ["RULES", "Change", "EvictionRecord", "History", "Options", "Verdict", "Violation", "check"]
