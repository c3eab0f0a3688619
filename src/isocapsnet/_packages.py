"""Packages of an extra: an error of its own if one is missing, and a check before any work is done (leaf module)."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from isocapsnet._validation import InputError


class MissingPackageError(InputError, ImportError):
    """A package of an extra is not installed. It is a fault of the machine, so no search goes on without it."""


@contextmanager
def importing(what: str, extra: str, otherwise: str = "") -> Iterator[None]:
    """Raise MissingPackageError if an import in the block fails.

    Parameters
    ----------
    what : str
        The beginning of the sentence: "Figures need matplotlib".
    extra : str
        The extra of this package that installs what is missing.
    otherwise : str
        The end of the sentence: "or use another method".
    """
    try:
        yield
    except ImportError as error:
        raise MissingPackageError(f"{what} ({error}); {_remedy(extra, otherwise)}") from error


def check_packages(name: str, packages: Mapping[str, str], otherwise: str = "") -> None:
    """Refuse what ``name`` stands for if a package is not installed. Nothing is imported.

    ``packages`` are modules with their extras: ``{"pyriemann": "methods"}``.
    """
    for module, extra in packages.items():
        is_there = sys.modules.get(module) is not None
        with suppress(ImportError, ValueError):
            is_there = is_there or find_spec(module) is not None
        if not is_there:
            raise MissingPackageError(f"{name} needs {module}, which is not installed; {_remedy(extra, otherwise)}")


def packages_of(kind: Any) -> dict[str, str]:
    """The ``packages`` of a class of ours; none of one whose attribute of this name is something else."""
    packages = getattr(kind, "packages", None)
    return dict(packages) if isinstance(packages, Mapping) else {}


def _remedy(extra: str, otherwise: str) -> str:
    return f'run: pip install "isocapsnet[{extra}]"{", " * bool(otherwise)}{otherwise}'
