"""The identity of a group: namespace, name, and a family of dialects.

A dialect is one system's way to describe a group. Two systems may use one name for two groups, so the family is part of
the identity. Dialects that describe the same groups are one family.
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
