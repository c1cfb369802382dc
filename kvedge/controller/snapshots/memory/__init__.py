"""The guest's memory in a snapshot: which guests it can be saved of, its claim, and how it is put back."""
