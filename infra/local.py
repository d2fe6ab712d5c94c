"""`make up`, which is `python -m infra.local`: the way in, so short that Ctrl-C is heard from the first moment."""

import os
import signal


def main() -> None:
    """Run `make up` and end the process; exit codes as in `infra.up`."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))  # until something runs there is nothing to stop in order
    # Loads for a second or more: Ctrl-C would interrupt it with a traceback.
    from infra.process import leave
    from infra.up import main as run

    leave(run())


if __name__ == "__main__":
    main()
