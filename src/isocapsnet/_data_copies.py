"""The copy of a dataset in a results folder: written for the workers, found again for reports and comparisons."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isocapsnet._files import naming, set_aside
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation.failures import printable
from isocapsnet.evaluation.records import check_truth
from isocapsnet.evaluation.samples import DataSource, Samples


def publish(samples: Samples, folder: Path) -> DataSource:
    """Save the data under ``folder``, where workers map them into memory; this process goes on with what it has.

    A copy that exists is read and compared with the data; if it differs, it is written again.
    """
    data = samples.data
    path = (folder / "data" / f"{data.digest().removeprefix('sha256:')[:16]}.npz").absolute()
    if not _is_copy(path, data):
        if path.exists():
            warnings.warn(f"{path} is damaged or was changed; it is written again from the data.", stacklevel=2)
        if path.is_dir():
            set_aside(path, folder / "rejected" / "data")
        with naming(path):
            data.save(path)
    source = DataSource(
        loader="isocapsnet.datasets.graphs:BrainGraphs.load",
        digest=samples.digest,
        arguments={"path": str(path)},
        file=str(path),
        group=samples.group,
        use_series=samples.use_series,
    )
    source.keep(samples)
    return source


def _is_copy(path: Path, data: BrainGraphs) -> bool:
    """Whether a file holds these data."""
    try:
        return path.is_file() and BrainGraphs.load(path).digest() == data.digest()
    except Exception:  # a damaged archive can fail in any way
        return False


class DataCopies:
    """The intact copies of data in results folders, by the digest that records name.

    Attributes
    ----------
    problems : list of str
        A sentence for each copy that cannot be used.
    """

    def __init__(self, *folders: Path) -> None:
        self.problems: list[str] = []
        self._paths = sorted(path for folder in folders for path in folder.glob("data/*.npz"))
        self._by_digest: dict[str, Samples] = {}

    def find(self, digest: str) -> Samples | None:
        """The data with this digest, grouped as the digest says; None if there is no copy. A copy is read once."""
        while digest not in self._by_digest and self._paths:
            path = self._paths.pop(0)
            try:
                data = BrainGraphs.load(path)
                groups = [None, *([] if data.covariates is None else data.covariates.columns)]
                views = [Samples(data, group) for group in groups]
            except Exception as error:  # a damaged archive can fail in any way
                self.problems.append(printable(f"The copy of the data in {path.name} cannot be used: {error}"))
            else:
                self._by_digest = {view.digest: view for view in views} | self._by_digest
        return self._by_digest.get(digest)

    def check(self, record: Mapping[str, Any]) -> None:
        """Refuse a record (DamagedError) whose labels differ from those of the data, if there is a copy."""
        samples = self.find(record["job"]["dataset"])
        if samples is not None:
            check_truth(record, samples)
