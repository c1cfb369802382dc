"""The kinds that kvedge reads and writes, as types, and the CRDs made from them."""
