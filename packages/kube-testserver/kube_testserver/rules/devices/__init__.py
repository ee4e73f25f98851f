"""The rules of `resource.k8s.io/v1`: defaults and validation of slices, classes, claims and claim templates."""
