"""What the tests against the wire share: credentials for AWS, and the versions of the clients at the end."""

from importlib.metadata import version

import pytest

CLIENTS = ("pydantic-ai-slim", "anthropic", "openai", "google-genai", "boto3", "httpx2")


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials and a region that AWS's client finds by itself."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which versions of the providers' clients ran against the wire."""
    terminalreporter.write_line("against the wire: " + ", ".join(f"{name} {version(name)}" for name in CLIENTS))
