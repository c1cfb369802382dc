"""Kubernetes for one box: object store, API server, node agent."""
