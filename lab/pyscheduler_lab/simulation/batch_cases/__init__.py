"""Repeat decisions of other batch schedulers, from cases that were recorded or written by hand."""
