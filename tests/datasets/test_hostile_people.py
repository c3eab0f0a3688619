"""Who is who in studies as they lie around: identifiers, persons, sites. Each study is read right or refused."""

import numpy as np
import pandas as pd
import pytest

from isocapsnet import InputError, load_graphs

RNG = np.random.default_rng(0)
N = 12
GRAPHS = np.stack([np.corrcoef(RNG.normal(size=(6, 40))) for _ in range(N)])
DX = ["ASD", "TC"] * 6
NUMBERS = [f"{i + 1:03d}" for i in range(N)]
PAIRS = [f"p{i // 2}" for i in range(N)]


def write_study(folder, names, **columns):
    """A matrix for each name, and a table if there are columns."""
    for name, matrix in zip(names, GRAPHS, strict=False):
        np.save(folder / f"{name}.npy", matrix)
    if columns:
        pd.DataFrame(columns).to_csv(folder / "participants.csv", index=False)
    return folder


def classes(data):
    return [data.label_names[code] if code >= 0 else None for code in data.labels]


# -- the column of identifiers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["patient", "site_id", "session_id", "diagnosis_code"])
@pytest.mark.parametrize("title", ["subject", "eid", "SUB_ID"])
def test_numbers_of_groups_are_neither_identifiers_nor_rivals(tmp_path, title, other):
    groups = {other: [1 + i // 6 for i in range(N)]}
    data = load_graphs(write_study(tmp_path, NUMBERS, **{title: range(1, N + 1)}, **groups, dx=DX), target="dx")
    assert classes(data) == DX


@pytest.mark.parametrize("groups", [[0, 1] * 6, [1 + i // 4 for i in range(N)]])
@pytest.mark.parametrize("target", ["patient", "sex"])
def test_the_target_is_never_the_column_of_identifiers(tmp_path, target, groups):
    write_study(tmp_path, NUMBERS, number=range(1, N + 1), patient=groups, sex=["M", "F"] * 6)
    with pytest.raises(InputError, match="participant_id"):
        load_graphs(tmp_path, target=target)
    data = load_graphs(tmp_path, target=target, subjects="number")
    assert classes(data) == (list(map(str, groups)) if target == "patient" else ["M", "F"] * 6)


def test_several_rows_per_subject_still_identify(tmp_path):
    """Identifiers repeat in a table of visits, and are no groups."""
    visits = {"subject": np.repeat(range(1, 5), 4), "visit": [1, 2, 3, 4] * 4, "dx": np.repeat(["a", "b"] * 2, 4)}
    data = load_graphs(write_study(tmp_path, NUMBERS[:4], **visits), target="dx")
    assert classes(data) == ["a", "b", "a", "b"]
