"""The rules of admission, one file for each part of a VMI."""
