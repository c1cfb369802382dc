"""What may enter of snapshots and restores."""
