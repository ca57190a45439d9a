"""The command `hopfed`, also as `python -m hopfed`."""

import atexit
import os
import signal
import sys
import warnings
from contextlib import suppress
from threading import Timer, main_thread
from typing import Any

INTERRUPTED = 130  # exit status of what Ctrl-C ended
AGAIN = 0.01  # seconds after which an interrupt that was lost comes again


def interrupt_again(unraisable: Any) -> None:
    """Interrupt once more where Python lost an interrupt in a callback of its own."""
    if unraisable.exc_type is KeyboardInterrupt:
        Timer(AGAIN, signal.pthread_kill, (main_thread().ident, signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(unraisable)


def say_own_warnings() -> None:
    """Let every warning of hopfed's own be one line of this process, said once.

    What libraries warn of, such as a mean of nothing, users see if they ask Python for warnings.
    """
    if sys.warnoptions:
        warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
        return
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        from hopfed.errors import safe_line  # the words may be those of a stranger's network

        text = safe_line(" ".join(str(message).split()))
        if category.__module__.partition(".")[0] == "hopfed" and text not in said:
            said.add(text)
            print(f"warning: {text}", file=sys.stderr)

    warnings.simplefilter("default")  # `show` chooses: a filter would have to import categories
    warnings.showwarning = show


def main() -> None:
    """Run the command line, and leave in one line when it is interrupted, also as it loads."""
    status, came = INTERRUPTED, []

    def interrupted(number: int, _: Any) -> None:
        came.append(number)  # a library that is cut off may say something else
        raise KeyboardInterrupt

    if hasattr(signal, "pthread_kill"):  # not on Windows
        sys.unraisablehook = interrupt_again
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, interrupted)
    try:
        # Workers are started as `python -c`, which imports from the current folder before all else.
        os.environ.setdefault("PYTHONSAFEPATH", "1")
        say_own_warnings()
        from hopfed.cli import main as run

        run()
        return
    except SystemExit as stop:
        if not isinstance(stop.code, int) or stop.code == 0:
            raise
        status = stop.code
    except BaseException as error:
        if not came and not isinstance(error, KeyboardInterrupt):
            raise
        print("interrupted", file=sys.stderr)
    # A library that was cut off as it loaded can crash the interpreter that takes it down again.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # the other end is closed
            stream.flush()
    os._exit(status)


# A process that the command starts imports this module too, and does not call `main`.
if "multiprocessing.spawn" in sys.modules:
    from multiprocessing import current_process

    if current_process().name != "MainProcess":
        say_own_warnings()

if __name__ == "__main__":
    # `python -m` would look for modules in the current folder first; `hopfed` does not.
    if not sys.flags.safe_path and os.path.realpath(sys.path[0]) == os.path.realpath(os.getcwd()):
        del sys.path[0]
    main()
