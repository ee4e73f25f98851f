"""The extension points: call the plugins of a profile and combine their answers.

The package `equivalence_cache` caches the answers. The module `placement` calls the extension points in order.
"""
