"""The launchers of this node: their sockets, their words, and the relay to them."""
