"""The state of one box in one file: made, put back, checked."""
