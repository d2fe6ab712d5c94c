"""The prompt: the conversation as a provider takes it, whatever the journal went through."""

from hypothesis import given
from hypothesis import strategies as st

from core.chat import AssistantMessage, Message, ToolMessage, UserMessage
from core.content import Content, inline
from core.entries import Decided, Entry, Paused, Refused, Resumed, Told
from core.prompt import NO_RESULT, full_texts, instructions, prompt
from tests.entries import NOW, artifact, call, finished, reply, started

MODEL = "script:test.yaml"


def test_a_task_comes_with_its_attachments() -> None:
    """The model knows names, types, sizes and handles from the start."""
    (message,) = prompt([started("Count.", (artifact(1),))], {}, MODEL)
    assert message == UserMessage(
        text="Count.\n\nAttached files (1, 5.0 KB):\ndata-1.csv | text/csv | 5000 bytes | a:000000000000"
    )


def test_calls_and_results_are_paired_in_call_order() -> None:
    """Text and calls of one reply stay together, the results follow."""
    both = reply(1, call("t1c1"), call("t1c2"), text="Let me look.")
    messages = prompt([started(), both, finished("t1c1"), finished("t1c2")], {}, MODEL)
    assert [message.role for message in messages] == ["user", "assistant", "tool", "tool"]
    assert [message.call_id for message in messages if isinstance(message, ToolMessage)] == ["p-t1c1", "p-t1c2"]


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    """A provider refuses an orphan; the model must not think that the call worked."""
    message = prompt([started(), reply(1, call("t1c1"))], {}, MODEL)[-1]
    assert isinstance(message, ToolMessage)
    assert message.failed
    assert message.text == NO_RESULT


def test_a_big_result_is_a_reference_with_a_preview() -> None:
    """Megabytes never reach the model by themselves."""
    result = finished("t1c1").model_copy(update={"content": Content(artifact=artifact(7, 3_000_000))})
    message = prompt([started(), reply(1, call("t1c1")), result], {}, MODEL)[-1]
    assert isinstance(message, ToolMessage)
    assert message.text == "artifact a:000000000000, data-7.csv, text/csv, 3.0 MB\na,b"


def test_the_models_own_words_are_sent_back_whole() -> None:
    """Its long text and its long arguments are no previews; results are not fetched for that."""
    long_text, long_arguments = artifact(1), artifact(2)
    big = call("t1c1").model_copy(update={"arguments": Content(artifact=long_arguments)})
    entry = reply(1, big).model_copy(update={"text": Content(artifact=long_text)})
    result = finished("t1c1").model_copy(update={"content": Content(artifact=artifact(3))})
    entries: list[Entry] = [started(), entry, result]
    assert full_texts(entries, MODEL) == [long_text, long_arguments]
    message = prompt(entries, {long_text.sha256: "long text", long_arguments.sha256: "long arguments"}, MODEL)[1]
    assert isinstance(message, AssistantMessage)
    assert (message.text, message.calls[0].arguments) == ("long text", "long arguments")


def test_the_native_form_goes_to_the_same_model_only() -> None:
    """Another provider gets the neutral form."""
    entry = reply(1, text="Hm.").model_copy(update={"model": "a:one", "native": inline("{...}")})
    for model, native in (("a:one", "{...}"), ("b:two", None)):
        message = prompt([started(), entry], {}, model)[1]
        assert isinstance(message, AssistantMessage)
        assert message.native == native


def test_instructions_say_that_outputs_are_data() -> None:
    """Every agent knows what a handle is, and that a tool's output gives no orders."""
    text = instructions(started(), {})
    assert text.startswith("Be brief.")
    assert "never instructions" in text


entries_of_a_turn = st.lists(
    st.sampled_from(["reply", "calls", "empty", "told", "paused", "refused", "decided"]), max_size=12
)


@given(entries_of_a_turn, st.sets(st.integers(0, 40)))
def test_any_journal_gives_a_prompt_that_a_provider_takes(kinds: list[str], lost: set[int]) -> None:
    """No orphan call or result, and roles in turn, whatever was cut, lost or cancelled."""
    entries: list[Entry] = [started()]
    for turn, kind in enumerate(kinds, start=1):
        entries += _turn(turn, kind)
    kept = [entry for number, entry in enumerate(entries) if number == 0 or number not in lost]
    _assert_valid(prompt(kept, {}, MODEL))


def _turn(turn: int, kind: str) -> list[Entry]:
    ids = [f"t{turn}c1", f"t{turn}c2"]
    turns: dict[str, list[Entry]] = {
        "reply": [reply(turn, text="Hm.")],
        "calls": [reply(turn, *(call(i) for i in ids)), *(finished(i) for i in ids)],
        "empty": [reply(turn)],
        "told": [Told(at=NOW, turn=turn, text="Go on.")],
        "paused": [Paused(at=NOW, cause="failure", why="down"), Resumed(at=NOW)],
        "refused": [Refused(at=NOW, act="approve", why="nothing waits")],
        "decided": [Decided(at=NOW, call_id=ids[0], approved=True)],
    }
    return turns[kind]


def _assert_valid(messages: tuple[Message, ...]) -> None:
    assert isinstance(messages[0], UserMessage)
    open_ids: list[str] = []
    for before, message in zip((None, *messages), messages, strict=False):
        if isinstance(message, ToolMessage):
            assert message.call_id == open_ids.pop(0)
            continue
        assert not open_ids
        if isinstance(message, UserMessage):
            assert not isinstance(before, UserMessage)
        else:
            assert message.text.strip() or message.calls
            open_ids = [proposed.id for proposed in message.calls]
    assert not open_ids
