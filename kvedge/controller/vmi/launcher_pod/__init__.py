"""The launcher's Pod: what it holds, and what it asks of its node."""
