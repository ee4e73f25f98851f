"""Build profiles from the plugins of the installed Python packages."""
