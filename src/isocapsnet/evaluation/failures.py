"""The type, message and traceback of an exception as text, even if the exception fails to provide them."""

from collections.abc import Callable
from traceback import format_exception

_LONGEST_REASON = 2_000
_LONGEST_TRACEBACK = 20_000


def describe_failure(error: BaseException) -> dict[str, str]:
    """``reason`` (type and message) and ``traceback`` of an error record, shortened if they are very long."""
    message = _guarded(lambda: str(error), what="message")
    text = _guarded(
        lambda: "".join(cut(line, _LONGEST_TRACEBACK) for line in format_exception(error)), what="traceback"
    )
    reason = f"{_guarded(lambda: type(error).__name__, what='name')}: {message}".strip().rstrip(":")
    return {
        "reason": printable(cut(reason, _LONGEST_REASON)),
        "traceback": cut(text, _LONGEST_TRACEBACK),
    }


def cut(text: str, length: int) -> str:
    """``text``; if it is too long, its beginning and end with the number of characters left out."""
    if len(text) <= length:
        return text
    return f"{text[: length // 2]} [... {len(text) - length} characters ...] {text[-(length // 2) :]}"


def printable(text: str) -> str:
    """``text`` with question marks for control characters and what cannot be encoded (line breaks stay)."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


def _guarded(show: Callable[[], str], *, what: str) -> str:
    """The text that ``show`` returns, or what happened instead."""
    try:
        return str.__str__(show()).encode(errors="replace").decode()
    except BaseException as error:
        return f"(it has no {what}: asking for it raised {type(error).__name__})"
