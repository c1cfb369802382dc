"""What is wrong with settings: rules that look at their text alone."""
