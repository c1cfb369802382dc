"""Disks that a guest uses while they come back from a backup."""
