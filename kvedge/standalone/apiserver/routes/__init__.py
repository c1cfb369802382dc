"""What each path of the embedded API does."""
