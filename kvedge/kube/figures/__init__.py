"""What a process of roles counts of itself: its queues, its calls to the API server, what it uses of its host."""
