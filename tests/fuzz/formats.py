"""The formats that are fuzzed, by name."""

import os
import pickle
import uuid
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

from tests.fuzz.cases import Case, make_case
from tests.fuzz.seeds import Seed

#: Name to the function that makes its seeds; imported when asked for, because models bring torch.
FORMATS = {
    "npz": "tests.fuzz.seeds:npz",
    "saved": "tests.fuzz.seeds:saved",
    "npy": "tests.fuzz.seeds:npy",
    "text": "tests.fuzz.seeds:text",
    "mat5": "tests.fuzz.seeds:mat5",
    "mat73": "tests.fuzz.seeds:mat73",
    "hdf5": "tests.fuzz.seeds:hdf5",
    "graphml": "tests.fuzz.seeds:graphml",
    "tudataset": "tests.fuzz.seeds:tudataset",
    "pickles": "tests.fuzz.seeds:pickles",
    "participants": "tests.fuzz.seeds:participants",
    "stacks": "tests.fuzz.seeds_layouts:stacks",
    "rows": "tests.fuzz.seeds_layouts:rows",
    "regions": "tests.fuzz.seeds_layouts:regions",
    "nel": "tests.fuzz.seeds_layouts:nel",
    "cifti": "tests.fuzz.seeds_layouts:cifti",
    "models": "tests.fuzz.seeds_learned:models",
    "records": "tests.fuzz.seeds_learned:records",
}


@cache
def seeds_of(name: str) -> list[Seed]:
    """The valid examples of a format, or of what ``module:function`` makes.

    Where ``FUZZ_SEEDS`` names a folder they are kept there: a worker that takes the place of a dead one need not fit
    models first.
    """
    folder = os.environ.get("FUZZ_SEEDS")
    kept = Path(folder) / name.replace(":", "-") if folder else None
    if kept is not None and kept.exists():
        return pickle.loads(kept.read_bytes())
    seeds: list[Seed] = resolve_name(FORMATS.get(name, name))()
    if kept is not None:
        partial = kept.with_name(uuid.uuid4().hex)
        partial.write_bytes(pickle.dumps(seeds))
        partial.replace(kept)
    return seeds


def case(name: str, number: int, only: int | None = None) -> Case:
    """Case NUMBER of a format, the same each time; with ``only``, that one of its damages alone."""
    return make_case(name, number, seeds_of(name), only)
