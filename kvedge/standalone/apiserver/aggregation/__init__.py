"""Requests that another API server answers."""
