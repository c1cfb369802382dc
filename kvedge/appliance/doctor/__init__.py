"""`kvedge doctor`: the facts of this host, and rules that judge them."""
