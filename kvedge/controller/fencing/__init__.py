"""Nodes that fence themselves: which silence is a proof, and of which guests."""
