"""CPU time, where a test limits it: what the same work costs depends on what else the machine does.

A limit in CPU seconds is one for an idle machine. On a busy one the same instructions take up to a few times as long:
cores share caches and execution units, and a virtual machine's are lent to others meanwhile.
"""

from __future__ import annotations

import json
import time
from typing import Final

__all__ = ["slowness"]

#: CPU time of the reference work on an idle machine, in seconds.
_IDLE_SECONDS: Final = 0.012


def slowness() -> float:
    """Return how many times as much CPU time work takes now as on an idle machine; never less than 1.

    Takes about twelve milliseconds. Work that lasts is measured between two calls, and the greater result counts.
    """
    began = time.thread_time()
    for _ in range(3):
        objects = [{"name": number, "labels": [str(number)] * 3} for number in range(3000)]
        assert json.loads(json.dumps(objects)) == objects
    return max(1.0, (time.thread_time() - began) / _IDLE_SECONDS)
