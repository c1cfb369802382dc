"""Evictions of launchers: guests that can move are marked to leave their node, instead of being shut down."""
