"""Schedules of backups, and errands in their repositories, as their users see them."""
