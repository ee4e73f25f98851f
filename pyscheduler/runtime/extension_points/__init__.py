"""The extension points, one module each: they call the plugins of a profile and combine their answers.

Plugins are called through `plugin_calls`, which turns a failure of a plugin into a `Status`. Does not belong here:
caching of answers (`equivalence_cache`), and the order of the extension points (`placement`).
"""
