"""What is kept of an exception: its type, its message and its traceback, whatever the exception does to prevent it."""

import traceback
from collections.abc import Callable

_LONGEST_REASON = 2_000
_LONGEST_TRACEBACK = 20_000


def describe_failure(error: BaseException) -> dict[str, str]:
    """``reason`` (type and message) and ``traceback`` of an error record, both cut where they are very long."""
    message = _guarded(lambda: str(error), what="message")
    reason = f"{_guarded(lambda: type(error).__name__, what='name')}: {message}".strip().rstrip(":")
    return {
        "reason": printable(cut(reason, _LONGEST_REASON)),
        "traceback": cut(_guarded(lambda: _format(error), what="traceback"), _LONGEST_TRACEBACK),
    }


def cut(text: str, length: int) -> str:
    """``text``, or its beginning, its end and how much is missing in between."""
    if len(text) <= length:
        return text
    return f"{text[: length // 2]} [... {len(text) - length} characters ...] {text[-(length // 2) :]}"


def printable(text: str) -> str:
    """``text`` with a question mark for whatever would change a terminal or cannot be written (line breaks stay)."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


def _format(error: BaseException) -> str:
    parts = traceback.TracebackException.from_exception(error).format()
    return "".join(cut(part, _LONGEST_TRACEBACK) for part in parts)


def _guarded(show: Callable[[], str], *, what: str) -> str:
    """A text that an exception gives; what happened where it gives none, or one that no file can hold."""
    try:
        return str.__str__(show()).encode(errors="replace").decode()
    except BaseException as error:
        return f"(it has no {what}: asking for it raised {type(error).__name__})"
