"""The doctor comes without a collection of garbage, and leaves the collector as it was."""

import gc

from instep.doctor.garbage import without_collections


def test_nothing_is_collected_inside_and_all_counts_as_old_afterwards() -> None:
    collections: list[str] = []

    def note(phase: str, _: object) -> None:
        collections.append(phase)

    gc.unfreeze()  # the suite has frozen what it has imported
    gc.callbacks.append(note)
    try:
        with without_collections():
            made = [[i] for i in range(50_000)]
        assert collections == []
        assert gc.get_count()[1:] == (0, 0)
        assert gc.isenabled()
    finally:
        gc.callbacks.remove(note)
        gc.freeze()
    assert len(made) == 50_000


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with without_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
