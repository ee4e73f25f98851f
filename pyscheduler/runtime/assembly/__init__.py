"""From installed Python packages to running profiles: discovery, registry, expansion of a profile, bound plugins."""
