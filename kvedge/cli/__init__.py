"""The command line: the only place that prints and exits. Verbs import what they need when they run."""
