"""A scheduler plugin: `GpuFragmentation` places pods so that free GPUs stay usable."""
