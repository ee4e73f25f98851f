"""A scheduler plugin: `CarbonIntensity` prefers regions with clean electricity, and lets flexible pods wait for it."""
