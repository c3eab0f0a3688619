"""The figures of a report from Python: ``results.plot.<name>()``."""

from typing import TYPE_CHECKING, Any

from isocapsnet._validation import InputError

if TYPE_CHECKING:
    from isocapsnet._results import Results


class Plots:
    """The figures of a report by name; ``dir(results.plot)`` lists them."""

    def __init__(self, results: "Results") -> None:
        self._results = results

    def __dir__(self) -> list[str]:
        from isocapsnet.report.figures import FIGURES

        return sorted(FIGURES)

    def __getattr__(self, name: str) -> Any:
        from isocapsnet._reporting import make_content
        from isocapsnet.report.figures import FIGURES

        if name not in FIGURES:
            raise AttributeError(f"There is no figure {name!r}; choose from {', '.join(sorted(FIGURES))}.")

        def draw(method: str | None = None, **options: Any) -> Any:
            if method is not None and FIGURES[name].of == "study":
                raise InputError(f"The figure {name} is about all methods; leave out {method!r}.")
            return FIGURES[name](make_content(self._results), method, **options)

        return draw
