"""A policy that was learned in an environment of the lab, as a Score plugin."""
