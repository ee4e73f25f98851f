"""The objects that describe queues.

Their CRDs come from other projects and may have no validation. So `spec` and `status` are kept as they were decoded,
and each value is checked when it is read.
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
