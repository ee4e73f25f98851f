"""Ask the filter plugins why no node accepts a waiting pod; the message on the pod quotes the answer.

The answer is, for example, "0/3 nodes are available: 3 Insufficient cpu."
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.runtime.placement import feasible_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

    from pyscheduler.api import Pod
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle

__all__ = ["NO_LINE", "FilterLine", "FilterLines"]

#: A line is asked for again after so long, in seconds.
REFRESH_SECONDS: Final = 10.0
#: So many questions per second, and at once after a pause. New kinds come first: refreshing leaves half to them.
QUESTIONS_PER_SECOND: Final = 4.0
QUESTIONS_AT_ONCE: Final = 32.0

#: Part of each line of the filters, also where the batch system quotes them.
_LINE: Final = "nodes are available"
_COUNT: Final = re.compile(r"^\d+ ")


@attrs.define(eq=False)
class FilterLine:
    """The line about the pods of a kind; "" if some node takes them, or if nobody has asked yet."""

    text: str = ""
    #: False once there is another line about these pods.
    is_current: bool = True
    #: The pod that the filters look at, and when they did, in clock seconds. `NO_LINE` has no pod.
    pod: Pod | None = None
    asked: float = -math.inf


NO_LINE: Final = FilterLine()
"""The line about a job that does not wait for room."""


@attrs.define(eq=False, kw_only=True)
class FilterLines:
    """The lines of one profile. Use it while the snapshot of the scheduler shows the cluster."""

    profile: Profile
    scheduling: SchedulingCycle
    #: The codes of the reasons that are about nodes.
    codes: Collection[str]
    #: Returns what pods share that the filters treat alike, by uid; None for a pod that the tables do not know.
    key: Callable[[str], Hashable | None]
    #: The line that was asked for longest ago comes first.
    _lines: OrderedDict[Hashable, FilterLine] = attrs.Factory(OrderedDict)
    _tokens: float = QUESTIONS_AT_ONCE
    _filled: float = 0.0

    def refresh(self, is_waiting: Callable[[str], bool]) -> None:
        """Ask for the oldest lines; forget those whose pod does not wait any more. `is_waiting`: by uid of a pod."""
        now = self.scheduling.clock.now()
        self._tokens = min(QUESTIONS_AT_ONCE, self._tokens + (now - self._filled) * QUESTIONS_PER_SECOND)
        self._filled = now
        due = now - max(REFRESH_SECONDS, len(self._lines) / QUESTIONS_PER_SECOND)
        while self._lines:
            key, line = next(iter(self._lines.items()))
            if line.asked > due or self._tokens < (1 if line.asked == -math.inf else QUESTIONS_AT_ONCE / 2):
                return
            del self._lines[key]
            assert line.pod is not None, "only NO_LINE has none"
            if not is_waiting(line.pod.uid):
                line.is_current = False
                continue
            text = self._ask(line.pod)
            # If only numbers of nodes changed, keep the line: else a filling cluster would rewrite all its pods.
            if _shape(text) != _shape(line.text):
                line.is_current = False
                line = FilterLine(text, pod=line.pod)
            line.asked = now
            self._lines[key] = line

    def of(self, pod: Pod, text: str) -> FilterLine:
        """Return the line about a pod whose job waits because of `text`: each reason with its message."""
        if _LINE in text or not any(part.partition(":")[0] in self.codes for part in text.split("; ")):
            return NO_LINE
        key = self.key(pod.uid)
        if key is None:
            return NO_LINE
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = FilterLine(pod=pod)
            if self._tokens < 1:
                self._lines.move_to_end(key, last=False)
            else:
                line.text, line.asked = self._ask(pod), self.scheduling.clock.now()
        return line

    def _ask(self, pod: Pod) -> str:
        self._tokens -= 1
        scheduling = self.scheduling
        # The pods that the pass has bound take room there.
        scheduling.cache.update_snapshot(scheduling.snapshot)
        try:
            feasible_nodes(self.profile, CycleState(Trial(TrialKind.EXPLAIN)), pod, scheduling.snapshot.nodes)
        except FitError as error:
            return str(error)
        except PluginError:  # reported where it decides something
            pass
        return ""


def _shape(line: str) -> frozenset[str]:
    """Return the parts of a line without the numbers of nodes, by which it is sorted."""
    head, _, reasons = line.partition(": ")
    return frozenset({head, *(_COUNT.sub("", reason) for reason in reasons.rstrip(".").split(", "))})
