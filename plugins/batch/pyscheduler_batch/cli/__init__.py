"""The commands of this distribution: `queue` and `binder`."""
