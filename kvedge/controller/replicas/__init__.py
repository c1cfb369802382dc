"""ReplicaSets: a number of VMIs of one template."""
