"""Bedrock's ConverseStream: binary frames, each with its headers, its JSON and two checksums."""

import json
import struct
import zlib
from typing import Any

from tests.wire.said import INPUT_TOKENS, OUTPUT_TOKENS, SIGNATURE, THOUGHT, Fault, Said, halves

EVENT_STREAM = "application/vnd.amazon.eventstream"
STOPS = {"end": "end_turn", "tool": "tool_use", "length": "max_tokens", "refusal": "guardrail_intervened"}


def frame(kind: str, data: dict[str, Any], message_type: str = "event") -> bytes:
    """Write one frame: lengths, their checksum, headers, payload, and the checksum of it all."""
    named = ":event-type" if message_type == "event" else ":exception-type"
    pairs = ((named, kind), (":content-type", "application/json"), (":message-type", message_type))
    headers = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in pairs
    )
    payload = json.dumps(data).encode()
    prelude = struct.pack(">II", len(headers) + len(payload) + 16, len(headers))
    start = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return start + struct.pack(">I", zlib.crc32(start))


def bedrock_stream(said: Said) -> list[bytes]:
    """Write a reply as ConverseStream does: the usage comes after the end of the message."""
    blocks: list[tuple[dict[str, Any] | None, list[dict[str, Any]]]] = []
    if said.thinks:
        blocks.append((None, [{"reasoningContent": {"text": THOUGHT}}, {"reasoningContent": {"signature": SIGNATURE}}]))
    blocks += [(None, [{"text": piece} for piece in halves(text)]) for text in said.texts]
    for call in said.calls:
        start = {"toolUse": {"toolUseId": call.id, "name": call.name}}
        blocks.append((start, [{"toolUse": {"input": part}} for part in halves(call.arguments)]))
    frames = [frame("messageStart", {"role": "assistant"})]
    for index, (begin, deltas) in enumerate(blocks):
        if begin is not None:
            frames.append(frame("contentBlockStart", {"contentBlockIndex": index, "start": begin}))
        frames += [frame("contentBlockDelta", {"contentBlockIndex": index, "delta": delta}) for delta in deltas]
        frames.append(frame("contentBlockStop", {"contentBlockIndex": index}))
    total = INPUT_TOKENS + OUTPUT_TOKENS
    usage = {"inputTokens": INPUT_TOKENS, "outputTokens": OUTPUT_TOKENS, "totalTokens": total}
    reason = {} if said.stop is None else {"stopReason": STOPS.get(said.stop, said.stop)}
    frames.append(frame("messageStop", reason))
    return [*frames, frame("metadata", {"usage": usage, "metrics": {"latencyMs": 1}})]


def bedrock_fault(fault: Fault) -> dict[str, Any]:
    """Write the body of an error; its code is in a header."""
    return {"message": fault.message}


def bedrock_fault_in_stream(fault: Fault) -> bytes:
    """Write an error that comes when the answer has begun."""
    return frame(fault.code[0].lower() + fault.code[1:], {"message": fault.message}, "exception")
