"""A guest that moves to another node while it runs: the launcher that it leaves, and the one that it comes to."""
