"""Tests of backups of one box's state."""
