"""Virtual time for tests: the clock of simulations under its public name."""

from __future__ import annotations

from pyscheduler.simulation.virtual_time import VirtualClock, settle

__all__ = ["VirtualClock", "settle"]
