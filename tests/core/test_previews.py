"""Facts about surveys: hash, size, media type, detail and preview of any bytes."""

import csv
import hashlib
import io
import json
import random
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import previews
from core.content import PREVIEW_BYTES
from core.previews import Survey, survey_bytes, survey_file


def png(width: int, height: int) -> bytes:
    """Return the beginning of a PNG of this size."""
    return b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR" + struct.pack(">II", width, height) + b"\x08\2\0\0\0"


def jpeg(width: int, height: int) -> bytes:
    """Return the beginning of a JPEG of this size."""
    return b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08" + struct.pack(">HH", height, width) + b"\3" * 10


@pytest.mark.parametrize(
    ("name", "data", "media_type", "detail"),
    [
        ("a.csv", b"a,b,c\n1,2,3\n4,5,6\n", "text/csv", "2 rows, 3 columns"),
        ("a.csv", b"a;b\n1;2", "text/csv", "1 row, 2 columns"),
        ("a.csv", b'a,b\n"x\ny",2\n', "text/csv", "1 row, 2 columns"),
        ("a.csv", b'a,b\n5" pipe,2\n6" pipe,3\n', "text/csv", "2 rows, 2 columns"),
        ("a.csv", b"a\nb\nc\n", "text/csv", "2 rows, 1 column"),
        ("a.csv", b"Dear reader, this\nis prose; nothing\nelse", "text/csv", "3 lines"),
        ("a.csv", b"", "text/csv", "empty"),
        ("a.csv", b"\n\n", "text/csv", "blank"),
        ("a.tsv", b"a\tb\n1\t2\n", "text/tab-separated-values", "1 row, 2 columns"),
        ("a.json", b'{"a": 1, "b": [1, 2]}', "application/json", "2 keys"),
        ("a.json", b"[1, 2, 3]", "application/json", "3 items"),
        ("a.json", b'{"a": ', "application/json", "1 line"),
        ("a.jsonl", b'{"a": 1}\n{"a": 2}\n', "application/x-ndjson", "2 records"),
        ("a.md", b"# Title\n\nText\n", "text/markdown", "3 lines"),
        ("a.yaml", b"a: 1\n", "application/yaml", "1 line"),
        ("a.py", b"print(1)\n", "text/x-python", "1 line"),
        ("noname", b"words\n", "text/plain", "1 line"),
        ("a.png", png(640, 480), "image/png", "640 x 480 pixels"),
        ("a.gif", b"GIF89a" + struct.pack("<HH", 3, 4), "image/gif", "3 x 4 pixels"),
        ("a.jpg", jpeg(30, 20), "image/jpeg", "30 x 20 pixels"),
        ("a.parquet", b"PAR1\0\1\2\3PAR1", "application/vnd.apache.parquet", ""),
        ("lies.csv", png(1, 2), "image/png", "1 x 2 pixels"),
        ("lies.png", b"only words\n", "text/plain", "1 line"),
        ("a.xlsx", b"PK\3\4\0\0", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ""),
        ("a.bin", bytes(range(256)), "application/octet-stream", ""),
    ],
)
def test_the_bytes_decide_and_the_name_refines(name: str, data: bytes, media_type: str, detail: str) -> None:
    """A file is what its bytes say; its name tells kinds of text apart."""
    survey = survey_bytes(data, name)
    assert (survey.media_type, survey.detail) == (media_type, detail)
    assert survey.size_bytes == len(data)
    assert survey.sha256 == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_text_is_read_in_its_encoding(encoding: str) -> None:
    """Byte order marks, and Latin-1 where it is no UTF-8."""
    survey = survey_bytes("größe;ü\n1;ä\n".encode(encoding), "a.csv")
    assert survey.detail == "1 row, 2 columns"
    assert "größe, ü" in survey.preview
    assert "1 | ä" in survey.preview


def test_a_declared_media_type_stands_and_a_malformed_one_does_not() -> None:
    """What a tool says of its output holds, when it is a media type at all."""
    assert survey_bytes(b"x", "a.txt", "text/markdown").media_type == "text/markdown"
    assert survey_bytes(b"x", "a.txt", "no media type\n").media_type == "text/plain"


def test_a_long_text_shows_its_head_and_its_tail() -> None:
    """What is between is counted."""
    survey = survey_bytes("".join(f"line {number}\n" for number in range(1000)).encode(), "a.log")
    assert survey.preview.startswith("line 0\nline 1\n")
    assert survey.preview.endswith("line 998\nline 999")
    first, last = survey.preview.splitlines(), survey.preview.splitlines()[::-1]
    shown = len(first) - 1
    assert f"... {1000 - shown} lines ..." in first
    assert last[0] == "line 999"


def test_a_json_shows_its_shape() -> None:
    """Keys and lengths, not the beginning of its text."""
    data = json.dumps({"rows": [1] * 5000, "about": {"by": "me", "n": 1}, "ok": True}).encode()
    preview = survey_bytes(data, "a.json").preview
    assert "rows: array of 5,000" in preview
    assert "about: object with 2 keys: by (text), n (number)" in preview


def test_a_long_array_shows_its_first_element() -> None:
    """A JSON that is longer than what is looked at is not parsed whole."""
    data = ("[" + ",".join('{"a": 1, "b": 2}' for _ in range(200_000)) + "]").encode()
    survey = survey_bytes(data, "a.json")
    assert survey.preview.startswith("array of many items; the first: object with 2 keys")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.json", b"[" * 200_000),
        ("a.json", b'{"a": "\\ud800"}'),
        ("a.json", b"9" * 10_000),
        ("a.json", b"NaN"),
        ("a.jsonl", b" \n" * 100_000 + b"x"),
        ("a.csv", b'"' * 100_000),
        ("a.csv", b"a,b\n" + b"x" * 200_000 + b",1\n"),
        ("a.csv", ",".join(f"column number {number}" for number in range(5000)).encode() + b"\n1\n"),
        ("a.txt", b"\xed\xa0\x80 a surrogate"),
        ("a.txt", "\u202egnp.exe\ufeff\u2066".encode()),
        ("a.txt", "\x85\u2066".encode()),
        ("a.txt", b"\x1b[31mred\x1b[0m\x07\x08"),
        ("a.jpg", b"\xff\xd8\xff" + b"\xff" * 20),
        ("a.png", b"\x89PNG\r\n\x1a\n"),
        ("a.gif", b"GIF89a"),
        ("a.txt", "ü".encode() * 400_000),
        ("../../etc/passwd\0\n", b"x"),
    ],
)
def test_odd_bytes_never_raise_and_never_reach_the_preview(name: str, data: bytes) -> None:
    """A preview is short, valid UTF-8 without control characters, whatever the bytes."""
    check(survey_bytes(data, name))


@given(st.binary(max_size=300), st.sampled_from(["a.csv", "a.json", "a.jsonl", "a.txt", "a.png", "a.tsv", "a"]))
def test_any_bytes_have_a_preview(data: bytes, name: str) -> None:
    """Nothing raises."""
    check(survey_bytes(data, name))


@given(st.text(max_size=300), st.sampled_from(["a.csv", "a.json", "a.jsonl", "a.txt", "a.tsv"]))
def test_any_text_has_a_preview(text: str, name: str) -> None:
    """Nothing raises on text, either."""
    check(survey_bytes(text.encode(errors="replace"), name))


def check(survey: Survey) -> None:
    """Say whether a survey is fit to be sent and shown."""
    for text in (survey.preview, survey.detail):
        assert len(text.encode()) <= PREVIEW_BYTES
        assert not any(ord(c) < 32 and c not in "\n\t" for c in text)
        assert not any("\u202a" <= c <= "\u202e" or c == "\x7f" for c in text)
    assert survey.preview


def test_records_are_those_that_a_csv_reader_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotes, doubled quotes and line ends within them, wherever a chunk ends."""
    dice = random.Random(7)
    for _ in range(500):
        file = io.StringIO()
        cells = ["".join(dice.choice('ab",\n;') for _ in range(dice.randrange(6))) or "z" for _ in range(8)]
        csv.writer(file).writerows([["one", "two"], *zip(cells[::2], cells[1::2], strict=True)])
        monkeypatch.setattr(previews, "CHUNK_BYTES", dice.choice([40, 41, 43, 1000]))
        data = file.getvalue().encode()
        expected = len(list(csv.reader(io.StringIO(file.getvalue(), newline="")))) - 1
        text = previews._Text("utf-8", table=True)
        for at in range(0, len(data), 3):
            text.feed(data[at : at + 3])
        assert text.records - 1 == expected, data


def test_a_file_of_one_huge_line_takes_constant_memory(tmp_path: Path) -> None:
    """One pass, in chunks, whether it has lines or not."""
    path = tmp_path / "one-line.csv"
    with path.open("wb") as file:
        for _ in range(64):
            file.write(b"x" * previews.CHUNK_BYTES)
    tracemalloc.start()
    survey = survey_file(path, "one-line.csv")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert survey.detail == "1 line"
    assert survey.size_bytes == 64 * previews.CHUNK_BYTES
    assert peak_bytes < 24 * previews.CHUNK_BYTES


def test_a_file_and_its_bytes_have_the_same_survey(tmp_path: Path) -> None:
    """Whether something was in memory or on disk does not show."""
    data = b"a,b\n" + b'"1\n2",3\n' * 300_000
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    assert survey_file(path, "a.csv") == survey_bytes(data, "a.csv")
    assert survey_bytes(data, "a.csv").detail == "300,000 rows, 2 columns"
