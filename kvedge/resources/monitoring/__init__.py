"""What Prometheus and Grafana get to make of the metrics: rules, alerts, dashboards."""
