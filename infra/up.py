"""What `make up` does: the local stack and a worker in the foreground, until Ctrl-C."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

import structlog
from rich.console import Console

from core.errors import InputError, PerdureError
from infra.foreground import until_stopped
from infra.logging import configure_logging
from infra.settings import STACK_FILE, Settings, load_settings
from infra.stack import LocalStack

log = structlog.stdlib.get_logger(__name__)


async def _run_in_foreground(settings: Settings, worker_command: Sequence[str]) -> None:
    """Run stack and worker until SIGINT, SIGTERM or SIGHUP; the first one stops all in order, more change nothing."""
    stack = LocalStack(
        settings.data_dir,
        bucket=settings.s3_bucket,
        temporal_port=settings.local_temporal_port,
        ui_port=settings.local_ui_port,
        s3_port=settings.local_s3_port,
    )
    if await until_stopped(
        _run_until_cancelled(stack, worker_command),
        on_stop=lambda: log.info("stopping: the worker drains, then the servers end"),
    ):
        log.info("stopped")


async def _run_until_cancelled(stack: LocalStack, worker_command: Sequence[str]) -> None:
    async with stack:
        await stack.run("worker", worker_command)
        _announce(stack)
        await asyncio.Event().wait()


def _announce(stack: LocalStack) -> None:
    addresses = stack.addresses
    console = Console(highlight=False, soft_wrap=True)
    console.print("\n[bold green]Perdure is up.[/]")
    console.print(f"  Web UI    [link]{addresses.ui}[/]")
    console.print(f"  Temporal  {addresses.temporal}")
    console.print(f"  S3        {addresses.s3}, bucket {stack.bucket}; credentials in {stack.data_dir / STACK_FILE}")
    console.print(f"  Logs      {stack.data_dir / 'logs'}")
    console.print("\nNext, in another terminal:")
    console.print("  .venv/bin/python starter.py agents")
    console.print('  .venv/bin/python starter.py start analyst "What stands out in this data?" --attach FILE --follow')
    console.print("  .venv/bin/python starter.py list")
    console.print(f"  .venv/bin/temporal --address {addresses.temporal} workflow list")
    console.print("\nCtrl-C stops everything and loses nothing.\n")
    for variable, ours, theirs in _strangers(stack):
        console.print(f"[yellow]Note:[/] {variable} is set to {theirs}: other commands go there, not to {ours}.")


def _strangers(stack: LocalStack) -> list[tuple[str, str, str]]:
    """Return what the environment or `.env` points elsewhere: (variable, the stack's value, the other one)."""
    mine, found = stack.settings(), load_settings()
    pairs = [
        ("TEMPORAL_ADDRESS", mine.temporal.address, found.temporal.address),
        ("PERDURE_S3_ENDPOINT_URL", mine.s3_endpoint_url, found.s3_endpoint_url),
    ]
    return [(name, str(ours), theirs or "another server") for name, ours, theirs in pairs if ours != theirs]


def main() -> int:
    """Run `make up`. Exit code 0: stopped as asked; 2: wrong settings; 3: the stack can't run."""
    parser = argparse.ArgumentParser(prog="python -m infra.local", description="Run the local stack and a worker.")
    parser.add_argument("worker", nargs="*", help="another worker command, after --; default: worker.py")
    worker_command = parser.parse_args().worker or [sys.executable, "worker.py"]
    try:
        settings = load_settings()
        configure_logging(settings)
        asyncio.run(_run_in_foreground(settings, worker_command))
    except PerdureError as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, InputError) else 3
    return 0
