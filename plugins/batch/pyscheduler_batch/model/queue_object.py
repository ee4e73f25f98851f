"""The objects that describe queues.

Each value is checked when it is read, because the CRDs come from other projects and may have no validation.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pyscheduler.api import KubeObject

__all__ = ["QueueObject"]


class QueueObject(KubeObject):
    """A Queue; each served version has a type of its own."""

    kind: ClassVar[str] = "Queue"

    spec: Any = None
    status: Any = None
