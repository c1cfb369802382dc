"""The web console: pages and streams for a person, by that person's own rights at the API server."""
