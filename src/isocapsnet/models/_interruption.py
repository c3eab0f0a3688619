"""Ctrl-C ends a fit with an exception, as everywhere else.

skorch takes a KeyboardInterrupt for a callback's wish to stop, and returns what was learned so far. From the keyboard
that would be a model trained for fewer epochs than it says, and in a benchmark a wrong result in the store.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end if the key raised one inside, whoever caught it and whatever came of that."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # only the main thread hears of the key
        return
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        try:
            before(number, frame)  # a handler of the user's own may have the fit go on
        except KeyboardInterrupt:
            pressed = True
            raise

    try:
        signal.signal(signal.SIGINT, note)
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            raise KeyboardInterrupt
