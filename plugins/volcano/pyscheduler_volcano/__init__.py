"""Volcano's actions and plugins, for the plugin `Batch`. An action is a step of a scheduling round."""
