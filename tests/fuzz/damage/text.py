"""Damage to lines and cells: what exports, spreadsheets and hand edits do to a table, and what an attacker would."""

import re
from collections.abc import Callable
from random import Random

#: Cells that are no number, nearly a number, or a number that does not fit.
CELLS = (
    "", " ", "nan", "NaN", "inf", "-inf", "1e999", "-1e999", "1e-400", "1e308", "1e39", "9" * 30, "9" * 5000, "-0",
    "0", "1.9", "-1", "1_000", "0x10", "1,5", "1.234,5", "1e", "--1", "+", "-", ".", "n/a", "NA", "null", "None",
    "True", "\uff11\uff12", "\u0663", "\u2212" + "1", "1\u00a0000", "½", "²", '"', '""', '"a', 'a"b', "'", "\\", "\0",
    "\x1b[31mred", "\u202e", "é", "\U0001f9e0", "a\tb", "a;b", "a,b", "#", "# 1", "=cmd()", "@x", "sub-01", "control",
    "x" * 10_000, "18446744073709551616", "2147483648", "9223372036854775808", "1e18", "25000", "1000000",
)  # fmt: skip
_BREAKS = ("\r\n", "\r", "\n\n", "\n\r", "\v", "\f", "\x1c", "\x85", "\u2028", " \n", "\n# c\n")
_DELIMITERS = ("\t", ",", ";", " ", "  ", "|", ", ", ":", "\u00a0", "\0")
_ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-7", "cp1252", "utf-8")

Lines = list[str]


def _line(lines: Lines, rng: Random) -> int:
    return rng.choice((0, rng.randrange(len(lines)), len(lines) - 1))


def _delete_line(lines: Lines, rng: Random) -> None:
    del lines[_line(lines, rng)]


def _duplicate_line(lines: Lines, rng: Random) -> None:
    lines.insert(rng.randrange(len(lines) + 1), lines[_line(lines, rng)])


def _shuffle_lines(lines: Lines, rng: Random) -> None:
    rng.shuffle(lines)


def _swap_lines(lines: Lines, rng: Random) -> None:
    i, j = _line(lines, rng), _line(lines, rng)
    lines[i], lines[j] = lines[j], lines[i]


def _cut_line(lines: Lines, rng: Random) -> None:
    i = _line(lines, rng)
    lines[i] = lines[i][: rng.randrange(len(lines[i]) + 1)]


def _insert_line(lines: Lines, rng: Random) -> None:
    cell = rng.choice(CELLS)
    lines.insert(
        rng.randrange(len(lines) + 1), rng.choice((cell, f"# {cell}", "\t".join([cell] * rng.randrange(1, 9))))
    )


def _edit_cells(lines: Lines, rng: Random) -> None:
    """Delete, repeat, replace or exchange cells of one line."""
    i = _line(lines, rng)
    parts = re.split(r"([\t,; ]+)", lines[i])
    cells = range(0, len(parts), 2)
    j, k = rng.choice(cells), rng.choice(cells)
    action = rng.randrange(6)
    if action == 0:
        del parts[j : j + 2]
    elif action == 1:
        parts[j:j] = parts[j : j + 2] * rng.choice((1, 1, 5, 300))
    elif action == 2:
        parts[j], parts[k] = parts[k], parts[j]
    elif action == 3:
        parts[j] = f'"{parts[j]}"'
    else:
        parts[j] = rng.choice(CELLS)
    lines[i] = "".join(parts)


def _edit_column(lines: Lines, rng: Random) -> None:
    """Give one column of every line the same content, or take it away."""
    j, cell = 2 * rng.randrange(4), rng.choice((None, *CELLS))
    for i, line in enumerate(lines):
        parts = re.split(r"([\t,; ]+)", line)
        if j < len(parts):
            parts[j : j + 2] = [] if cell is None else [cell, *parts[j + 1 : j + 2]]
        lines[i] = "".join(parts)


def _change_delimiter(lines: Lines, rng: Random) -> None:
    new = rng.choice(_DELIMITERS)
    where = range(len(lines)) if rng.random() < 0.6 else (_line(lines, rng),)
    for i in where:
        lines[i] = re.sub(r"[\t,; ]", lambda _: new, lines[i])


def _insert_text(lines: Lines, rng: Random) -> None:
    i = _line(lines, rng)
    place = rng.randrange(len(lines[i]) + 1)
    lines[i] = lines[i][:place] + rng.choice(CELLS) + lines[i][place:]


def _trail(lines: Lines, rng: Random) -> None:
    """The same at the end, or the start, of every line."""
    extra = rng.choice(("\t", ",", ";", " ", '"', "\0", "x"))
    lines[:] = [line + extra for line in lines] if rng.random() < 0.7 else [extra + line for line in lines]


def _multiply(lines: Lines, rng: Random) -> None:
    lines[1:] = lines[1:] * rng.choice((2, 10, 100))


_MUTATORS: tuple[Callable[[Lines, Random], None], ...] = (
    _delete_line, _duplicate_line, _shuffle_lines, _swap_lines, _cut_line, _insert_line, _edit_cells, _edit_cells,
    _edit_cells, _edit_cells, _edit_column, _change_delimiter, _insert_text, _insert_text, _trail, _multiply,
)  # fmt: skip


def damage_text(content: bytes, rng: Random) -> bytes:
    """The text after one to five operations on its lines, now and then in another encoding or with other line ends."""
    lines = content.decode("utf-8", "replace").splitlines()
    for _ in range(rng.choice((1, 1, 2, 2, 5))):
        if lines:
            rng.choice(_MUTATORS)(lines, rng)
    end = rng.choice(_BREAKS) if rng.random() < 0.15 else "\n"
    text = end.join(lines) + rng.choice(("", end, end, end))
    if rng.random() < 0.1:
        return text.encode(rng.choice(_ENCODINGS), "replace")
    return text.encode("utf-8", "replace")
