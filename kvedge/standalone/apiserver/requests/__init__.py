"""One request: its target, its body, its context; lists, watches and the form of answers."""
