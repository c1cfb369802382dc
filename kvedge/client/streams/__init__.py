"""Streams to guests, and what is led through them."""
