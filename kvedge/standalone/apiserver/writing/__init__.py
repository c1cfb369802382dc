"""The write and delete paths of objects."""
