"""Verbs for this program itself."""
