"""The fixtures of batch clusters."""

from pyscheduler_lab.testing import kube_batch, volcano

__all__ = ["kube_batch", "volcano"]
