"""The command `hopfed`, also as `python -m hopfed`."""

import atexit
import os
import signal
import sys
import warnings
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


def is_own(category: type[Warning], text: str) -> bool:
    """Whether hopfed itself gives a warning; all others are of the libraries that it uses."""
    if category.__module__.partition(".")[0] == "hopfed":
        return True
    return issubclass(category, FutureWarning) and " is called " in text and " now;" in text


def say_own_warnings() -> None:
    """Let every warning of hopfed's own be one line of this process, said once.

    What libraries warn of, such as a mean of nothing, is not for users; they see it if they ask
    Python for warnings.
    """
    if sys.warnoptions:
        warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
        return
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if not is_own(category, text) or text in said:
            return
        said.add(text)
        from hopfed.errors import shown  # the words may be those of a stranger's network

        print(f"warning: {shown(text)}", file=sys.stderr)

    warnings.simplefilter("default")  # `show` chooses: a filter would have to import categories
    warnings.showwarning = show


class Interrupts:
    """Raise what Ctrl-C raises; keep that it came, as a library cut off may say something else."""

    came = False

    def __call__(self, *_: Any) -> None:
        """Answer the signal."""
        self.came = True
        raise KeyboardInterrupt


def main() -> None:
    """Run the command line, and leave in one line when it is interrupted, also as it loads."""
    status = INTERRUPTED
    sys.unraisablehook = interrupt_again
    interrupts = Interrupts()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, interrupts)
    try:
        # Workers are started as `python -c`, which would import from the current folder before
        # all else: a file there called multiprocessing.py, of whoever made the folder, would run.
        os.environ.setdefault("PYTHONSAFEPATH", "1")

        say_own_warnings()
        from hopfed.cli import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    except Exception:
        if not interrupts.came:
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


# A process that the command starts imports this module too, and does not call `main`. Its name is
# given by then; its parent is not.
if "multiprocessing.spawn" in sys.modules:
    from multiprocessing import current_process

    if current_process().name != "MainProcess":
        say_own_warnings()

if __name__ == "__main__":
    # `python -m` puts the current folder first, where modules may lie that are not what they are
    # called; the command `hopfed` does not look there either.
    if not sys.flags.safe_path and os.path.realpath(sys.path[0]) == os.path.realpath(os.getcwd()):
        del sys.path[0]
    main()
