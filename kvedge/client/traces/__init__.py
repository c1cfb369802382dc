"""The start of one VM, step by step: read from what the roles wrote, and drawn."""
