"""Check a batch scheduler: replay the writes on an API server, and return the violated rules.

The package shares no code with the scheduler, so that a mistake of the scheduler is not repeated here. An import
contract ensures this. The rules:

1. No gang is partly bound.
2. No binding exceeds a limit.
3. No protected pod and no pod of another scheduler is evicted.
4. Each eviction lets a job start, or ends a broken gang.
5. Fair shares justify each reclaim.
6. Evictions do not repeat, and jobs do not evict each other in a cycle.
7. Evictions end.
8. Each pending pod has a queue without child queues, and a reason why it waits.
9. The status of queues is right.

The module of a rule describes the exceptions.
"""

from __future__ import annotations

from pyscheduler_lab.audit.checker import RULES as RULES, check as check
from pyscheduler_lab.audit.evictions import EvictionRecord as EvictionRecord
from pyscheduler_lab.audit.history import Change as Change, History as History
from pyscheduler_lab.audit.options import Options as Options
from pyscheduler_lab.audit.verdict import Verdict as Verdict, Violation as Violation

__all__ = ["RULES", "Change", "EvictionRecord", "History", "Options", "Verdict", "Violation", "check"]
