"""The table of a conformance run: by file, how many specs passed, failed and were skipped, and why those failed.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.suite import SpecResult

_NAME_WIDTH = 110


def by_file(results: Iterable[SpecResult]) -> dict[str, list[SpecResult]]:
    """The results of each file, in its order."""
    files: dict[str, list[SpecResult]] = {}
    for result in sorted(results, key=lambda result: (result.file, result.line)):
        files.setdefault(result.file, []).append(result)
    return files


def counts(results: Iterable[SpecResult]) -> tuple[int, int, int]:
    """How many passed, failed and were skipped."""
    found = list(results)
    failed = sum(result.is_failed for result in found)
    passed = sum(result.state == "passed" for result in found)
    return passed, failed, len(found) - passed - failed


def render(results: Iterable[SpecResult]) -> str:
    """The whole table, with a line for all files at its end."""
    files = by_file(results)
    width = max([len(file) for file in files] + [5])
    lines = [f"{'file':{width}}  passed  failed  skipped"]
    everything = [result for of_one in files.values() for result in of_one]
    for file, found in [*files.items(), ("all", everything)]:
        passed, failed, skipped = counts(found)
        lines.append(f"{file:{width}}  {passed:6}  {failed:6}  {skipped:7}")
        if file in files:
            for result in found:
                if result.is_failed:
                    lines.append(f"    {result.line}: {result.name[-_NAME_WIDTH:]}")
                    lines.append(f"        {result.state}: {result.failure}")
    return "\n".join(lines)
