"""The content rule, and text made safe to send and to show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.content import (
    INLINE_BYTES,
    INLINE_JSON_BYTES,
    Content,
    clean,
    cut,
    fits_inline,
    inline,
    label,
    one_line,
    readable_bytes,
)
from core.scopes import artifact_key, scope_prefix
from tests.entries import artifact


def test_inline_text_is_at_most_4_kib() -> None:
    """More is refused where it would be made, so that no payload can grow by it."""
    assert Content(text="x" * INLINE_BYTES).artifact is None
    with pytest.raises(ValidationError, match="store it as an artifact"):
        Content(text="ü" * INLINE_BYTES)


@pytest.mark.parametrize("text", ['"' * INLINE_BYTES, "\n" * INLINE_BYTES, "ü" * (INLINE_BYTES // 2)])
def test_ordinary_text_of_4_kib_fits_inline(text: str) -> None:
    """Quotes and line ends take two bytes in a payload, which is provided for."""
    assert fits_inline(text)
    assert not fits_inline(text + "x")


def test_text_that_grows_in_a_payload_does_not_fit_inline() -> None:
    """Control characters take six bytes each: 200 results of a turn would be too much for one payload."""
    text = "\x1b" * INLINE_BYTES
    assert len(Content(text=text).model_dump_json()) > 2 * INLINE_JSON_BYTES
    assert not fits_inline(text)
    assert fits_inline(text[: INLINE_JSON_BYTES // 6])


def test_content_is_text_or_an_artifact() -> None:
    """Never both, never neither."""
    for wrong in ({}, {"text": "x", "artifact": artifact(1)}):
        with pytest.raises(ValidationError, match="either text or an artifact"):
            Content.model_validate(wrong)


@given(st.text(alphabet=st.characters(codec=None)))
def test_clean_text_can_always_be_sent(text: str) -> None:
    """Lone surrogates and NULs are replaced, the rest stays."""
    cleaned = clean(text)
    assert "\0" not in cleaned.encode().decode()


@given(st.text(), st.integers(3, 50))
def test_cut_text_fits(text: str, limit: int) -> None:
    """Also when a character takes several bytes."""
    assert len(cut(text, limit).encode()) <= limit


def test_a_cut_inline_text_shows_that_something_is_missing() -> None:
    """An ellipsis stands for the rest."""
    assert (inline("x" * 5000).text or "").endswith("…")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("Müll und Räume.csv", "Müll und Räume.csv"),
        ("C:\\temp\\a.csv", "a.csv"),
        ("..", "unnamed"),
        ("", "unnamed"),
        ("a\nb\0c", "a b␀c"),
        ("\ud800.txt", "���.txt"),
    ],
)
def test_a_label_is_one_safe_path_segment(name: str, shown: str) -> None:
    """Names come from people, tools and models: they are labels, never paths."""
    assert label(name) == shown


def test_one_line_folds_and_cuts() -> None:
    """Summaries stay on their line."""
    assert one_line("a\n\tb   c") == "a b c"
    assert len(one_line("word " * 100, 20)) == 20


@pytest.mark.parametrize(("size", "text"), [(812, "812 bytes"), (1_234_567, "1.2 MB"), (5 * 10**12, "5.0 TB")])
def test_sizes_are_written_as_people_do(size: int, text: str) -> None:
    """Decimal units."""
    assert readable_bytes(size) == text


def test_a_scope_prefix_is_readable_and_unique() -> None:
    """Ids that only differ in odd characters do not share a folder, and none leaves it."""
    assert scope_prefix("a/b") != scope_prefix("a b")
    assert artifact_key("../../x", "ab").startswith("scopes/x-")
