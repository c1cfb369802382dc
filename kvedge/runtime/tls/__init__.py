"""Certificates and TLS contexts, which may be replaced while they are used."""
