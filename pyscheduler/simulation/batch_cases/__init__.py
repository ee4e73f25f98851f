"""Recorded sessions of batch schedulers, run through the sessions of this project."""
