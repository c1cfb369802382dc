"""Verbs for this host: its roles, its installation, its state."""
