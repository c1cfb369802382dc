"""Uploads into claims: tokens for them, and the proxy that leads data to the worker of a claim."""
