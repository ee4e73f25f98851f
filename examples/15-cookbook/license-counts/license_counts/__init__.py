"""A scheduler plugin: `LicenseCounts` runs no more pods than there are licenses."""
