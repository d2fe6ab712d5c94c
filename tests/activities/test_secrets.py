"""Facts about the secrets of a call: who gets them, and that nothing which leaves the activity has them."""

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities.tool_context import ToolContext, ToolOutput
from activities.toolbox import Toolbox, tool
from core.artifacts import HIDDEN
from core.content import ArtifactRef
from core.errors import Failed, InputError, NotDone, SecretMissing
from tests.activities.calling import Calling

SHORT = timedelta(seconds=5)
TOKEN = "tok-8d1f77a0c4/+e"
SHOWN = "[secret api_token]"


@tool(effect="read", timeout=SHORT, secrets=("api_token",))
def tells(how: str, *, context: ToolContext) -> object:  # noqa: D417 - the context is no argument of the model's
    """Tell the secret in one of many ways.

    Args:
        how: which way.
    """
    token = context.secret("api_token")
    match how:
        case "text":
            return f"it is {token}!"
        case "data":
            return {"headers": [("Authorization", base64.b64encode(f"me:{token}".encode()).decode())], token: token}
        case "long text":
            return ("x" * 99 + "\n") * 60 + token
        case "bytes":
            return token.encode() * 2
        case "odd bytes":
            return b"\xff\x00" + token.encode()
        case "long bytes":
            return token.encode() + b"x" * 2_000_000 + token.encode()
        case "output":
            return ToolOutput(f"it is {token}", f"of {token}.txt")
        case "reference":
            ref = context.wait(context.artifacts.store_bytes(token.encode(), f"{token}.bin"))
            return ref.model_copy(update={"name": token, "preview": token, "detail": token})
        case "file":
            path = context.folder / f"a {token.replace('/', '-')} {token.rsplit('/', maxsplit=1)[0]}"
            path.parent.mkdir(exist_ok=True)
            path.write_text("nothing")
            return ToolOutput(path, f"x/{token}")
        case "failed":
            raise Failed("x" * 4080 + token)
        case "input":
            raise InputError(token)
        case "odd value":
            return type(f"Of{token}", (), {})()
    raise RuntimeError(f"{'x' * 4080}{token} at https://host/?key={token.replace('/', '%2F').replace('+', '%2B')}")


@pytest.fixture
def telling(calling: Calling) -> Calling:
    """A run that has the tool, and its secret."""
    calling.toolbox = Toolbox([tells])
    calling.secrets.values["api_token"] = TOKEN
    return calling


def pieces(text: str) -> Iterator[str]:
    """Return what no part of a text may be: pieces of the secret, as it is and as Base64 and hex have it."""
    for form in (TOKEN, base64.b64encode(TOKEN.encode()).decode().rstrip("="), TOKEN.encode().hex(" ")):
        yield from (form[at : at + 8] for at in range(len(form) - 7) if form[at : at + 8] in text)


@pytest.mark.parametrize("how", ["text", "data", "long text", "output", "failed", "input"])
async def test_the_model_reads_the_name_in_place_of_the_secret(telling: Calling, how: str) -> None:
    """In texts, data, long texts, and errors that are cut."""
    outcome = await telling.call("tells", {"how": how})
    assert not list(pieces(outcome.model_dump_json()))
    if outcome.content.artifact is None:
        assert SHOWN in outcome.content.shown() or how == "failed"
    for blob in telling.memory.blobs.values():
        assert TOKEN.encode() not in blob.body
        assert TOKEN not in json.dumps(dict(blob.metadata))


@pytest.mark.parametrize("how", ["bytes", "odd bytes", "long bytes", "reference", "file"])
async def test_names_and_previews_of_artifacts_do_not_have_it(telling: Calling, how: str) -> None:
    """What a tool stores on purpose stays what it is; not in its name, its preview, or what the store knows of it."""
    outcome = await telling.call("tells", {"how": how})
    assert not outcome.failed
    assert not list(pieces(outcome.model_dump_json()))
    for blob in telling.memory.blobs.values():
        assert not list(pieces(json.dumps(dict(blob.metadata))))
    (ref,) = outcome.artifacts
    if "bytes" in how:
        assert ref.preview == HIDDEN
        assert TOKEN.encode() in await telling.bytes_of(ref)
    else:
        assert SHOWN in ref.name


@pytest.mark.parametrize("how", ["odd value", "bug"])
async def test_no_exception_carries_it_out(telling: Calling, how: str) -> None:
    """Temporal gets the text without it, however it was quoted."""
    with pytest.raises(ApplicationError) as error:
        await telling.call("tells", {"how": how})
    assert not list(pieces(f"{error.value.message} {error.value.type}"))


async def test_an_async_tool_and_what_it_tells_of_its_progress(calling: Calling) -> None:
    """Also from a thread of its own."""
    beats: list[str] = []

    @tool(effect="read", timeout=SHORT, secrets=("api_token",))
    async def works(*, context: ToolContext) -> str:
        """Work."""
        token = context.secret("api_token")
        context.heartbeat(f"{'x' * 195}{token}")
        thread = threading.Thread(target=lambda: context.heartbeat(f"{token} in a thread"))
        thread.start()
        await asyncio.to_thread(thread.join)
        raise NotDone(f"not with {token}")

    calling.toolbox = Toolbox([works])
    calling.secrets.values["api_token"] = TOKEN
    calling.environment.on_heartbeat = lambda *details: beats.extend(map(str, details))
    with pytest.raises(ApplicationError, match=r"not with \[secret api_token\]"):
        await calling.call("works")
    await asyncio.sleep(0)
    assert f"{SHOWN} in a thread" in beats
    assert not list(pieces(" ".join(beats)))


async def test_a_verify_gets_the_secrets_and_tells_none(calling: Calling) -> None:
    """In what it found, and in why it could not tell."""
    asked: list[str] = []

    def was_paid(*, context: ToolContext) -> str:
        asked.append(context.secret("api_token"))
        if len(asked) > 1:
            raise Failed(f"no answer for {TOKEN}")
        return f"paid with {TOKEN}"

    @tool(effect="write", timeout=SHORT, secrets=("api_token",), verify=was_paid)
    def pay(*, context: ToolContext) -> str:
        """Pay."""
        return context.call_id

    calling.toolbox = Toolbox([pay])
    calling.secrets.values["api_token"] = TOKEN
    found = await calling.verify()
    assert found.content is not None
    assert found.content.text == f"paid with {SHOWN}"
    assert (await calling.verify()).why == f"no answer for {SHOWN}"
    assert asked == [TOKEN, TOKEN]


async def test_an_agents_file_says_which_secret_a_tool_gets(telling: Calling) -> None:
    """Two agents use one tool with keys of their own; the model reads the tool's name of it."""
    telling.secrets.values["GITHUB_TOKEN"] = "another-token"
    telling.references = {"api_token": "secret:GITHUB_TOKEN"}
    assert await telling.text("tells", {"how": "text"}) == f"it is {SHOWN}!"
    assert telling.secrets.asked == ["GITHUB_TOKEN"]


@pytest.mark.parametrize("value", [None, "abc", "  \n  "])
async def test_without_a_usable_secret_nothing_of_the_tool_runs(calling: Calling, value: str | None) -> None:
    """It is known before anything has happened, so that the call can be run again once it is there."""
    ran: list[str] = []

    @tool(effect="write", timeout=SHORT, secrets=("first", "second"))
    def acts(*, context: ToolContext) -> str:
        """Act."""
        ran.append(context.secret("first"))
        return "done"

    calling.toolbox = Toolbox([acts])
    calling.secrets.values["first"] = TOKEN
    if value is not None:
        calling.secrets.values["second"] = value
    with pytest.raises(ApplicationError, match=r"secret second\b") as error:
        await calling.call("acts")
    assert (error.value.type, error.value.non_retryable) == (SecretMissing.__name__, True)
    assert not ran
    calling.secrets.values["second"] = "long enough"
    assert await calling.text("acts") == "done"


async def test_bad_arguments_are_told_before_any_secret_is_read(telling: Calling) -> None:
    """The model's mistake is no reason to pause."""
    telling.secrets.values.clear()
    assert "how" in await telling.failure("tells", {"wrong": 1})
    assert not telling.secrets.asked


async def test_a_secret_that_is_not_declared_is_not_given(calling: Calling) -> None:
    """What a tool may read stands in its declaration."""

    @tool(effect="read", timeout=SHORT, secrets=("api_token",))
    def curious(*, context: ToolContext) -> str:
        """Look."""
        return context.secret("other")

    calling.toolbox = Toolbox([curious])
    calling.secrets.values |= {"api_token": TOKEN, "other": "of somebody else"}
    text = await calling.failure("curious")
    assert text == "secret 'other' is not declared: name it in @tool(..., secrets=(...)); it has api_token"
    assert calling.secrets.asked == ["api_token"]


async def test_a_tool_without_secrets_asks_for_none(calling: Calling) -> None:
    """And its texts are not searched."""
    ref: ArtifactRef = await calling.attach("a.txt", "words")
    assert "words" in await calling.text("read_artifact", {"handle": ref.handle})
    assert not calling.secrets.asked


async def test_nothing_of_a_call_keeps_the_secret_on_the_disk(telling: Calling, tmp_path: Path) -> None:
    """The folders of an attempt are gone with it."""
    await telling.call("tells", {"how": "long bytes"})
    await telling.call("tells", {"how": "file"})
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes()


@pytest.mark.parametrize("names", ["api_token", ("no name",), ("ok", "tok-secret"), ("",), ("a" * 65,), (1,)])
def test_names_of_secrets_are_checked_when_a_tool_is_declared(names: tuple[str, ...]) -> None:
    """One text, or what is no name: which may be a value, and is not repeated."""

    def reads() -> str:
        """Read."""
        return ""

    with pytest.raises(InputError) as error:
        tool(effect="read", timeout=SHORT, secrets=names)(reads)
    assert 'such as secrets=("api_token",)' in str(error.value)
    assert "tok-secret" not in str(error.value)
