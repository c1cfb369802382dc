"""Disks that go into a repository of backups and come back, by restic of the host."""
