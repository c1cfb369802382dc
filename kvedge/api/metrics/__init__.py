"""What guests use and how they are, as Prometheus reads it."""
