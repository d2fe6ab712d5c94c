"""Files that a person attaches to a run: checked before anything is started, then stored as artifacts."""

import stat
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

from core.artifacts import Artifacts
from core.content import NAME_CHARACTERS, ArtifactRef, clean, cut, label
from core.errors import InputError
from core.frozen import Frozen
from core.runs import ATTACHMENTS

PREVIEW_BYTES = 200
"""What a start input keeps of each preview, so that 200 attachments fit into it."""


class Attachment(Frozen):
    """A file that can be read, and the name that it has in the run: unique there, and safe to show."""

    path: Path
    name: str
    size_bytes: int


Report = Callable[[Attachment], None]
"""Is told of each attachment before it is stored."""


def check_attachments(paths: Sequence[Path]) -> tuple[Attachment, ...]:
    """Return the files under names that differ, whatever case or folder they come from.

    Raises:
        InputError: one is missing, no file, empty or unreadable, or there are too many; all bad ones are named.
    """
    if len(paths) > ATTACHMENTS:
        raise InputError(f"{len(paths)} attachments are too many, a run takes {ATTACHMENTS}: pack some into one file")
    problems = [f"{_shown(path)} {problem}" for path in paths if (problem := _problem(path))]
    if problems:
        raise InputError("nothing was started: " + "; ".join(f"attachment {problem}" for problem in problems))
    taken: set[str] = set()
    return tuple(Attachment(path=path, name=_free_name(path, taken), size_bytes=path.stat().st_size) for path in paths)


async def store_attachments(
    artifacts: Artifacts, attachments: Sequence[Attachment], report: Report
) -> tuple[ArtifactRef, ...]:
    """Store the files one after the other, each in constant memory, with short previews. Idempotent.

    Raises:
        InputError: a file changed or vanished meanwhile.
        StorageError: by its own verdict.
    """
    refs: list[ArtifactRef] = []
    for attachment in attachments:
        report(attachment)
        try:
            ref = await artifacts.store_file(attachment.path, attachment.name)
        except OSError as error:
            raise InputError(f"attachment {_shown(attachment.path)} can't be read any more ({error})") from error
        refs.append(ref.model_copy(update={"preview": cut(ref.preview, PREVIEW_BYTES)}))
    return tuple(refs)


def _problem(path: Path) -> str:
    """Say why a file can't be attached, in words that follow its name; empty when it can."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            return "is a folder: attach its files, or pack it into one"
        if not stat.S_ISREG(status.st_mode):
            return "is no regular file: copy what it gives into one"
        if status.st_size == 0:
            return "is empty: there is nothing to attach"
        with path.open("rb"):
            return ""
    except FileNotFoundError:
        return "is missing: check the path"
    except PermissionError:
        return "can't be read: check its permissions"
    except (OSError, ValueError) as error:
        return f"can't be read ({error}): check the path"


def _free_name(path: Path, taken: set[str]) -> str:
    """Choose a name that is not taken: `data.csv`, `data-2.csv`. File systems fold case and accents, so do we."""
    wanted = Path(unicodedata.normalize("NFC", label(str(path.absolute()))))
    name, number = wanted.name, 1
    while name.casefold() in taken:
        number += 1
        ending = f"-{number}{wanted.suffix}"
        name = wanted.stem[: NAME_CHARACTERS - len(ending)] + ending
    taken.add(name.casefold())
    return name


def _shown(path: Path) -> str:
    return repr(clean(str(path)))
