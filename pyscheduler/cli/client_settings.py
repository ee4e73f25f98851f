"""Settings of the API client for commands that read the cluster once, while a user waits for the answer."""

from __future__ import annotations

from typing import Final

from pyscheduler.scheduler.ports import ClientSettings

__all__ = ["COMMAND_CLIENT"]

COMMAND_CLIENT: Final = ClientSettings(qps=-1, patience_seconds=30.0)
"""No rate limit. A request without an answer is given up after 30 seconds, so an error comes within a minute."""
