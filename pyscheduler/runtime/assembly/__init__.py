"""Build profiles from installed Python packages: find, register, order and create plugins, and bind their methods."""
