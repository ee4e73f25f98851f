"""Metrics (recorded with OpenTelemetry and exported for Prometheus) and log lines.

Other packages report measurements and warnings through `framework.recorder.Recorder`.
"""
