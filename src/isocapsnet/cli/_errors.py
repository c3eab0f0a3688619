"""Messages of the library in the words of the command line: arguments become options."""

import re
from collections.abc import Iterable

# An argument with or without a value, as the library writes it: select=, index_base=0, kind="series", directed=False.
_ARGUMENT = re.compile(r"""(?<![\w.-])(\w+)=(?:"([^"]*)"|'([^']*)'|(\w+))?""")


def as_options(sentence: str, names: Iterable[str]) -> str:
    """A sentence in which the arguments ``names`` are written as options: ``--index-base 0`` for ``index_base=0``."""
    arguments = {*names}

    def translate(match: re.Match[str]) -> str:
        name = match[1]
        if name not in arguments:
            return match[0]
        value = match[2] or match[3] or match[4] or ""
        if value in ("True", "False"):
            return f"--{'un' if value == 'False' else ''}{name.replace('_', '-')}"
        return f"--{name.replace('_', '-')} {value}".rstrip()

    return _ARGUMENT.sub(translate, sentence)
