"""What guests use, read from the metrics of the aggregated API."""
