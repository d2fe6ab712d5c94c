"""`make demo`, which is `python -m infra.demo`: the way in, so short that Ctrl-C is heard from the first moment."""

import os
import signal


def main() -> None:
    """Run the demo and end the process; exit codes as in `infra.demo.show`."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # until something runs there is nothing to stop in order
    # Loads for a second or more: Ctrl-C would interrupt it with a traceback.
    import traceback

    from infra.demo.show import main as run
    from infra.exits import FAILED
    from infra.process import leave

    try:
        exit_status = run()
    except SystemExit as end:  # the command line was wrong, or asked for help
        exit_status = int(end.code or 0)
    except BaseException:  # noqa: BLE001 - a bug: show it all, and still end safely
        traceback.print_exc()
        exit_status = FAILED
    leave(exit_status)


if __name__ == "__main__":
    main()
