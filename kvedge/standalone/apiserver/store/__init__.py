"""The objects on disk, in memory, and their copies."""
