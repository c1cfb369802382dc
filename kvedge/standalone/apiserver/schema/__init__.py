"""Schemas and what follows from them: constraints, defaults, fields and their owners, selectors."""
