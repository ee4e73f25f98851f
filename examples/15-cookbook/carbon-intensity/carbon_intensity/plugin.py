"""CarbonIntensity: prefer regions with clean electricity, and let flexible pods wait for it."""

from collections.abc import Sequence
from math import inf
from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from pyscheduler import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    Node,
    Nodes,
    NodeStatuses,
    Pod,
    PreFilterPlugin,
    QueueingHint,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    Status,
)
from pyscheduler.api import DecodeError, KubeObject, Wire, kind_of, parse_time
from pyscheduler.framework import event_resource
from pyscheduler.framework.plugin_args import Duration
from pyscheduler.framework.scoring import default_normalize


class RegionIntensitySpec(Wire):
    """Grams of CO2 per kilowatt-hour, and until when this is known, as RFC 3339; "" is for ever."""

    grams_per_kilowatt_hour: float = 0.0
    valid_until: str = ""


class RegionIntensity(KubeObject):
    """The carbon intensity of a region; its name is that of the region."""

    api_version: ClassVar[str] = "example.com/v1"
    kind: ClassVar[str] = "RegionIntensity"

    spec: RegionIntensitySpec = RegionIntensitySpec()


INTENSITIES: Final = kind_of(RegionIntensity, "regionintensities", namespaced=False)


@attrs.frozen(kw_only=True)
class CarbonIntensityArgs:
    """Labels of regions and of flexible pods; the limit for flexible pods, and how long they wait at most."""

    region_label: str = attrs.field(default="topology.kubernetes.io/region", validator=attrs.validators.min_len(1))
    flexible_label: str = attrs.field(default="example.com/carbon-flexible", validator=attrs.validators.min_len(1))
    limit_grams: float = attrs.field(default=200.0, validator=[attrs.validators.ge(0), attrs.validators.le(100_000)])
    max_delay_seconds: Duration = attrs.field(default=6 * 3600.0, validator=attrs.validators.ge(0))
    unknown_grams: float = attrs.field(default=500.0, validator=[attrs.validators.ge(0), attrs.validators.le(100_000)])


class CarbonIntensity(PreFilterPlugin, FilterPlugin, ScorePlugin, EnqueueExtensions, SignPlugin):
    """Score regions by their carbon intensity; reject flexible pods in regions above the limit, for some time.

    A region without a current value never holds a pod: stale data must not stop the cluster.
    """

    # No `reuse`: filter and score depend on the time and on objects of another kind.
    args_type = CarbonIntensityArgs
    args: CarbonIntensityArgs
    watches = (INTENSITIES,)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return None if self.seconds_left(pod) > 0 else Status.skip()

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        now = self.handle.clock.wall()
        regions = nodes.labels(self.args.region_label)
        known = [self.intensity(region, now) for region in regions.values]
        over = np.array([each is not None and each[0] > self.args.limit_grams for each in known])[regions.ids]
        if not over.any():
            return None
        expiries = np.array([inf if each is None else each[1] for each in known])[regions.ids]
        # Without an event, the answer changes when the pod has waited for long enough, or when a value expires.
        wait = min(self.seconds_left(pod), float(expiries[over].min()) - now)
        return NodeStatuses.failing(
            over, Status.unresolvable("node(s) were in a region with too much carbon dioxide", retry_after=wait)
        )

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        now = self.handle.clock.wall()
        regions = nodes.labels(self.args.region_label)
        grams = [(self.intensity(region, now) or (self.args.unknown_grams,))[0] for region in regions.values]
        return np.asarray(np.rint(np.array(grams) * 1000)[regions.ids], dtype=np.int64)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> None:
        default_normalize(scores, reverse=True)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # A value above the limit is worth an attempt, too: it may expire before those that the pod waits for.
        changed = ClusterEvent(event_resource(INTENSITIES), ActionType.ADD | ActionType.UPDATE | ActionType.DELETE)
        moved = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        relabeled = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)
        return [
            ClusterEventWithHint(changed),
            ClusterEventWithHint(moved, self.after_node_change),
            ClusterEventWithHint(relabeled, self.after_relabeling),
        ]

    def after_node_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Retry unless a node stays in its region."""
        key = self.args.region_label
        if isinstance(old, Node) and isinstance(new, Node) and old.labels.get(key) == new.labels.get(key):
            return QueueingHint.SKIP
        return QueueingHint.QUEUE

    def after_relabeling(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Retry if the pod itself has other labels: it may not be flexible any more."""
        return QueueingHint.QUEUE if isinstance(new, Pod) and new.uid == pod.uid else QueueingHint.SKIP

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        # Flexible pods of one template were created at different times, and stop waiting at different times.
        created = pod.metadata.creation_timestamp if self.is_flexible(pod) else None
        return (SignFragment("CarbonIntensity/flexible", created),)

    def is_flexible(self, pod: Pod) -> bool:
        """Return True if the pod may wait."""
        return pod.labels.get(self.args.flexible_label) == "true"

    def seconds_left(self, pod: Pod) -> float:
        """Return for how long the pod may still wait, in seconds; 0 or less if it may not."""
        if not self.is_flexible(pod):
            return 0.0
        return moment(pod.metadata.creation_timestamp) + self.args.max_delay_seconds - self.handle.clock.wall()

    def intensity(self, region: str | None, now: float) -> tuple[float, float] | None:
        """Return the grams of a region, and when they expire; None if they are unknown or have expired."""
        found = self.handle.lister(RegionIntensity).get(region) if region else None
        if found is None:
            return None
        expires = moment(found.spec.valid_until)
        return (found.spec.grams_per_kilowatt_hour, expires) if now < expires else None


def moment(text: str | None) -> float:
    """Return a time of the API in seconds since the epoch; infinity if there is none, 0 if it cannot be read."""
    try:
        return parse_time(text) if text else inf
    except DecodeError:
        return 0.0
