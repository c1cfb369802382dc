"""Calls of the kernel and the C library that Python 3.11 does not have, one file by subject: the one home of ctypes.

Standard library only and nothing of kvedge but this folder, as the launcher and the container starter import it too,
and pay for each module in memory. The numbers are the same on amd64 and arm64 unless a table says otherwise.
"""
