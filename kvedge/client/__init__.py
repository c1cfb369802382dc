"""A client of KubeVirt's API for tools that people use: the command line, a console, tests.

It neither prints nor exits: its errors say what they mean, and lines for people are handed out.
"""
