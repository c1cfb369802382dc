"""Directories that guests have by virtiofs: whose they are, and where they are in a launcher's Pod."""
