"""The extension points: call the plugins of a profile and combine their answers."""
