"""Tests of exports as their users see them."""
