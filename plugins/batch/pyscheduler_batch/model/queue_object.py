"""`QueueObject`: the Python type for objects of kind Queue."""

from __future__ import annotations

from typing import Any, ClassVar

from pyscheduler.api import KubeObject

__all__ = ["QueueObject"]


class QueueObject(KubeObject):
    """A Queue; each served version has a type of its own."""

    kind: ClassVar[str] = "Queue"

    spec: Any = None
    status: Any = None
