"""Golden files that several tiers read, and the cases that they belong to."""
