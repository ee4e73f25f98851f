"""Published experiments, repeated with this scheduler, and the published results beside ours."""
