"""The types of the built-in kinds, as schemas."""
