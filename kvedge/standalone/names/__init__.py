"""Names of one box: what guests ask for, and who answers them."""
