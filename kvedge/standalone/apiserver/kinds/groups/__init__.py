"""The built-in kinds: a module for each API group or part of the core group, a row for each kind."""
