"""Hypothesis strategies for JSON documents, with few keys so that documents and patches meet."""

from __future__ import annotations

from hypothesis import strategies as st

KEYS = st.sampled_from(["a", "b", "c", "a/b", "m~n"])
SCALARS = st.one_of(st.booleans(), st.integers(-3, 3), st.text(alphabet="xyz", max_size=3))
VALUES = st.recursive(
    SCALARS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
