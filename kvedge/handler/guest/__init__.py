"""The guests of this node: their network, their state, their end."""
