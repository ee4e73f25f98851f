"""The identity of a pod group: its namespace, its name, and the system that describes it.

Related systems, such as kube-batch and Volcano, count as one system: a family.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GroupId"]


class GroupId(NamedTuple):
    """The identity of a group; sorted, groups are in the order in which they are shown."""

    namespace: str
    name: str
    family: str

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of_key(cls, key: str, family: str) -> GroupId:
        """Return the group `namespace/name` of a family."""
        namespace, _, name = key.partition("/")
        return cls(namespace, name, family)

    def __str__(self) -> str:
        return self.key
