"""From installed distributions to running profiles: discovery, registry, expansion of a profile, bound plugins."""
