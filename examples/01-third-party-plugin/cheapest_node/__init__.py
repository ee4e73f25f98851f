"""A scheduler plugin in a package of its own. `CheapestNode` is its name in a profile."""
