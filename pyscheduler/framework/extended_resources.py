"""Map extended resources to the device classes (DRA) that provide them, for the plugins of one profile.

A class provides the resource that it names in `spec.extendedResourceName`, and the resource that is named after the
class (`deviceclass.resource.kubernetes.io/<name>`).

Differs from kube-scheduler in some cases: see `docs/reference/parity.md`.

Source: kube-scheduler 1.36, `deviceclass/extendedresourcecache`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_objects.times import seconds_of
from pyscheduler.api import is_extended_resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler.api import DeviceClass, Pod
    from pyscheduler.framework.handle import Handle
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.watches import Lister

    CountDevices: TypeAlias = Callable[[DeviceClass, Nodes], tuple[NDArray[np.int64], NDArray[np.int64]]]

__all__ = ["ExtendedResources", "can_be_backed", "implicit_resource"]

_GATE: Final = "DRAExtendedResource"
_PREFIX: Final = "deviceclass.resource.kubernetes.io/"


class ExtendedResources:
    """The device classes of a cluster by extended resource; empty until `follow` is called."""

    __slots__ = ("_by_resource", "_classes", "_count")

    def __init__(self) -> None:
        self._classes: Lister[DeviceClass] | None = None
        self._count: CountDevices | None = None
        #: None where a class has changed since it was made.
        self._by_resource: dict[str, DeviceClass] | None = {}

    @classmethod
    def of(cls, handle: Handle | None) -> ExtendedResources:
        """Return what the plugins of the handle's profile share."""
        if handle is None or not handle.feature_gates.get(_GATE, False):
            return cls()
        return handle.shared(f"pyscheduler/extended-resources/{handle.profile_name}", cls)

    def follow(self, classes: Lister[DeviceClass], count: CountDevices) -> None:
        """Look at these classes from now on.

        `count` returns, for a class and n nodes, int64[n] of how many devices of the class each node reaches, and
        int64[n] of how many of these are allocated.
        """
        self._classes, self._count = classes, count
        self._outdate()
        classes.add_event_handler(on_add=self._outdate, on_update=self._outdate, on_delete=self._outdate)

    def class_of(self, resource: str) -> DeviceClass | None:
        """Return the class that stands for a resource, None where there is none."""
        return self._current().get(resource)

    def wanted(self, amounts: Mapping[str, int]) -> list[str]:
        """Return the resources of which `amounts` has some and for which a class stands, sorted by name."""
        by_resource = self._current()
        return sorted(name for name, amount in amounts.items() if amount and name in by_resource) if by_resource else []

    def concern(self, pod: Pod) -> bool:
        """Return True if a container of the pod names a resource for which a class stands; cheaper than `wanted`."""
        by_resource = self._current()
        if not by_resource:
            return False
        spec = pod.spec
        return any(
            name in by_resource
            for amounts in (
                *(container.resources.requests for container in (*spec.containers, *spec.init_containers)),
                spec.overhead,
            )
            for name in amounts
        )

    def count(self, device_class: DeviceClass, nodes: Nodes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return int64[n] twice: devices of a class that each node reaches, and those of them that are allocated."""
        assert self._count is not None, "a class was found, so `follow` was called"
        return self._count(device_class, nodes)

    def _outdate(self, *_: DeviceClass) -> None:
        self._by_resource = None

    def _current(self) -> Mapping[str, DeviceClass]:
        if self._by_resource is None:
            self._by_resource = _by_resource(self._classes or ())
        return self._by_resource


def implicit_resource(device_class: DeviceClass) -> str:
    """Return the resource that is named after a class."""
    return _PREFIX + device_class.name


def can_be_backed(resource: str) -> bool:
    """Return True if a device class may stand for a resource of this name."""
    return is_extended_resource(resource) or resource.startswith(_PREFIX)


def _by_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Return the classes by resource; of several for one, the newest, and of equally old ones the first by name."""
    found: dict[str, DeviceClass] = {}
    for each in sorted(classes, key=lambda each: (-_created(each), each.name), reverse=True):
        found[implicit_resource(each)] = each
        resource = each.spec.extended_resource_name
        if resource and is_extended_resource(resource):
            found[resource] = each
    return found


def _created(device_class: DeviceClass) -> float:
    return seconds_of(device_class.metadata.creation_timestamp)
