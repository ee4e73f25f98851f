"""Published experiments, repeated with this scheduler, and a comparison with the published results."""
