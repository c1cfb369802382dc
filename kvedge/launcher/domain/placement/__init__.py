"""Guests that have CPUs of the node for themselves: which one each thread runs on, and their memory beside them."""
