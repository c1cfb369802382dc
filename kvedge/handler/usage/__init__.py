"""What guests of this node have used over time."""
