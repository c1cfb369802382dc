"""Images: their store, imports, pulls and registries."""
