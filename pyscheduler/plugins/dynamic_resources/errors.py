"""The errors of the device allocator: bad claims, device classes or ResourceSlices, and timeouts."""

from __future__ import annotations

from pyscheduler.api import PySchedulerError

__all__ = ["AllocationError", "AllocationTimeoutError", "NodeAllocationError", "SignatureError"]


class AllocationError(PySchedulerError):
    """Report that something is wrong with a claim, a class or a slice; another node would not help."""


class NodeAllocationError(AllocationError):
    """Report that something is wrong with what one node offers; another node may do."""


class SignatureError(AllocationError):
    """Report an error that is the same on all nodes with the same signature."""


class AllocationTimeoutError(AllocationError):
    """Report that the search took longer than it was given."""
