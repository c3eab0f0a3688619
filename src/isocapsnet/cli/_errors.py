"""Messages of the library in the words of the command line: arguments become options, and functions commands."""

import re
from collections.abc import Iterable

# An argument with or without a value, as the library writes it: select=, index_base=0, kind="series", directed=False,
# confounds=["age", "sex"].
_ARGUMENT = re.compile(r"""(?<![\w.-])(\w+)=(?:"([^"]*)"|'([^']*)'|\[([^\]]*)\]|(\w+))?""")
_FUNCTION = re.compile(r"\bisocapsnet\.(benchmark|check_data|compare|explain|fit|predict|sweep|transform)\b")

_FETCH = re.compile(r"isocapsnet\.datasets\.fetch_atlas\('([\w-]+)'\)")


def as_options(sentence: str, names: Iterable[str]) -> str:
    """A sentence in which the arguments ``names`` are written as options: ``--index-base 0`` for ``index_base=0``.

    Functions of the front door are written as commands: ``isocapsnet data check`` for ``isocapsnet.check_data``.
    """
    arguments = {*names}

    def translate(match: re.Match[str]) -> str:
        name = match[1]
        if name not in arguments:
            return match[0]
        several = re.sub(r"""["'\s]""", "", match[4] or "")
        value = match[2] or match[3] or several or match[5] or ""
        if value in ("True", "False"):
            negated = "un" if name == "directed" else "no-"
            return f"--{negated if value == 'False' else ''}{name.replace('_', '-')}"
        return f"--{name.replace('_', '-')} {value}".rstrip()

    sentence = _FUNCTION.sub(r"isocapsnet \1", _ARGUMENT.sub(translate, sentence))
    sentence = _FETCH.sub(r"isocapsnet data fetch-atlas \1", sentence)
    return sentence.replace("isocapsnet check_data", "isocapsnet data check")
