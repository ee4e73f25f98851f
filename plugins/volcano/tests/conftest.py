"""The fixtures of batch clusters."""

from plugins.batch.tests.conftest import kube_batch, volcano

__all__ = ["kube_batch", "volcano"]
