"""The embedded API: Kubernetes' REST semantics over SQLite."""
