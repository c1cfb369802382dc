"""Presets: parts of a domain that VMIs get by their labels when they are made."""
