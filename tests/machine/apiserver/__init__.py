"""The embedded API on real, bad disks."""
