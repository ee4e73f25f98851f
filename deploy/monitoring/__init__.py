"""Make the alert rules and the Grafana dashboards of the Helm chart from the tables in `rules` and `dashboards`.

`python -m deploy.monitoring --write` writes them into the folder `files` of the chart.
"""
