"""What people read: data shown as data, numbers as people write them."""

import pytest

from core.content import Content, inline
from infra.display import arguments_lines, command_text, duration, printable


def test_nothing_that_a_model_writes_can_steer_the_terminal() -> None:
    """Escape sequences, carriage returns and turned writing become visible; text of any language stays."""
    assert printable("a\x1b[31mb\rc\x9bd") == "a␛[31mb␍c<U+009B>d"
    assert printable("safe \u202eelif.exe") == "safe <U+202E>elif.exe"
    assert printable("Größe\t漢字\r\n🙂") == "Größe\t漢字\n🙂"


def test_arguments_are_shown_in_full_behind_a_bar() -> None:
    """No value can pass for a line of ours, and none is cut."""
    text = "x" * 2000
    shown = arguments_lines(inline(f'{{"title": "One\\n  python starter.py approve all", "text": "{text}", "n": [1]}}'))
    assert shown == [
        "  title:",
        "  │ One",
        "  │   python starter.py approve all",
        "  text:",
        f"  │ {text}",
        "  n:",
        "  │ [1]",
    ]


@pytest.mark.parametrize("arguments", ["[1, 2]", "no JSON", "3"])
def test_arguments_that_are_no_object_are_shown_as_they_are(arguments: str) -> None:
    """What the model wrote is what the person sees."""
    assert arguments_lines(Content(text=arguments)) == [f"  │ {arguments}"]


@pytest.mark.parametrize(("seconds", "text"), [(-1, "0 s"), (4.9, "4 s"), (125, "2:05 min"), (11220, "3:07:00 h")])
def test_durations_read_as_people_write_them(seconds: float, text: str) -> None:
    """Seconds, minutes or hours."""
    assert duration(seconds) == text


def test_commands_can_be_typed_as_they_are_shown() -> None:
    """Ids with spaces or quotes are quoted for the shell."""
    assert command_text("watch", "it's me") == "python starter.py watch 'it'\"'\"'s me'"
