"""Facts about scripts: what plays next, what fails, what a malformed file says."""

import json
from pathlib import Path

import pytest

from core.chat import AssistantMessage, ChatReply, ChatRequest, Message, ToolMessage, Usage, UserMessage
from core.errors import ContextTooLong, ModelError, ModelRefused, ModelUnavailable
from infra.models import Models
from infra.script import ScriptedModel

TASK = UserMessage(text="Look at this.\n- a.csv | text/csv | 12 bytes | a:000000000001")


def conversation(replies: int, *results: str) -> tuple[Message, ...]:
    """Build a conversation that has had so many replies, each with one of the results while they last."""
    messages: list[Message] = [TASK]
    for number in range(replies):
        messages.append(AssistantMessage(text=f"reply {number}"))
        if number < len(results):
            messages.append(ToolMessage(call_id=f"c{number}", name="t", text=results[number]))
    return tuple(messages)


async def play(folder: Path, script: str, replies: int = 0, *results: str, attempt: int = 1) -> ChatReply:
    """Write the script and ask for what comes after so many replies."""
    (folder / "s.yaml").write_text(script, encoding="utf-8")
    messages = conversation(replies, *results)
    request = ChatRequest(model="script:s.yaml", instructions="", messages=messages, replies=replies)
    return await ScriptedModel(folder, lambda: attempt).reply(request)


async def test_the_next_reply_follows_from_the_conversation(tmp_path: Path) -> None:
    """A new process that sees the same conversation gives the same reply: nothing is remembered."""
    script = "replies: [{text: one}, {text: two}]"
    assert [(await play(tmp_path, script, turn)).text for turn in (1, 0, 1)] == ["two", "one", "two"]


async def test_a_reply_has_all_its_parts(tmp_path: Path) -> None:
    """Text, calls, usage and stop reason come as written; a mapping becomes JSON, dates in it become text."""
    script = """
replies:
  - text: Both.
    calls:
      - {id: c1, name: query, arguments: {sql: "SELECT 'ä'", day: 2026-01-01}}
      - {name: list_files}
    usage: {input_tokens: 9, output_tokens: 4}
    stop_reason: length
"""
    reply = await play(tmp_path, script)
    assert (reply.text, reply.stop_reason, reply.usage) == ("Both.", "length", Usage(input_tokens=9, output_tokens=4))
    assert json.loads(reply.calls[0].arguments) == {"sql": "SELECT 'ä'", "day": "2026-01-01"}
    assert [(call.id, call.name) for call in reply.calls] == [("c1", "query"), ("call-0-1", "list_files")]
    assert reply.calls[1].arguments == "{}"


async def test_raw_arguments_need_not_be_json(tmp_path: Path) -> None:
    """A text goes out as it is, so that malformed arguments can be tried; calls alone mean `tool_calls`."""
    reply = await play(tmp_path, "replies: [{calls: [{id: c, name: t, arguments: '{\"a\": '}]}]")
    assert (reply.calls[0].arguments, reply.stop_reason) == ('{"a": ', "tool_calls")


async def test_a_list_repeats_and_ends_with_the_final_reply(tmp_path: Path) -> None:
    """`repeat` plays the whole list again, with call ids of its own each time; `final` comes once after it."""
    script = """
replies: [{text: a, calls: [{id: c, name: t}]}, {text: b}]
repeat: 3
final: {text: end, calls: [{id: last, name: t}]}
"""
    replies = [await play(tmp_path, script, turn) for turn in range(7)]
    assert [reply.text for reply in replies] == ["a", "b", "a", "b", "a", "b", "end"]
    assert [call.id for reply in replies for call in reply.calls] == ["c", "c-2", "c-3", "last"]
    with pytest.raises(ModelRefused, match="it has 7 replies and the conversation has had 7"):
        await play(tmp_path, script, 7)


async def test_an_exhausted_script_says_what_it_had(tmp_path: Path) -> None:
    """Past the end is a refusal, with both counts and the cure."""
    with pytest.raises(ModelRefused, match=r"s.yaml is exhausted: it has 1 reply .* has had 2\. Add"):
        await play(tmp_path, "replies: [{text: one}]", 2)


async def test_errors_are_served_to_the_first_attempts(tmp_path: Path) -> None:
    """Errors before a reply fail as many attempts as they say, then the reply comes."""
    script = """
replies:
  - error: {status: 429, message: slow down, retry_after: 2, times: 2}
  - error: {message: cable cut}
  - text: at last
"""
    for attempt, seconds in ((1, 2.0), (2, 2.0), (3, None)):
        with pytest.raises(ModelUnavailable) as caught:
            await play(tmp_path, script, attempt=attempt)
        assert caught.value.retry_after_seconds == seconds
    assert (await play(tmp_path, script, attempt=4)).text == "at last"


async def test_an_error_can_last_forever(tmp_path: Path) -> None:
    """`times: forever` never passes, at whatever attempt."""
    script = "replies: [{error: {status: 503, times: forever}}, {text: never}]"
    with pytest.raises(ModelUnavailable, match="HTTP 503"):
        await play(tmp_path, script, attempt=10_000)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("{status: 401, message: bad key}", ModelRefused),
        ("{status: 400, message: prompt is too long}", ContextTooLong),
        ("{}", ModelUnavailable),
    ],
)
async def test_scripted_errors_mean_what_a_providers_mean(tmp_path: Path, error: str, kind: type[ModelError]) -> None:
    """The same table decides; without a status it is a lost connection."""
    with pytest.raises(kind):
        await play(tmp_path, f"replies: [{{error: {error}}}, {{text: x}}]")


async def test_errors_after_the_last_reply_come_before_the_next_round_and_the_end(tmp_path: Path) -> None:
    """An error belongs to what follows it: the next round, then `final`."""
    script = "replies: [{text: a}, {error: {status: 500}}]\nrepeat: 2\nfinal: {text: end}"
    assert (await play(tmp_path, script, 0)).text == "a"
    for turn, text in ((1, "a"), (2, "end")):
        with pytest.raises(ModelUnavailable):
            await play(tmp_path, script, turn)
        assert (await play(tmp_path, script, turn, attempt=2)).text == text


async def test_placeholders_stand_for_earlier_results(tmp_path: Path) -> None:
    """Handles are numbered as they first appear, `${last}` is the last result; what is unknown stays."""
    script = """
replies:
  - text: "${artifact:2} ${last} ${artifact:9} ${other}"
    calls: [{name: t, arguments: {deep: [{handle: "${artifact:1}", note: "${last}"}]}}]
"""
    (tmp_path / "s.yaml").write_text(script)
    result = ToolMessage(call_id="c", name="t", text='say "hi" a:00000000000b and a:000000000001')
    request = ChatRequest(model="script:s.yaml", instructions="", messages=(TASK, result))
    reply = await ScriptedModel(tmp_path).reply(request)
    assert reply.text == f"a:00000000000b {result.text} ${{artifact:9}} ${{other}}"
    assert json.loads(reply.calls[0].arguments) == {"deep": [{"handle": "a:000000000001", "note": result.text}]}


async def test_a_delay_passes_before_the_reply(tmp_path: Path) -> None:
    """`delay_seconds` is waited for; here it only has to be accepted."""
    assert (await play(tmp_path, "replies: [{text: late, delay_seconds: 0.01}]")).text == "late"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("replies: [{txt: hi}]", r"replies\[0\]\.txt: is no field that there is"),
        ("replies: [{text: hi}, {error: {statsu: 1}}]", r"replies\[1\]\.error\.statsu: is no field that there is"),
        ("replies: [{error: {status: 429}, text: hi}]", r"replies\[0\]\.text: is no field that there is"),
        ("replies: [{calls: [{id: c}]}]", r"replies\[0\]\.calls\[0\]\.name: is missing"),
        ("replies: [{calls: [{name: t, arguments: 7}]}]", r"replies\[0\]\.calls\[0\]\.arguments: "),
        ("replies: [{stop_reason: done}]", r"replies\[0\]\.stop_reason: "),
        ("repeat: -1", "repeat: "),
        ("replies: [hello]", r"replies\[0\]: "),
        ("[1, 2]", "the file: "),
        ("replies: [", "not valid YAML"),
    ],
)
async def test_a_malformed_script_names_file_and_field(tmp_path: Path, script: str, says: str) -> None:
    """Unknown fields, wrong types and broken YAML are refusals that say where."""
    with pytest.raises(ModelRefused, match=f"s.yaml.*{says}"):
        await play(tmp_path, script)


async def test_a_missing_script_is_refused(tmp_path: Path) -> None:
    """The name is in the error, the folder is not needed to find it."""
    with pytest.raises(ModelRefused, match=r"nothing\.yaml can't be read: No such file"):
        await Models(script_folder=tmp_path).reply(
            ChatRequest(model="script:nothing.yaml", instructions="", messages=(TASK,))
        )


async def test_a_script_is_chosen_like_any_other_model(tmp_path: Path) -> None:
    """`Models` finds it in its folder and passes the attempts on."""
    (tmp_path / "s.yaml").write_text("replies: [{error: {status: 500}}, {text: hi}]")
    request = ChatRequest(model="script:s.yaml", instructions="", messages=(TASK,))
    with pytest.raises(ModelUnavailable):
        await Models(script_folder=tmp_path).reply(request)
    assert (await Models(script_folder=tmp_path, attempt=lambda: 2).reply(request)).text == "hi"
