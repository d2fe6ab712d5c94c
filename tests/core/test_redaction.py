"""Facts about finding secrets in texts: in which forms, in whose company, and what is left."""

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.content import clean
from core.redaction import NO_SECRETS, Redaction, too_short

TOKEN = 'gh"p_7/k+ä\\Z'
KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nshort\n-----END KEY-----\n"

values = st.text(st.characters(exclude_characters="[]", exclude_categories=["Cs"]), min_size=4, max_size=40).filter(
    lambda value: not too_short(value)
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def hidden(text: str, **secrets: str) -> str:
    """Return the text without these secrets."""
    return Redaction.of(secrets).apply(text)


@given(values, texts, texts)
def test_a_value_is_replaced_wherever_it_stands(value: str, before: str, after: str) -> None:
    """Whatever is around it; the rest of the text stays."""
    text = hidden(before + value + after, api_token=value)
    assert "[secret api_token]" in text
    assert value not in text.replace("[secret api_token]", "[")


@given(values, texts)
def test_a_text_without_it_is_left_alone(value: str, text: str) -> None:
    """Nothing to hide, nothing changes."""
    if not Redaction.of({"a": value}).found_in([text.encode()]):
        assert hidden(text, a=value) == text
    assert NO_SECRETS.apply(text) == text


@given(values)
def test_a_value_is_found_in_its_usual_encodings(value: str) -> None:
    """JSON, JSON in JSON, repr, URLs, and Base64 with and without what fills it up."""
    data = value.encode()
    encoded = base64.b64encode(data).decode()
    for form in (
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(value)[1:-1])[1:-1],
        repr(value)[1:-1],
        json.dumps(repr(value)[1:-1])[1:-1],
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        encoded,
        encoded.rstrip("="),
        base64.urlsafe_b64encode(data).decode(),
    ):
        assert hidden(f"[{form}]", a=value) in {"[[secret a]]", "[[secret a]=]", "[[secret a]==]"}


@given(st.binary(max_size=20), values.filter(lambda value: len(value.encode()) >= 10), st.binary(max_size=20))
def test_a_value_is_found_inside_of_longer_base64(before: bytes, value: str, after: bytes) -> None:
    """`Authorization: Basic` encodes a name, a colon and the password; of the password at most its edges are left."""
    encoded = base64.b64encode(before + value.encode() + after).decode()
    left = hidden(encoded, password=value)
    assert "[secret password]" in left
    start, _, end = left.partition("[secret password]")
    assert len(start) <= len(before) * 8 // 6 + 2
    assert len(end) <= len(after) * 8 // 6 + 6


@given(values, values)
def test_secrets_that_overlap_leave_nothing_of_either(first: str, second: str) -> None:
    """One that is a part of the other, or begins where the other ends."""
    joined = first + second[-2:] + second
    left = hidden(joined, a=first, b=second).replace("[secret a]", "[").replace("[secret b]", "[")
    assert first not in left
    assert second not in left


def test_overlapping_values_are_replaced_as_one() -> None:
    """No remainder of the second stands behind the first."""
    assert hidden("xabcdefghx", a="abcd", b="bcdefgh") == "x[secret a]x"
    assert hidden("xabcdefghx", a="abcd", b="abcdefgh") == "x[secret b]x"
    assert hidden("abcdabcd", a="abcd") == "[secret a][secret a]"


def test_a_name_that_stands_in_the_replacement_does_no_harm() -> None:
    """What was put in is not looked at again."""
    assert hidden("my secret", a="secret") == "my [secret a]"


def test_long_lines_of_a_key_are_hidden_by_themselves() -> None:
    """A text that folds lines or quotes one of them shows none; short lines may stand anywhere."""
    text = hidden("key MIIEvQIBADANBgkqhkiG9w0 and short " + " ".join(KEY.split("\n")), key=KEY)
    assert text == "key [secret key] and short [secret key] [secret key] short [secret key] "
    assert hidden(f"<{KEY}>", key=KEY) == "<[secret key]>"
    assert hidden(json.dumps(KEY), key=KEY) == '"[secret key]"'


def test_what_becomes_of_nul_and_lone_surrogates_is_found_too() -> None:
    """Texts are cleaned before they are sent."""
    assert hidden("ab\u2400cd", a="ab\0cd") == "[secret a]"
    assert hidden(clean("ab\udc80cd"), a="ab\udc80cd") == "[secret a]"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "latin-1"])
def test_bytes_are_searched_in_every_encoding_that_previews_read(encoding: str) -> None:
    """Also where a chunk ends in its middle."""
    data = b"x" * 50 + TOKEN.encode(encoding) + b"y" * 50
    redaction = Redaction.of({"a": TOKEN})
    assert redaction.found_in([data])
    assert redaction.found_in([data[at : at + 3] for at in range(0, len(data), 3)])
    assert not redaction.found_in([data.replace(b"7", b"8")])
    assert not NO_SECRETS.found_in([data])


@pytest.mark.parametrize("value", ["", "abc", "   abc\n", "    "])
def test_a_value_that_stands_in_texts_by_chance_is_refused(value: str) -> None:
    """White space does not count; the text names the secret and not the value."""
    with pytest.raises(ValueError, match="secret pin has fewer than 4 characters"):
        Redaction.of({"pin": value})


def test_a_redaction_does_not_show_what_it_hides() -> None:
    """Not even to whoever prints it."""
    assert TOKEN not in repr(Redaction.of({"a": TOKEN}))
    assert not NO_SECRETS
    assert Redaction.of({"a": TOKEN})


def test_a_large_text_is_searched_quickly_enough() -> None:
    """Megabytes with thousands of places."""
    text = ("x" * 990 + "0123456789") * 4000
    assert hidden(text, a="0123456789").count("[secret a]") == 4000
