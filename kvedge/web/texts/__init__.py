"""Texts that users and guests wrote: shown, read as YAML, compared."""
