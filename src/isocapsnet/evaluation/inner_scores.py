"""Scores of inner fits in a file, so that a search continues where it was interrupted, or with more candidates."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._files import DamagedError, locked, read_json, write_whole
from isocapsnet._validation import InputError
from isocapsnet.evaluation.naming import canonical_json, digest_of

# A search that is killed loses the fits of about this time.
_SECONDS_BETWEEN_FILES = 1.0
_FIELDS = {"settings": str, "fold": str, "score": float, "seconds": float}


class InnerScores:
    """The ROC AUC of candidates in inner folds, read from a file and written to it as they come in.

    A file holds the scores of one search: of one method, version, preparation and training fold of one dataset. A score
    is found by the settings of its candidate and by the subjects of its inner fold. Without a path nothing is kept.

    Attributes
    ----------
    reused_seconds : float
        What the fits took whose scores were found.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._scores: dict[tuple[str, str], tuple[float, float]] = {}
        self._written, self._n_written = time.monotonic(), 0
        self.reused_seconds = 0.0
        if path is not None:
            self._scores = _read(path)
            self._n_written = len(self._scores)

    def find(self, settings: Mapping[str, Any], fold: str) -> float | None:
        """The score of a candidate in a fold, see :func:`name_fold`; None if it is not known."""
        score, seconds = self._scores.get((canonical_json(settings), fold), (None, 0.0))
        self.reused_seconds += seconds
        return score

    def add(self, settings: Mapping[str, Any], fold: str, score: float, seconds: float) -> None:
        """Keep a score; the file is written if the last time is a second ago."""
        if not np.isnan(score):
            self._scores[canonical_json(settings), fold] = float(score), seconds
        if time.monotonic() - self._written > _SECONDS_BETWEEN_FILES:
            self.write()

    def write(self) -> None:
        """Write the file if there are new scores; those that another run has written meanwhile stay in it."""
        if self._path is not None and len(self._scores) > self._n_written:
            with locked(self._path.parent):
                self._scores = _read(self._path) | self._scores
                scores = [dict(zip(_FIELDS, (*who, *what), strict=True)) for who, what in self._scores.items()]
                content = {"key": self._path.stem, "scores": scores}
                text = canonical_json({**content, "sha256": digest_of(content)})
                write_whole(self._path, text.encode(), self._path.parents[2] / "partial")
            self._n_written = len(self._scores)
        self._written = time.monotonic()


def _read(path: Path) -> dict[tuple[str, str], tuple[float, float]]:
    """Score and seconds by settings and fold; none if the file cannot be used."""
    try:
        content = check_scores(read_json(path))
    except (DamagedError, FileNotFoundError):
        return {}
    if content["key"] != path.stem:  # the scores of another search
        return {}
    return {(s["settings"], s["fold"]): (s["score"], s["seconds"]) for s in content["scores"]}


def name_fold(train: NDArray[np.int64], test: NDArray[np.int64]) -> str:
    """The digest of the subjects of an inner fold."""
    return digest_of([train.tolist(), test.tolist()])


def check_scores(content: Any) -> dict[str, Any]:
    """The content of a file without its checksum, or DamagedError."""
    if not isinstance(content, dict) or content.keys() != {"key", "scores", "sha256"}:
        raise DamagedError("holds no scores of a search")
    inner = {"key": content["key"], "scores": content["scores"]}
    try:
        is_whole = digest_of(inner) == content["sha256"]
    except (InputError, RecursionError):
        is_whole = False
    if not is_whole:
        raise DamagedError("was changed after it was written: its checksum differs")
    if not isinstance(inner["key"], str) or not isinstance(inner["scores"], list):
        raise DamagedError("holds no scores of a search")
    for item in inner["scores"]:
        typed = isinstance(item, dict) and item.keys() == _FIELDS.keys()
        if not typed or not all(type(item[name]) is kind for name, kind in _FIELDS.items()):
            raise DamagedError("holds an invalid score")
        if not (0 <= item["score"] <= 1 and item["seconds"] >= 0):
            raise DamagedError(f"holds a ROC AUC of {item['score']:g} after {item['seconds']:g} s")
    return inner
