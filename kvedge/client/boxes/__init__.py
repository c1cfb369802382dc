"""Two boxes that know nothing of each other: a VM moves from one to the other, by its user's rights on both."""
