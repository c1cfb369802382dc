"""Disks of the running guest, copied as they all were at one moment."""
