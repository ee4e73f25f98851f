"""The fixtures of batch clusters."""

from plugins.batch.tests.conftest import kai

__all__ = ["kai"]
