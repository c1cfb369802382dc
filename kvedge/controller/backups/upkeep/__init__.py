"""Backups by schedules, and errands in their repositories: old ones go, and what is kept is read back."""
