# Tests: kvedge/controller/vmi/launcher_pod/launcher_pod_manifest.py, kvedge/launcher/command.py
"""What a controller asks of the program in a launcher Pod, which may be of the minor version before or after its own.

A launcher runs its node's program, and one that does not know a word ends at once. So a word may be used one minor
version after the one in which launchers learned it, and goes one after it was used last.
"""

from __future__ import annotations

import pytest

from kvedge.launcher.command import _FLAGS, _WITH_VALUE
from tests.support.golden.pod_cases import GoldenPod, golden_pods

# By the version in which launchers learned them; 0.1 is the first.
KNOWN = {
    "0.1": {
        "launcher": {
            "--monitor",
            "--namespace",
            "--name",
            "--uid",
            "--grace-period-seconds",
            "--keep-after-failure",
            "--incoming",
            "--hook-sidecars",
            "--hook-shim",
            "--version",
        },
        "launcher-probe": {"--timeout-seconds", "--guest-agent-ping", "--command"},
    },
}
USABLE = ("0.1",)
PROGRAM = "/opt/kvedge/bin/kvedge"


def commands(case: GoldenPod) -> list[list[str]]:
    spec = case.rendered["spec"]
    container = spec["containers"][0]
    probes = [container[key] for key in ("livenessProbe", "readinessProbe") if key in container]
    asked = [probe["exec"]["command"] for probe in probes if "exec" in probe]
    others = [other["command"] for other in spec["containers"][1:] if "command" in other]
    found = [container["command"], *asked, *others]
    return [command[1:] for command in found if command[0] == PROGRAM]


@pytest.mark.parametrize("case", golden_pods(), ids=lambda case: case.name)
def test_every_word_is_one_that_launchers_of_the_version_before_know(case: GoldenPod) -> None:
    for verb, *words in commands(case):
        known = set().union(*(KNOWN[version].get(verb, set()) for version in USABLE))
        # What follows two dashes alone is the guest's.
        ours = words[: words.index("--")] if "--" in words else words
        assert {word for word in ours if word.startswith("--")} <= known


def test_a_launcher_still_knows_what_controllers_of_the_version_before_say() -> None:
    wanted = set().union(*(words["launcher"] for words in KNOWN.values()))
    assert wanted <= {f"--{name}" for name in (*_WITH_VALUE, *_FLAGS)}
