"""The fixtures of batch clusters."""

from pyscheduler_lab.testing import kai

__all__ = ["kai"]
