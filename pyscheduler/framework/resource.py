"""Amounts of resources as integers: CPU in thousandths of a core, memory and ephemeral storage in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import is_scalar_resource

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CPU", "EPHEMERAL_STORAGE", "MEMORY", "PODS", "Resource"]

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"


@attrs.define
class Resource:
    """A bundle of amounts that can be added up; mutable, owned by whoever made it.

    `milli_cpu` in m, `memory` and `ephemeral_storage` in bytes, `scalars` in units of the extended resource.
    """

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    allowed_pods: int = 0
    scalars: dict[str, int] = attrs.Factory(dict)

    @classmethod
    def from_amounts(cls, amounts: Mapping[str, int]) -> Resource:
        """Make one from integers by resource name (`cpu` in m); the counterpart of `api.pod_requests`.

        A resource that the scheduler does not count (see `api.is_scalar_resource`) is left out.
        """
        resource = cls()
        for name, amount in amounts.items():
            if name == CPU:
                resource.milli_cpu = amount
            elif name == MEMORY:
                resource.memory = amount
            elif name == EPHEMERAL_STORAGE:
                resource.ephemeral_storage = amount
            elif name == PODS:
                resource.allowed_pods = amount
            elif is_scalar_resource(name):
                resource.scalars[name] = amount
        return resource

    def get(self, name: str) -> int:
        """Return the amount of the resource called `name`; 0 when there is none."""
        if name == CPU:
            return self.milli_cpu
        if name == MEMORY:
            return self.memory
        if name == EPHEMERAL_STORAGE:
            return self.ephemeral_storage
        if name == PODS:
            return self.allowed_pods
        return self.scalars.get(name, 0)

    def add(self, other: Resource, sign: int = 1) -> None:
        """Add `other` (or take it away with `sign=-1`); `allowed_pods` is a limit and stays."""
        self.milli_cpu += sign * other.milli_cpu
        self.memory += sign * other.memory
        self.ephemeral_storage += sign * other.ephemeral_storage
        if not other.scalars:
            return
        for name, amount in other.scalars.items():
            self.scalars[name] = self.scalars.get(name, 0) + sign * amount

    def become(self, other: Resource) -> None:
        """Take over the amounts of `other`."""
        self.milli_cpu = other.milli_cpu
        self.memory = other.memory
        self.ephemeral_storage = other.ephemeral_storage
        self.allowed_pods = other.allowed_pods
        if self.scalars or other.scalars:
            self.scalars = other.scalars.copy()

    def clone(self) -> Resource:
        """Return an independent copy."""
        return Resource(self.milli_cpu, self.memory, self.ephemeral_storage, self.allowed_pods, self.scalars.copy())
