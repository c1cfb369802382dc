"""The console on a box: a port of its own, and users who sign in with a token."""
