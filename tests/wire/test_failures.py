"""Every way to fail, through every provider's real client: one error of ours, which says what and how to mend it."""

import asyncio
import socket
import sys
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest
from pydantic import SecretStr

from core.errors import ContentRefused, ModelRefused, ModelUnavailable, ReplyMalformed
from infra.accounts import Accounts
from infra.models import Models
from infra.streams import CHUNK_SETTING, FIRST_CHUNK_SETTING, StreamLimits
from tests.wire.dialects import DIALECTS, KEY, Dialect, accounts_at, models_on
from tests.wire.faults import IN_STREAM, ROWS
from tests.wire.said import Fault, Said
from tests.wire.server import Answer, plain
from tests.wire.sse_dialects import SSE, event
from tests.wire.talk import LOOKS, ask

EACH = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
LONG = Said(texts=("It rains. " * 50,))
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai-responses": "OPENAI_API_KEY", "google": "GOOGLE_API_KEY"}


@EACH
async def test_every_row_of_the_table_holds_for_every_provider(dialect: Dialect) -> None:
    """Its kind, its cure, its wait; asked once only, and nothing of the key."""
    async with models_on([dialect.fails(row.by(dialect.provider)) for row in ROWS]) as (models, wire):
        for row in ROWS:
            with pytest.raises(row.error, match=row.says) as caught:
                await models.reply(ask(dialect.model))
            assert dialect.model in str(caught.value), row.name
            assert KEY not in str(caught.value), row.name
            assert (caught.value.__cause__, caught.value.retry_after_seconds) == (None, row.wait_seconds), row.name
    assert len(wire.received) == len(ROWS)


@EACH
async def test_an_error_in_the_middle_of_an_answer_is_the_same_error(dialect: Dialect) -> None:
    """The status was 200 already: the error's own code and words decide."""
    answers = [dialect.fails_in_stream(LONG, row.by(dialect.provider)) for row in IN_STREAM]
    async with models_on(answers) as (models, wire):
        for row in IN_STREAM:
            with pytest.raises(row.error, match=row.says):
                await models.reply(ask(dialect.model))
    assert len(wire.received) == len(IN_STREAM)


async def test_google_says_in_the_body_how_long_to_wait() -> None:
    """RetryInfo is taken where there is no header."""
    google = DIALECTS["google"]
    fault = Fault(429, "RESOURCE_EXHAUSTED", "slow", retry_delay="14s")
    async with models_on([google.fails(fault)]) as (models, _):
        with pytest.raises(ModelUnavailable) as caught:
            await models.reply(ask(google.model))
    assert caught.value.retry_after_seconds == 14.0


async def test_a_prompt_that_google_blocks_is_refused() -> None:
    """There is no candidate then, only the reason."""
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": "gemini-3.8-flash"}
    async with models_on([Answer(event(blocked), content_type=SSE)]) as (models, _):
        with pytest.raises(ContentRefused, match="PROHIBITED_CONTENT"):
            await models.reply(ask("google:gemini-3.8-flash"))


@EACH
async def test_a_name_with_a_typo_gets_the_near_ones(dialect: Dialect) -> None:
    """The names are those that the client library knows."""
    prefix, near = {
        "anthropic": ("claude-sonet-5-5", "claude-sonnet-5-5"),
        "google": ("gemini-3.8-flsh", "gemini-3.8-flash"),
        "bedrock": ("moonshotai.kimi-k2.6", "moonshotai.kimi-k2.5"),
    }.get(dialect.provider, ("gpt-6.1-tera", "gpt-6.1-terra"))
    faults = {"bedrock": Fault(400, "ValidationException", "The provided model identifier is invalid.")}
    fault = faults.get(dialect.provider, Fault(404, "not_found_error", "no such model"))
    async with models_on([dialect.fails(fault)]) as (models, _):
        with pytest.raises(ModelRefused, match=f"Near names: .*{dialect.provider}:{near}"):
            await models.reply(ask(f"{dialect.provider}:{prefix}"))


async def test_a_model_that_the_client_itself_refuses_was_not_sent() -> None:
    """Such a failure has no status, and says so; near names may help here too."""
    async with models_on([]) as (models, wire):
        with pytest.raises(ModelRefused, match=r"not sent: .*Near names: .*openai.gpt-oss-120b-1:0"):
            await models.reply(ask("bedrock:openai.gpt-os-120b-1:0"))
    assert wire.received == []


async def test_missing_credentials_of_aws_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent without them, and a region is needed too."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    model = DIALECTS["bedrock"].model
    async with models_on([]) as (models, wire):
        with pytest.raises(ModelRefused, match=r"not sent: .*AWS_ACCESS_KEY_ID"):
            await models.reply(ask(model))
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    async with models_on([]) as (models, wire):
        with pytest.raises(ModelRefused, match="set AWS_DEFAULT_REGION"):
            await models.reply(ask(model))
    assert wire.received == []


@EACH
async def test_a_stream_without_its_last_event_is_no_short_reply(dialect: Dialect) -> None:
    """All its text came, and HTTP ended well: it may still not be whole, and is asked for again."""
    async with models_on([dialect.ends_early(LOOKS)]) as (models, _):
        with pytest.raises(ReplyMalformed, match="without its last event"):
            await models.reply(ask(dialect.model))


@EACH
async def test_a_connection_that_breaks_off_is_transient(dialect: Dialect) -> None:
    """Before the headers, before the first byte, at the start, in the middle of the text."""
    answers = [dialect.says(LONG).but(ending="dropped", keeps=keeps) for keeps in (-1, 0, 150, 1200)]
    async with models_on(answers) as (models, _):
        for _answer in answers:
            with pytest.raises(ModelUnavailable, match="broke off"):
                await models.reply(ask(dialect.model))


@EACH
@pytest.mark.parametrize(
    ("keeps", "setting"), [(-1, FIRST_CHUNK_SETTING), (0, FIRST_CHUNK_SETTING), (1200, CHUNK_SETTING)]
)
async def test_a_silent_stream_is_noticed_and_its_connection_closed(dialect: Dialect, keeps: int, setting: str) -> None:
    """In the time that is set, whose setting the error names: without headers, without a first chunk, after some."""
    short, long = timedelta(seconds=0.2), timedelta(seconds=60)
    limits = StreamLimits(long, short) if keeps > 0 else StreamLimits(short, long)
    answers = [dialect.says(LONG).but(ending="silent", keeps=keeps)] * 9
    async with models_on(answers, limits) as (models, wire):
        # A client may need longer than that to make up its first request.
        while not wire.silent.is_set():
            with pytest.raises(ModelUnavailable, match=f"0.2 s .*{setting}"):
                await models.reply(ask(dialect.model))
        # AWS's client blocks a thread until the headers come: it is left behind, and hangs up later.
        if not (dialect.provider == "bedrock" and keeps == -1):
            await asyncio.wait_for(wire.hung_up.wait(), 10)


async def test_a_slow_answer_is_not_a_stalled_one() -> None:
    """Whatever comes is a sign of life, a ping too: the answer may take longer than any of its pauses may."""
    limits = StreamLimits(chunk=timedelta(seconds=2))
    async with AsyncExitStack() as opened:
        calls = []
        for dialect in (dialect for name, dialect in DIALECTS.items() if name != "bedrock"):
            answer = dialect.says(LOOKS)
            async with models_on([answer]) as (models, _):
                await models.reply(ask(dialect.model))  # what a client does once, it has done
            pieces = answer.but(piece_bytes=len(answer.body) // 12, pause_seconds=0.2)
            models, _ = await opened.enter_async_context(models_on([pieces], limits))
            calls.append(models.reply(ask(dialect.model)))
        assert {reply.text for reply in await asyncio.gather(*calls)} == {LOOKS.texts[0]}


@EACH
async def test_a_cancelled_call_hangs_up_at_once(dialect: Dialect) -> None:
    """The provider stops writing what nobody reads."""
    async with models_on([dialect.says(LONG).but(ending="silent", keeps=1200)]) as (models, wire):
        call = asyncio.create_task(models.reply(ask(dialect.model)))
        await asyncio.wait_for(wire.silent.wait(), 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(wire.hung_up.wait(), 10)


@EACH
async def test_a_web_page_instead_of_an_answer_names_the_address(dialect: Dialect) -> None:
    """A login page of a proxy, say: with 200, and with an error's status."""
    page = Answer(b"<html><title>Please log in</title></html>", content_type="text/html")
    async with models_on([page, page.but(status=502)]) as (models, _):
        with pytest.raises(ReplyMalformed, match="_BASE_URL"):
            await models.reply(ask(dialect.model))
        with pytest.raises(ModelUnavailable, match="HTTP 502"):
            await models.reply(ask(dialect.model))


@EACH
async def test_garbage_with_a_good_status_is_malformed(dialect: Dialect) -> None:
    """Half JSON, nothing at all, JSON of another shape, JSON at once."""
    bodies = (b"data: {nonsense\n\n", b"", b"data: 7\n\ndata: []\n\n", b'event: x\ndata: {"choices": 7}\n\n')
    answers = [Answer(body, content_type=dialect.content_type) for body in bodies]
    async with models_on([*answers, plain({"ok": True}), plain([])]) as (models, _):
        for _answer in range(len(bodies) + 2):
            with pytest.raises(ReplyMalformed, match="_BASE_URL"):
                await models.reply(ask(dialect.model))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 429, "message": "slow down"}, ModelUnavailable),
        ({"code": 401, "message": "no such user"}, ModelRefused),
        ({"type": "content_filter", "message": "no"}, ContentRefused),
        ("out of order", ModelUnavailable),
    ],
)
async def test_an_error_in_an_answer_that_says_200_is_an_error(error: object, kind: type[Exception]) -> None:
    """Gateways do that; its own code and words decide."""
    async with models_on([plain({"error": error})]) as (models, wire):
        with pytest.raises(kind, match=r"openai:gpt-4o: .*(slow down|no such user|no|out of order)\."):
            await models.reply(ask("openai:gpt-4o"))
    assert len(wire.received) == 1


@EACH
async def test_an_address_where_nobody_answers_is_transient(dialect: Dialect) -> None:
    """It is named by its setting: it may be wrong, or down."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    models = Models(accounts_at(url))
    with pytest.raises(ModelUnavailable, match="_BASE_URL"):
        await models.reply(ask(dialect.model))
    await models.close()


@pytest.mark.parametrize("provider", KEYS)
@pytest.mark.parametrize("key", ["tops3cret\n", "tops 3cret", "tops\r\n3cret", "töps3cret"])
async def test_a_key_that_can_be_none_is_refused_before_anything_is_sent(provider: str, key: str) -> None:
    """The error names the setting and never shows the key."""
    secret = SecretStr(key)
    models = Models(Accounts(anthropic_api_key=secret, openai_api_key=secret, google_api_key=secret))
    with pytest.raises(ModelRefused, match=f"{KEYS[provider]}.*Nothing was sent") as caught:
        await models.reply(ask(f"{provider}:m"))
    assert "3cret" not in str(caught.value)


@pytest.mark.parametrize("provider", KEYS)
async def test_a_missing_key_names_its_setting(provider: str) -> None:
    """And that there is a model that needs none."""
    with pytest.raises(ModelRefused, match=f"set {KEYS[provider]}"):
        await Models().reply(ask(f"{provider}:m"))


@pytest.mark.parametrize(
    ("provider", "package", "extra"),
    [
        ("anthropic", "anthropic", "anthropic"),
        ("openai", "openai", "openai"),
        ("google", "google.genai.errors", "google"),
        ("bedrock", "boto3", "bedrock"),
    ],
)
async def test_a_missing_package_names_the_command(
    provider: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Providers' packages are optional; the error is the cure."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModelRefused, match=rf"pip install 'pydantic-ai-slim\[{extra}\]'"):
        await Models(accounts_at("http://127.0.0.1:1")).reply(ask(f"{provider}:m"))
