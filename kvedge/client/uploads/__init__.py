"""Uploads of images into claims: objects, tokens, and the stream that goes on after it broke."""
