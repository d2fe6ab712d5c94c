"""Anthropic Messages, OpenAI Chat Completions, OpenAI Responses and Google generateContent, as server-sent events."""

import json
from typing import Any

from tests.wire.said import INPUT_TOKENS, OUTPUT_TOKENS, SIGNATURE, THOUGHT, Called, Fault, Said, halves

SSE = "text/event-stream"
ANTHROPIC_STOPS = {"end": "end_turn", "tool": "tool_use", "length": "max_tokens", "refusal": "refusal"}
CHAT_STOPS = {"end": "stop", "tool": "tool_calls", "length": "length", "refusal": "content_filter"}
GOOGLE_STOPS = {"end": "STOP", "tool": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}


def event(data: dict[str, Any], *, named: bool = False) -> bytes:
    """Write one event, ASCII with escapes as some servers do where the text has what UTF-8 can't carry."""
    text = json.dumps(data, ensure_ascii=False)
    if not text.isprintable():
        text = json.dumps(data)
    return (f"event: {data['type']}\n" if named else "").encode() + f"data: {text}\n\n".encode()


def anthropic_stream(said: Said) -> list[bytes]:
    """Write a reply as the Messages API streams it, with a ping in it."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5", "content": []}
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": 1}
    rest = {"stop_reason": None, "stop_sequence": None, "usage": usage}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**message, **rest}}, {"type": "ping"}]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if said.thinks:
        signed = {"type": "signature_delta", "signature": SIGNATURE}
        thought = {"type": "thinking", "thinking": "", "signature": ""}
        blocks.append((thought, [{"type": "thinking_delta", "thinking": THOUGHT}, signed]))
    for text in said.texts:
        deltas = [{"type": "text_delta", "text": piece} for piece in halves(text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for call in said.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        blocks.append((block, [{"type": "input_json_delta", "partial_json": part} for part in halves(call.arguments)]))
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    reason = None if said.stop is None else ANTHROPIC_STOPS.get(said.stop, said.stop)
    delta = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": OUTPUT_TOKENS}})
    return [event(data, named=True) for data in [*events, {"type": "message_stop"}]]


def anthropic_fault(fault: Fault) -> dict[str, Any]:
    """Write an error as Anthropic does."""
    return {"type": "error", "error": {"type": fault.code, "message": fault.message}, "request_id": "req_1"}


def chat_stream(said: Said) -> list[bytes]:
    """Write a reply as Chat Completions streams it, with the usage in a chunk of its own and `[DONE]` at the end."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if said.thinks:
        deltas.append({"reasoning_content": THOUGHT})
    deltas += [{"content": piece} for text in said.texts for piece in halves(text)]
    for index, call in enumerate(said.calls):
        start = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        deltas.append({"tool_calls": [start]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": part}}]} for part in halves(call.arguments)
        ]
    chunk: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    if said.stop is not None:
        reason = CHAT_STOPS.get(said.stop, said.stop)
        choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    total = INPUT_TOKENS + OUTPUT_TOKENS
    usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS, "total_tokens": total}
    events = [event({**chunk, "choices": [choice], "usage": None}) for choice in choices]
    return [*events, event({**chunk, "choices": [], "usage": usage}), b"data: [DONE]\n\n"]


def openai_fault(fault: Fault) -> dict[str, Any]:
    """Write an error as OpenAI and its like do."""
    kind = "invalid_request_error" if fault.status == 400 else "api_error"
    return {"error": {"message": fault.message, "type": kind, "param": None, "code": fault.code}}


def _response_items(said: Said) -> list[tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]]:
    """Return each item of the output with the events between its start and its end."""
    items: list[tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]] = []
    if said.thinks:
        summary = {"type": "summary_text", "text": THOUGHT}
        items.append(
            (
                {"type": "reasoning", "id": "rs_1", "summary": [summary], "encrypted_content": SIGNATURE},
                [("reasoning_summary_text.delta", {"summary_index": 0, "delta": THOUGHT})],
            )
        )
    for number, text in enumerate(said.texts):
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
        place = {"content_index": 0, "logprobs": []}
        deltas = [("output_text.delta", {**place, "delta": piece}) for piece in halves(text)]
        items.append(({**message, "content": [part]}, [*deltas, ("output_text.done", {**place, "text": text})]))
    for number, call in enumerate(said.calls):
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": call.id, "name": call.name}
        parts = [("function_call_arguments.delta", {"delta": part}) for part in halves(call.arguments)]
        done = ("function_call_arguments.done", {"arguments": call.arguments, "name": call.name})
        items.append(({**item, "arguments": call.arguments, "status": "completed"}, [*parts, done]))
    return items


def _started(item: dict[str, Any]) -> dict[str, Any]:
    empty = {"content": [], "arguments": "", "summary": []}
    return {name: empty.get(name, value) for name, value in item.items()} | {"status": "in_progress"}


def responses_stream(said: Said) -> list[bytes]:
    """Write a reply as the Responses API streams it."""
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-6.1-terra",
        "status": "in_progress",
    }
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "output": []}
    events: list[tuple[str, dict[str, Any]]] = [("created", {"response": response})]
    items = _response_items(said)
    for index, (item, between) in enumerate(items):
        events.append(("output_item.added", {"output_index": index, "item": _started(item)}))
        events += [(name, {"output_index": index, "item_id": item["id"], **data}) for name, data in between]
        events.append(("output_item.done", {"output_index": index, "item": item}))
    cut = {"length": "max_output_tokens", "refusal": "content_filter", "unheard_of": "unheard_of"}.get(said.stop or "")
    total = INPUT_TOKENS + OUTPUT_TOKENS
    usage: dict[str, Any] = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS, "total_tokens": total}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    ended = {**response, "output": [item for item, _ in items], "usage": usage}
    ended |= {"status": "incomplete" if cut else "completed", "incomplete_details": {"reason": cut} if cut else None}
    events.append((str(ended["status"]), {"response": ended}))
    return [
        event({"type": f"response.{name}", "sequence_number": number, **data}, named=True)
        for number, (name, data) in enumerate(events)
    ]


def google_stream(said: Said) -> list[bytes]:
    """Write a reply as streamGenerateContent with `alt=sse` does."""
    parts: list[dict[str, Any]] = []
    if said.thinks:
        parts.append({"text": THOUGHT, "thought": True})
    signed = {"thoughtSignature": SIGNATURE} if said.thinks else {}
    texts: list[dict[str, Any]] = [{"text": piece} for text in said.texts for piece in halves(text)]
    calls: list[dict[str, Any]] = [{"functionCall": _google_call(call)} for call in said.calls]
    if calls:
        calls[0] = {**calls[0], **signed}
    parts += [*texts, *calls]
    candidates = [{"index": 0, "content": {"role": "model", "parts": [part]}} for part in parts]
    last: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": [{"text": ""}]}}
    if said.stop is not None:
        last["finishReason"] = GOOGLE_STOPS.get(said.stop, said.stop)
    total = INPUT_TOKENS + OUTPUT_TOKENS
    usage = {"promptTokenCount": INPUT_TOKENS, "candidatesTokenCount": OUTPUT_TOKENS, "totalTokenCount": total}
    rest = {"usageMetadata": usage, "modelVersion": "gemini-3.8-flash", "responseId": "r1"}
    return [event({"candidates": [candidate], **rest}) for candidate in [*candidates, last]]


def _google_call(call: Called) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "args": json.loads(call.arguments)}


def google_fault(fault: Fault) -> dict[str, Any]:
    """Write an error as Google's APIs do."""
    details: list[dict[str, Any]] = []
    if fault.retry_delay:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fault.retry_delay})
    if fault.reason:
        details.append({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": fault.reason})
    if fault.quota:
        violations = [{"quotaId": fault.quota}]
        details.append({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations})
    return {"error": {"code": fault.status, "message": fault.message, "status": fault.code, "details": details}}
