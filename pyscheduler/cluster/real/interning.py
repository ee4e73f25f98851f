"""Save memory: store equal parts of many objects once, such as the images of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import force_setattr

from pyscheduler.api import Node, Pod

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pyscheduler.api import KubeObject

__all__ = ["SharedParts"]

#: When so many parts are known, all are forgotten: tenants may write ever new ones.
_LIMIT: Final = 1 << 11
#: Longer lists are not shared, so that what is remembered stays within a few MiB.
_TOLERATIONS: Final = 4
_CONDITIONS: Final = 8
_IMAGES: Final = 64
_RUNNING: Final = "Running"


class SharedParts:
    """The parts known so far. Objects are changed in place, to parts that are equal to those they had."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Hashable, Hashable] = {}

    def __len__(self) -> int:
        return len(self._known)

    def share(self, item: KubeObject) -> None:
        """Replace parts of a running pod or a node by equal ones that are known."""
        if len(self._known) > _LIMIT:
            self._known.clear()
        if isinstance(item, Pod):
            if item.status.phase == _RUNNING:
                self._share_pod(item)
        elif isinstance(item, Node):
            images = item.status.images
            if len(images) <= _IMAGES:
                force_setattr(item.status, "images", tuple(map(self._known.setdefault, images, images)))

    def _share_pod(self, pod: Pod) -> None:
        one: Callable[[Any, Any], Any] = self._known.setdefault
        tolerations = pod.spec.tolerations
        if 0 < len(tolerations) <= _TOLERATIONS:
            force_setattr(pod.spec, "tolerations", one(tolerations, tolerations))
        for condition in pod.status.conditions[:_CONDITIONS]:
            part = condition.type
            force_setattr(condition, "type", one(part, part))
            part = condition.status
            force_setattr(condition, "status", one(part, part))
