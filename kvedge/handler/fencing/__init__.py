"""This node fences itself: it ends guests that may be started elsewhere when it cannot reach its API."""
