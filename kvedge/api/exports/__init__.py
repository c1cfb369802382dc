"""Exports from outside: the proxy that leads clients with a token to the exporter of an export."""
