"""Make the alert rules and the Grafana dashboards of the Helm chart from the tables in `rules` and `dashboards`.

`python -m deploy.monitoring --write` writes rules and dashboards into the folder `files` of the chart.
"""
