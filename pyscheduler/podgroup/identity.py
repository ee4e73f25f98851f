"""The identity of a group: namespace, name, and the family of systems that describe it.

Two systems, such as Koordinator and Volcano, may use one name for two different groups. Systems that share their
groups are one family.
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
