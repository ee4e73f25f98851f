"""A pod group's claim to the quotas of its namespace: the amounts needed and the amounts granted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import msgspec

from pyscheduler_quota.quotas import Amounts, PodTraits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler.api import KubeObject, RawQuantity
    from pyscheduler.podgroup.identity import GroupId
    from pyscheduler.podgroup.membership import GroupState

__all__ = [
    "RESERVED",
    "Claim",
    "Shortfall",
    "amount_text",
    "annotation_of",
    "phase_of",
    "reserved_by",
    "shortfall_text",
]

RESERVED: Final = "pyscheduler.io/reserved-resources"
"""The annotation of a group's object: a JSON map of the reserved amounts; `{}` once the reservation has ended."""

_NANO: Final = 10**9
_NANOS_PER_MILLI: Final = 10**6
_KIBI: Final = 1024
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@attrs.frozen
class Shortfall:
    """A resource of a quota that has no room for a group; amounts in billionths of a unit."""

    quota: str
    resource: str
    needed: int
    hard: int
    used: int
    #: What other groups reserve.
    reserved: int


@attrs.define(eq=False, kw_only=True)
class Claim:
    """The amounts that a group needs of the quotas of its namespace, and the amounts granted."""

    state: GroupState
    #: What its object declares, in the form of the annotation.
    said: Mapping[str, RawQuantity]
    total: Amounts
    #: What is granted, in the form of the annotation; None before the first grant, empty after the end.
    granted: Mapping[str, RawQuantity] | None = None
    reserved: Amounts = attrs.Factory(dict)
    #: Whether the members are counted; without quotas they are not.
    is_counted: bool = False
    #: By uid of a member, what it draws of `total`; and the sum.
    drawn_by: dict[str, Amounts] = attrs.Factory(dict)
    drawn: dict[str, int] = attrs.Factory(dict)
    #: Why it is not granted, as of the last decision.
    shortfalls: tuple[Shortfall, ...] = ()
    #: Whether there was a decision since its amounts are known.
    is_decided: bool = False
    _outstanding: dict[str, int] | None = None

    @property
    def id(self) -> GroupId:
        """Return the identity of the group."""
        return self.state.id

    @property
    def has_ended(self) -> bool:
        """Return whether the reservation has ended."""
        return self.granted is not None and not self.granted

    def demand(self, names: Iterable[str]) -> dict[str, int]:
        """Return what the members that do not exist yet need of resources with these names.

        A group may declare thousands of resources; a quota limits a few.
        """
        total, drawn = self.total, self.drawn
        return {name: left for name in names if name in total and (left := total[name] - drawn.get(name, 0)) > 0}

    def outstanding(self) -> dict[str, int]:
        """Return what is reserved for members that do not exist yet; not to be changed."""
        if self._outstanding is None:
            self._outstanding = _left(self.reserved, self.drawn)
        return self._outstanding

    def traits(self) -> PodTraits:
        """Return the traits of a member; before there is one, those of a pod that requests what the group declares."""
        member = next(self.state.children(), None)
        if member is not None:
            return PodTraits.of(member)
        spec = getattr(self.state.object, "spec", None)
        name = getattr(spec, "priority_class_name", None)
        return PodTraits(
            is_best_effort=not any(each in self.total for each in ("requests.cpu", "requests.memory")),
            priority_class=name if isinstance(name, str) else "",
        )

    @property
    def is_held(self) -> bool:
        """Return whether members must wait: there is no room, and none of them has a node or has had one."""
        state = self.state
        started = state.bound or state.waiting or state.succeeded
        return bool(self.shortfalls) and self.granted is None and not started

    def grant(self) -> None:
        """Reserve what the group declares."""
        self.reserve(self.said, self.total)

    def end(self) -> None:
        """Give back the reservation."""
        self.reserve({}, {})

    def reserve(self, granted: Mapping[str, RawQuantity] | None, reserved: Amounts) -> None:
        """Reserve these amounts, in the form of the annotation and in that of quotas; None for no grant."""
        self.granted, self.reserved, self.shortfalls = granted, reserved, ()
        self._outstanding = None

    def draw(self, uid: str, draws: Amounts) -> bool:
        """Record what a member draws; return whether that changed."""
        known = self.drawn_by.get(uid, {})
        if draws == known:
            return False
        for name, nanos in known.items():
            self.drawn[name] -= nanos
        for name, nanos in draws.items():
            self.drawn[name] = self.drawn.get(name, 0) + nanos
        if draws:
            self.drawn_by[uid] = draws
        else:
            del self.drawn_by[uid]
        self._outstanding = None
        return True


def _left(total: Amounts, drawn: Amounts) -> dict[str, int]:
    return {name: left for name, nanos in total.items() if (left := nanos - drawn.get(name, 0)) > 0}


def reserved_by(item: KubeObject) -> Mapping[str, RawQuantity] | None:
    """Return the amounts in the annotation of a group's object; None if it has none that can be read."""
    text = item.annotations.get(RESERVED)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, str | int | float])
    except (msgspec.DecodeError, RecursionError):
        return None


def phase_of(item: KubeObject | None) -> str:
    """Return the phase in the status of a group's object; "" if it has none."""
    phase = getattr(getattr(item, "status", None), "phase", "")
    return phase if isinstance(phase, str) else ""


def annotation_of(claim: Claim) -> str | None:
    """Return the value that the annotation should have; None for no annotation."""
    return None if claim.granted is None else msgspec.json.encode(dict(sorted(claim.granted.items()))).decode()


def shortfall_text(shortfalls: Sequence[Shortfall]) -> str:
    """Return for users which quotas have no room for a group, and why."""
    parts = []
    for each in shortfalls:
        name = each.resource
        numbers = [f"limit {amount_text(name, each.hard)}", f"used {amount_text(name, each.used)}"]
        if each.reserved:
            numbers.append(f"reserved by other groups {amount_text(name, each.reserved)}")
        parts.append(f"{each.quota} lacks {name}: needed {amount_text(name, each.needed)}, {', '.join(numbers)}")
    return f"insufficient quota for the whole group: {'; '.join(parts)}"


def amount_text(resource: str, nanos: int) -> str:
    """Return billionths of a unit as a quantity; memory and storage with a binary suffix."""
    is_bytes = resource.rpartition(".")[2] in {"memory", "ephemeral-storage"}
    units, rest = divmod(nanos, _NANO)
    if rest:
        return f"{-(-nanos // _NANOS_PER_MILLI)}m"
    suffix = 0
    while is_bytes and units and units % _KIBI == 0 and suffix < len(_BINARY) - 1:
        units, suffix = units // _KIBI, suffix + 1
    return f"{units}{_BINARY[suffix]}"
