"""Many calls in one turn: started in order, committed in order, and none costs another its result."""

import json

from core.agents import Context, Limits
from core.chat import ChatReply, ProposedCall, ToolMessage
from core.entries import ToolFinished
from tests.running import FakeModel, Running, calls, says


async def test_200_calls_of_one_turn_all_keep_their_results(running: Running, model: FakeModel) -> None:
    """Some fail, results are 3 KB each, and no payload comes near what Temporal refuses."""
    named = [
        ("raises_once", "{}") if number % 50 == 7 else ("letters", json.dumps({"count": 3000 + number}))
        for number in range(200)
    ]
    model.replies = [calls(*named), says("Done.")]
    limits = Limits(calls_per_turn=200, parallel_calls=50)
    handle = await running.start(tools=["letters", "raises_once"], limits=limits, context=Context(policy="accumulate"))
    result = await running.result(handle)
    assert (result.outcome, result.calls) == ("completed", {"letters": 196, "raises_once": 4})
    messages = [message for message in model.requests[-1].messages if isinstance(message, ToolMessage)]
    assert [message.failed for message in messages] == [name == "raises_once" for name, _ in named]
    assert [len(message.text) for message in messages if not message.failed] == [
        3000 + number for number in range(200) if number % 50 != 7
    ]
    assert result.head is not None
    entries = await running.storage().journal(result.scope).entries(result.head)
    finished = [entry.call_id for entry in entries if isinstance(entry, ToolFinished)]
    assert finished == [f"t1c{number}" for number in range(1, 201)]
    history = await handle.fetch_history()
    assert max(event.ByteSize() for event in history.events) < 1024 * 1024


async def test_odd_ids_of_calls_do_not_matter(running: Running, model: FakeModel) -> None:
    """Two calls with one id, one of 300 characters, one of none: each gets its own result under its own id."""
    ids = ["same", "same", "x" * 300, "", "a\nb\0"]
    proposed = tuple(
        ProposedCall(id=call_id, name="echo", arguments=json.dumps({"text": str(number)}))
        for number, call_id in enumerate(ids)
    )
    model.replies = [ChatReply(calls=proposed, stop_reason="tool_calls"), says("Done.")]
    result = await running.result(await running.start(tools=["echo"]))
    assert result.calls == {"echo": 5}
    results = [message for message in model.requests[-1].messages if isinstance(message, ToolMessage)]
    assert [message.text for message in results] == ["0", "1", "2", "3", "4"]
    assert len({message.call_id for message in results}) == 5
    assert all(0 < len(message.call_id) <= 64 for message in results)
