"""The command `hopfed`, also as `python -m hopfed`."""

import atexit
import os
import signal
import sys
from _thread import interrupt_main
from contextlib import suppress
from threading import Timer, main_thread
from typing import Any

INTERRUPTED = 130  # exit status of what Ctrl-C ended
AGAIN = 0.01  # seconds after which an interrupt that was lost comes again


def interrupt_this_process() -> None:
    """Send the main thread an interrupt that also ends what it waits for."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)
    else:  # Windows
        interrupt_main()


def interrupt_again(unraisable: Any) -> None:
    """Interrupt once more where an interrupt was lost: in what Python calls to tidy up.

    A signal may come while Python runs a callback of its own, for instance as it imports a module;
    what is raised there is printed and forgotten.
    """
    if unraisable.exc_type is KeyboardInterrupt:
        Timer(AGAIN, interrupt_this_process).start()
    else:
        sys.__unraisablehook__(unraisable)


def was_interrupted(error: BaseException | None) -> bool:
    """Whether an interrupt is behind an error: a library that it cuts off raises one of its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def main() -> None:
    """Run the command line, and leave in one line when it is interrupted, also as it loads."""
    status = INTERRUPTED
    sys.unraisablehook = interrupt_again
    try:
        import warnings

        # Workers are started as `python -c`, which would import from the current folder before
        # all else: a file there called multiprocessing.py, of whoever made the folder, would run.
        os.environ.setdefault("PYTHONSAFEPATH", "1")

        if not sys.warnoptions:  # what libraries warn of, a mean of nothing, is not for users
            warnings.simplefilter("ignore")
            warnings.filterwarnings("default", ".* is called .* now", FutureWarning)
        warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
        from hopfed.cli import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    except Exception as error:
        if not was_interrupted(error):
            raise
        print("interrupted", file=sys.stderr)
    except SystemExit as stop:
        if not isinstance(stop.code, int) or stop.code == 0:
            raise
        status = stop.code
    else:
        return
    # A library that was cut off as it loaded, or a thread of it that still reads ahead, can crash
    # the interpreter that takes it down again: tidy up, and end.
    atexit._run_exitfuncs()
    with suppress(OSError):  # nobody listens any more
        sys.stdout.flush()
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    # `python -m` puts the current folder first, where modules may lie that are not what they are
    # called; the command `hopfed` does not look there either.
    if not sys.flags.safe_path and os.path.realpath(sys.path[0]) == os.path.realpath(os.getcwd()):
        del sys.path[0]
    main()
