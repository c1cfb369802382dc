"""Serving HTTPS and websockets within bounds."""
