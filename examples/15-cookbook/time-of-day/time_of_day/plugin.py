"""TimeOfDay: a pod with a class starts only within the hours of this class. The args name the time zone."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import attrs

from pyscheduler import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    Nodes,
    Pod,
    PreFilterPlugin,
    QueueingHint,
    SignFragment,
    SignPlugin,
    Status,
)
from pyscheduler.framework.plugin_args import wire

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _check_time(_args: object, _attribute: object, text: str) -> None:
    try:
        time.fromisoformat(text)
    except ValueError:
        raise ValueError(f'"{text}" is no time of day; write it like "22:00"') from None


def _check_days(_args: object, _attribute: object, days: Sequence[str]) -> None:
    for day in days:
        if day not in DAYS:
            raise ValueError(f'days: "{day}" is none of {", ".join(DAYS)}')


def _check_zone(_args: object, _attribute: object, name: str) -> None:
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # an unknown key is one of them
        raise ValueError(f'timeZone: "{name}" is no time zone; write it like "Europe/Berlin"') from None


@attrs.frozen(kw_only=True)
class Hours:
    """From one time of day to another, which may be on the next day; on some days of the week, or on all."""

    begin: str = attrs.field(validator=_check_time, metadata=wire(key="from"))
    end: str = attrs.field(validator=_check_time, metadata=wire(key="to"))
    days: tuple[str, ...] = attrs.field(default=DAYS, validator=_check_days)


@attrs.frozen(kw_only=True)
class TimeOfDayArgs:
    """The hours of each class, and the pod label that names a class."""

    classes: Mapping[str, tuple[Hours, ...]]
    time_zone: str = attrs.field(default="UTC", validator=_check_zone)
    label: str = attrs.field(default="example.com/hours", validator=attrs.validators.min_len(1))


class TimeOfDay(PreFilterPlugin, EnqueueExtensions, SignPlugin):
    """Reject pods outside of their hours, and retry them when the hours begin. Running pods are left alone."""

    # No `reuse`: the answer depends on the time. One comparison for each pod is cheap, and the other plugins keep
    # their cache because this one signs pods.
    args_type = TimeOfDayArgs
    args: TimeOfDayArgs

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        name = pod.labels.get(self.args.label)
        if name is None:
            return None
        hours = self.args.classes.get(name)
        if hours is None:
            return Status.unresolvable(f'the pod names an unknown class of hours, "{name}"')
        wait = seconds_until_open(hours, self.handle.clock.wall(), ZoneInfo(self.args.time_zone))
        if wait == 0:
            return None
        return Status.unresolvable(f'it is not the time for pods of class "{name}"', retry_after=wait)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # Besides the time, only another class helps.
        relabeled = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)
        return [ClusterEventWithHint(relabeled, self.after_relabeling)]

    def after_relabeling(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Retry if the pod itself has other labels."""
        return QueueingHint.QUEUE if isinstance(new, Pod) and new.uid == pod.uid else QueueingHint.SKIP

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (SignFragment("TimeOfDay/class", pod.labels.get(self.args.label)),)


def seconds_until_open(hours: Sequence[Hours], now: float, zone: ZoneInfo) -> float | None:
    """Return the seconds until the hours begin: 0 within them, None if they never begin."""
    today = datetime.fromtimestamp(now, zone).date()
    begins = []
    for each in hours:
        begin, end = time.fromisoformat(each.begin), time.fromisoformat(each.end)
        # From yesterday, whose hours may not be over, to the same day next week.
        for offset in range(-1, 8):
            day = today + timedelta(days=offset)
            if DAYS[day.weekday()] not in each.days:
                continue
            last_day = day if begin < end else day + timedelta(days=1)
            opens = datetime.combine(day, begin, zone).astimezone(UTC).timestamp()
            closes = datetime.combine(last_day, end, zone).astimezone(UTC).timestamp()
            if opens <= now < closes:
                return 0.0
            if opens > now:
                begins.append(opens - now)
                break
    return min(begins, default=None)
