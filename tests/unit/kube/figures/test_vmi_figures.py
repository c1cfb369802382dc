"""What a process counts of VMIs: times by phase, and rounds of those that are there."""

from __future__ import annotations

from kvedge.kube.figures.vmi_figures import BETWEEN, BOUNDS, MOST_PANICKED, MOST_VMIS, Transition, VmiFigures


def test_times_are_told_by_kind_and_phases() -> None:
    figures = VmiFigures()
    running = Transition(BETWEEN, "Running", "Scheduled")
    figures.note_transitions([(running, 0.2), (running, 7.0), (Transition(BETWEEN, "Failed", "Running"), 9000.0)])
    first, second = figures.tell_transitions()
    assert (first.kind, first.phase, first.last_phase) == (BETWEEN, "Running", "Scheduled")
    assert (first.times.bounds, first.times.total) == (list(BOUNDS), 7.2)
    assert (first.times.counts[0], first.times.counts[4], sum(first.times.counts)) == (1, 1, 2)
    assert second.times.counts[-1] == 1, "longer than an hour"


def test_rounds_are_told_while_the_vmi_is_there_and_of_a_bounded_number() -> None:
    figures = VmiFigures()
    for _ in range(3):
        figures.note_round("shop", "web")
    (told,) = figures.tell_rounds()
    assert (told.namespace, told.name, told.count) == ("shop", "web", 3)
    for number in range(2 * MOST_VMIS):
        figures.note_round("shop", f"v{number}")
    assert len(figures.tell_rounds()) == MOST_VMIS
    figures.forget("shop", "web")
    assert "web" not in {each.name for each in figures.tell_rounds()}


def test_panics_are_counted_by_name_and_the_longest_ago_goes_first() -> None:
    figures = VmiFigures()
    for _ in range(2):
        figures.note_panic("shop", "web")
    figures.forget("shop", "web")
    (told,) = figures.tell_panics()
    assert (told.namespace, told.name, told.count) == ("shop", "web", 2), "its VM starts again, with another VMI"
    for number in range(MOST_PANICKED):
        figures.note_panic("shop", f"v{number}")
    assert len(figures.tell_panics()) == MOST_PANICKED
    assert "web" not in {each.name for each in figures.tell_panics()}
