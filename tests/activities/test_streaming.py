"""A reply as it comes: what is told of it, and how often."""

from activities.streaming import EVERY_SECONDS, SHOWN_CHARACTERS, StreamedText


def test_pieces_are_told_now_and_then_and_only_their_end() -> None:
    """A thousand pieces in a second are a few heartbeats; nothing new is nothing to tell."""
    told: list[str] = []
    seconds = 0.0
    take = StreamedText(told.append, lambda: seconds)
    for number in range(1000):
        seconds = number / 1000
        take(f"{number} ")
    assert len(told) == 2
    assert told[0] == "0"
    assert told[1].endswith(f" {int(EVERY_SECONDS * 1000)}")
    assert len(told[1]) <= SHOWN_CHARACTERS
    seconds = 2.0
    take("\ud83d\0x\n" * 1000)
    take("")
    assert len(told) == 3
    assert told[2].isprintable()
