"""What a setting may be: seconds, names, packages, addresses; what is wrong says how it should be."""

import re
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field


def _seconds(value: object) -> object:
    try:
        seconds = value if isinstance(value, timedelta) else timedelta(seconds=float(str(value)))
    except (ValueError, OverflowError):
        seconds = timedelta(0)
    if seconds <= timedelta(0):
        raise ValueError("must be a number of seconds above 0, such as 10 or 2.5")
    return seconds


def _names(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _packages(value: object) -> object:
    names = _names(value)
    for name in names if isinstance(names, tuple) else ():
        if not all(part.isidentifier() for part in str(name).split(".")):
            raise ValueError(f"{name!r} is no dotted package name such as mycompany.tools")
    return names


def _url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an address such as https://s3.example.com or http://127.0.0.1:8333")
    if parts.username or parts.password:
        raise ValueError("must not carry a user or password: they have settings of their own, which are masked")
    return value


def _bucket(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", value):
        raise ValueError("must have 3 to 63 characters: a-z, 0-9, '-' and '.', a letter or digit at both ends")
    return value


Seconds = Annotated[timedelta, BeforeValidator(_seconds)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Packages = Annotated[tuple[str, ...], BeforeValidator(_packages)]
Bucket = Annotated[str, AfterValidator(_bucket)]
Port = Annotated[int, Field(gt=0, lt=65536)]
Count = Annotated[int, Field(gt=0)]
Url = Annotated[str, AfterValidator(_url)]
