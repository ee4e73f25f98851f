"""Makes the alert rules and the Grafana dashboards of the chart from tables.

`python -m deploy.monitoring --write` writes `files/rules.yaml` and `files/dashboards` of the chart; a test compares
these files with the tables. `rules` has the alerts and `dashboards` has the panels. Descriptions of panels come from
`pyscheduler.telemetry.families`.
"""
