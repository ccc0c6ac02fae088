"""The command line. Commands parse, call, print and set an exit code; what they need is imported inside them.

Exit codes: 0 done and nothing wrong; 1 done, and something that was asked about is not right (a rule fails, an input
could not be read); 2 could not be done (bad arguments, bad configuration, missing store). `docs/reference/cli.md` lists
them per command.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the command ``recovery``."""
    from attribution.model import RecoveryError

    try:
        from attribution.cli.app import app

        app()
    except RecoveryError as error:
        _say(error)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not our failure; keep Python from complaining at exit.
        sys.stderr.close()
        sys.exit(141)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


def _say(error: Exception) -> None:
    what = getattr(error, "what", str(error))
    where, mend = getattr(error, "where", None), getattr(error, "mend", None)
    sys.stderr.write(f"recovery: {where + ': ' if where else ''}{what}\n")
    if mend:
        sys.stderr.write(f"  to mend it: {mend}\n")
