"""The long form of the tests that kill, and where it leaves what it saw."""

import json
import os
import sys
from pathlib import Path

CHAOS = os.environ.get("CHAOS") == "1"
FILE = Path(".local/chaos.json")


def report(name: str, found: object, table: str = "") -> None:
    """Print what was found; the long form also keeps it, under its name, in `.local/chaos.json`."""
    shown = table or f"{name}: {json.dumps(found, indent=1)}"
    sys.stdout.write(f"\n{shown}\n")
    if not CHAOS:
        return
    FILE.parent.mkdir(exist_ok=True)
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    FILE.write_text(json.dumps({**kept, name: found}, indent=1))
