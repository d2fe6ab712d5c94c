"""What people read: data shown as data, numbers as people write them."""

from datetime import UTC, datetime

import pytest

from core.chat import Usage
from core.content import ArtifactRef, Content, inline
from core.view import StateView
from infra.display import Display, arguments_lines, command_text, duration, printable, show_run, show_runs
from infra.runs import RunInfo

FROM_ELSEWHERE = RunInfo(
    id="odd",
    run_id="r",
    status="running",
    phase="running",
    agent="",
    task="",
    started_at=datetime(2026, 1, 2, tzinfo=UTC),
)


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


def test_a_run_that_the_starter_did_not_start_has_dashes_where_nothing_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Temporal's own CLI writes no memo."""
    show_runs(Display(as_json=False).out, [FROM_ELSEWHERE])
    assert capsys.readouterr().out.rstrip().splitlines()[-1].split() == [
        "odd",
        "running",
        "-",
        "2026-01-02",
        "00:00",
        "-",
    ]


def test_a_paused_run_shows_its_artifacts_once_and_how_another_model_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The commands can be typed as they stand."""
    ref = ArtifactRef(sha256="0" * 64, size_bytes=1, media_type="text/plain", name="a.txt")
    state = StateView(
        agent="one",
        model="bogus:foo",
        phase="paused",
        turn=3,
        pending=(),
        running=(),
        paused="Unknown model 'bogus:foo'. Go on by: resume --model OTHER.",
        usage=Usage(),
        calls={},
        artifacts=(ref,),
        steps=1,
        recent=(),
        acts=(),
        started_at=None,
        waited_seconds=0,
        head=None,
    )
    show_run(Display(as_json=False).out, FROM_ELSEWHERE, state, None)
    shown = capsys.readouterr().out
    assert "artifact  a:000000000000, a.txt" in shown
    assert "one with bogus:foo" in shown
    assert "python starter.py resume odd --model OTHER" in shown


def test_notes_for_scripts_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, like errors: no line of text for a script to stumble over."""
    Display(as_json=True).note("it goes on")
    assert capsys.readouterr() == ("", '{"note": "it goes on"}\n')
