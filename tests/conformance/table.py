"""The table of a conformance run: by file, how many specs passed, failed and were skipped, and why those failed.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.conformance.known_specs import Place, waits_for
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


def unexpected(results: Iterable[SpecResult], place: Place) -> list[SpecResult]:
    """What failed although it waits for nothing."""
    return [result for result in results if result.is_failed and not waits_for(result.name, place)]


def render(results: Iterable[SpecResult], place: Place) -> str:
    """The whole table, with a line for all files at its end."""
    files = by_file(results)
    everything = [result for of_one in files.values() for result in of_one]
    width = max([len(file) for file in files] + [5])
    lines = [f"{'file':{width}}  passed  failed  skipped"]
    for file, found in [*files.items(), ("all", everything)]:
        passed, failed, skipped = counts(found)
        lines.append(f"{file:{width}}  {passed:6}  {failed:6}  {skipped:7}")
        if file in files:
            lines += [line for result in found for line in _reasons(result, place)]
    return "\n".join(lines)


def _reasons(result: SpecResult, place: Place) -> Iterator[str]:
    reason = waits_for(result.name, place)
    where = f"    {result.line}: {result.name[-_NAME_WIDTH:]}"
    if result.is_failed:
        yield where
        yield f"        {result.state}{f', waits for {reason}' if reason else ''}: {result.failure}"
    elif reason and result.state == "passed":
        yield where
        yield f"        passed although it is said to wait for {reason}: take it off the list"
