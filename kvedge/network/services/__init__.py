"""The service network of one box: what leads packets for a Service's address to its endpoints."""
