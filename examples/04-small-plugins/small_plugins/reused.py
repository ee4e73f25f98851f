"""HeadroomReused: the filter of `headroom.py`, with results that the scheduler may reuse for equal pods."""

from collections.abc import Sequence

from pyscheduler import CPU, Pod, Reuse, SignFragment, SignPlugin
from pyscheduler.api import pod_requests
from small_plugins.headroom import Headroom


class HeadroomReused(Headroom, SignPlugin):
    """Headroom, with what the scheduler must know to reuse its answers."""

    reuse = Reuse.WHILE_AMOUNTS_STAY

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return [SignFragment("HeadroomReused/cpu", pod_requests(pod).get(CPU, 0))]
