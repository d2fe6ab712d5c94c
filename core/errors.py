"""The one error tree.

```
PerdureError                  retried?
├── InputError                no   the caller's mistake: agent file, attachment, setting, start input
├── SecretMissing             no   a tool's secret is not there, or can't be used as it is: the run pauses
├── StorageError
│   ├── StoreUnavailable      yes  network, 5xx, timeout
│   ├── StoreRefused          no   credentials, bucket, permission
│   ├── BlobMissing           no   a reference to nothing
│   └── BlobCorrupt           no   the bytes do not have the hash that names them
├── ModelError
│   ├── ModelUnavailable      yes  429, 5xx, network, timeout; carries `retry_after_seconds`
│   ├── ReplyMalformed        yes  an answer that can't be read: HTML, garbage, a stream without its end
│   ├── ModelRefused          no   401, 403, unknown model, missing key, exhausted script
│   ├── ContentRefused        no   the provider's filter will not answer this prompt
│   └── ContextTooLong        no   the prompt does not fit the model's window
└── ToolError                      raised by a tool on purpose; the text is what the model reads
    ├── NotDone               yes  nothing happened: safe to repeat, whatever the effect
    ├── TimedOut              yes  it did not end in its time; raised by its surroundings
    ├── LeftBehind            yes  the same, and it can't be stopped
    └── Failed                no   it went wrong for good
```

A model's mistake (unknown tool, bad arguments) is no exception: it is a failed `ToolResult`, which the model reads.
"""

from typing import ClassVar


class PerdureError(Exception):
    """Base of all errors that Perdure raises; `str()` names the thing and the cure."""

    retryable: ClassVar[bool] = False
    retry_after_seconds: float | None = None


class InputError(PerdureError):
    """What the caller gave is wrong; repeating it gives the same error."""


class SecretMissing(PerdureError):
    """A secret that a tool needs is not there, or can't be used as it is; the tool was not started."""


class StorageError(PerdureError):
    """Blob storage did not do what was asked."""


class StoreUnavailable(StorageError):
    """The store can't be reached or failed by itself; the same request may succeed later."""

    retryable = True


class StoreRefused(StorageError):
    """The store refused: wrong credentials, missing bucket, no permission."""


class BlobMissing(StorageError):
    """No object under this key."""


class BlobCorrupt(StorageError):
    """An object's bytes do not have the SHA-256 that names them."""


class ModelError(PerdureError):
    """A model call failed."""


class ModelUnavailable(ModelError):
    """The provider is down, overloaded or limits the rate; retried after `retry_after_seconds` or a backoff."""

    retryable = True

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        """Keep what the provider said about when to come back, in seconds; None when it said nothing."""
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ReplyMalformed(ModelError):
    """The provider answered something that can't be read; the same request may be answered well later."""

    retryable = True


class ModelRefused(ModelError):
    """The provider will not answer this request, however often it is sent."""


class ContentRefused(ModelError):
    """The provider's filter refuses what the prompt says; another prompt or another model may be answered."""


class ContextTooLong(ModelError):
    """The prompt does not fit into the model's context window."""


class ToolError(PerdureError):
    """Raised by a tool on purpose: the model reads the text."""


class NotDone(ToolError):
    """Nothing happened outside: repeating the call is safe, whatever the tool's effect."""

    retryable = True


class TimedOut(ToolError):
    """The tool did not end within its timeout. What it did until then is not known."""

    retryable = True


class LeftBehind(ToolError):
    """The tool did not end within its timeout and can't be stopped: it may still do what it was told to."""

    retryable = True


class Failed(ToolError):
    """The tool failed for good: the model is told and may try something else."""
