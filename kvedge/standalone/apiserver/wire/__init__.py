"""The bytes and words of the embedded API: decoding, errors, names, paths. Knows no kind and no store."""
