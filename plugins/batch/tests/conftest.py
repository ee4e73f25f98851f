"""The fixtures of batch clusters."""

from pyscheduler_lab.testing import kai, kube_batch, volcano

__all__ = ["kai", "kube_batch", "volcano"]
