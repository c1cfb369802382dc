"""CustomResourceDefinitions: their rules, their shape, their status."""
