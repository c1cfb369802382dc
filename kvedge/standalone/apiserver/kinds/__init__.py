"""The kinds that the embedded API serves: their rows, columns, defaults and versions."""
