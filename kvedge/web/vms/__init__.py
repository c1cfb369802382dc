"""One VM in the console: shown, made, changed, and what is done to it."""
