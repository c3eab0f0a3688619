"""Layouts in which all subjects are in one file, and lists of regions, as seeds."""

from pathlib import Path
from typing import Any

from tests.datasets import layouts
from tests.fuzz.seeds import Seed, _Collector, _undated

_STUDY = layouts.make_forty()[:8]
#: Options that change what is read, or that are refused.
_MORE: tuple[dict[str, Any], ...] = (
    {"skip_refused": True}, {"exclude": ["50010"]}, {"exclude": ["50010"], "skip_refused": True}, {"target": "nothing"},
    {"n_nodes": 8}, {"n_nodes": 10**6}, {"where": "Modality=fMRI"}, {"array": "nothing"}, {"subjects": "nothing"},
    {"triangle": "upper", "n_nodes": 8}, {"max_missing": 0.01}, {"atlas": "aal90"},
)  # fmt: skip


def _add(made: _Collector, name: str, *targets: str) -> None:
    """The layout of that name, read as it can be."""
    layout = layouts.LAYOUTS[name]
    options = {**layout.options, **layout.remedy}
    plain = {key: value for key, value in options.items() if key not in ("site", "covariates")}
    source = ""

    def write(folder: Path) -> None:
        nonlocal source
        folder.mkdir(exist_ok=True)
        path = layout.write(_STUDY, folder)
        source = path.relative_to(folder).as_posix()
        if path.suffix == ".mat":
            _undated(path)

    variants = (*[options] * 8, *[plain] * 8, *({**plain, **more} for more in _MORE))
    made.add(write, ".", targets=targets, options=variants)
    made.seeds[-1] = Seed(**{**vars(made.seeds[-1]), "source": source})


def _collect(*names: str) -> list[Seed]:
    made = _Collector()
    for name in names:
        _add(made, name)
    return made.seeds


def stacks() -> list[Seed]:
    return _collect(
        "stacked .npy and a table", "BNT dictionary", "list of matrices", "stacked .npz, other names",
        "stacked .mat, other names", "one .npz per subject",
    )  # fmt: skip


def rows() -> list[Seed]:
    return _collect(
        "triangles, titled by number", "triangles, titled by name", "triangles, bare", "HCP netmats", "one edge list",
        "several rows per subject",
    )  # fmt: skip


def regions() -> list[Seed]:
    return _collect("different regions, one list", "different regions, long list", "different regions, lists")


def nel() -> list[Seed]:
    return _collect(".nel")


def cifti() -> list[Seed]:
    return _collect(".pconn.nii")
