"""What names a group of pods: namespace, name, and the family of dialects that it is written in.

Users know a group as `namespace/name`. Two systems may use one name for two groups, though, so the family is part of
the identity. Dialects that attach pods by the same keys, or whose objects describe each other's groups, are one family:
which of them a group is in can be told from its object only.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GroupId"]


class GroupId(NamedTuple):
    """A group, in the order in which groups are shown; as text, what users call it."""

    namespace: str
    name: str
    family: str

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of_key(cls, key: str, family: str) -> GroupId:
        """Return the group that `namespace/name` means among those of a family."""
        namespace, _, name = key.partition("/")
        return cls(namespace, name, family)

    def __str__(self) -> str:
        return self.key
