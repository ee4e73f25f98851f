"""A scheduler plugin in a package of its own. Profiles enable it as `CheapestNode`."""
