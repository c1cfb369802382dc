"""Callers and their rights: certificates, tokens, roles and bindings."""
