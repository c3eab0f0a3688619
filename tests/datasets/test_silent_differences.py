"""Inputs that were read without a word and wrongly: each is refused now, or read as it is meant."""

import numpy as np
import pandas as pd
import pytest

from isocapsnet import BrainGraphs, load_graphs, make_planted_graphs
from isocapsnet._validation import InputError

RNG = np.random.default_rng(0)


def matrices(n_graphs, n_nodes):
    graphs = RNG.normal(size=(n_graphs, n_nodes, n_nodes))
    return graphs + graphs.swapaxes(1, 2)


def edge_table(path, **columns):
    rows = [(f"s{s}", i, j) for s in range(6) for i in range(5) for j in range(i + 1, 5)]
    frame = pd.DataFrame(rows, columns=["subject", "source", "target"])
    frame.assign(**{name: make(len(frame)) for name, make in columns.items()}).to_csv(path, index=False)


@pytest.mark.parametrize("title", ["fa", "streamlines", "pearson"])
def test_a_column_of_an_edge_table_that_may_hold_weights_is_not_ignored(tmp_path, title):
    edge_table(tmp_path / "edges.csv", **{title: lambda n: RNG.normal(size=n)})
    with pytest.raises(InputError, match=title):
        load_graphs(tmp_path / "edges.csv", kind="edges")


def test_the_third_column_of_an_edge_list_is_not_a_node(tmp_path):
    for subject in range(4):
        rows = [(e, i, j) for e, (i, j) in enumerate((i, j) for i in range(5) for j in range(i + 1, 5))]
        pd.DataFrame(rows, columns=["edge_id", "source", "target"]).to_csv(tmp_path / f"s{subject}.csv", index=False)
    with pytest.raises(InputError):
        load_graphs(tmp_path, kind="edges")


def test_the_index_of_a_filtered_frame_is_not_an_identifier(tmp_path):
    n_nodes = 4
    upper = np.triu_indices(n_nodes, 1)
    frame = pd.DataFrame(matrices(12, n_nodes)[:, *upper], columns=[f"r{i}~r{j}" for i, j in zip(*upper, strict=True)])
    frame.insert(0, "subject_id", np.arange(1, 13))
    table = pd.DataFrame({"subject_id": np.arange(1, 13), "dx": list("aabbabababba")})
    table.to_csv(tmp_path / "p.csv", index=False)
    kept = frame[frame["subject_id"] != 3]
    data = load_graphs(kept, participants=tmp_path / "p.csv", target="dx")
    expected = dict(zip(table["subject_id"].astype(str), table["dx"], strict=True))
    names = [data.label_names[code] for code in data.labels]
    assert names == [expected[subject] for subject in data.subjects]
    assert "3" not in data.subjects


def test_two_lists_of_regions_of_a_subject_are_refused(tmp_path):
    for session, lacking in (("ses-1", 2), ("ses-2", 4)):
        (tmp_path / session).mkdir()
        for subject in range(4):
            regions = [r for r in range(1, 7) if r != lacking]
            np.save(tmp_path / session / f"sub-{subject:02}.npy", matrices(1, 5)[0])
            (tmp_path / session / f"sub-{subject:02}_regions.txt").write_text("\n".join(map(str, regions)))
    with pytest.raises(InputError):
        load_graphs(tmp_path, select="ses-1")


def test_a_person_twice_in_a_stack_is_refused(tmp_path):
    subjects = [f"sub-{s:02}_ses-{v}" for s in range(4) for v in (1, 2)]
    np.savez(tmp_path / "s.npz", adjacency=matrices(8, 5), subjects=subjects)
    pd.DataFrame({"participant_id": [f"sub-{s:02}" for s in range(4)], "dx": list("abab")}).to_csv(
        tmp_path / "p.csv", index=False
    )
    with pytest.raises(InputError, match="subject 00"):
        load_graphs(tmp_path / "s.npz", participants=tmp_path / "p.csv", target="dx")


def test_a_cube_of_rounded_matrices_along_the_last_axis_is_refused(tmp_path):
    stack = matrices(6, 6) + 1e-7 * RNG.normal(size=(6, 6, 6))
    np.savez(tmp_path / "s.npz", adjacency=np.moveaxis(stack, 0, 2))
    with pytest.raises(InputError, match=r"\(6, 6, 6\)"):
        load_graphs(tmp_path / "s.npz")


def test_a_session_is_not_a_part_of_another_one(tmp_path):
    for subject in range(4):
        for session in (1, 12) if subject else (12,):
            np.save(tmp_path / f"sub-{subject:02}_ses-{session}.npy", matrices(1, 5)[0])
    assert load_graphs(tmp_path, select="ses-1").subjects.tolist() == ["01", "02", "03"]


def test_an_excluded_subject_is_only_that_one(tmp_path):
    np.savez(tmp_path / "s.npz", adjacency=matrices(10, 5))
    assert len(load_graphs(tmp_path / "s.npz")) == 10
    with pytest.raises(InputError, match="UM_1_0050302"):
        load_graphs(tmp_path / "s.npz", exclude="UM_1_0050302")


def test_a_condition_that_no_row_has_is_refused(tmp_path):
    np.savez(tmp_path / "s.npz", adjacency=matrices(4, 5), subjects=list("abcd"))
    pd.DataFrame({"participant_id": list("abcd"), "qc": ["ok", "fail", "ok", "ok"]}).to_csv(
        tmp_path / "p.csv", index=False
    )
    with pytest.raises(InputError, match="fail"):
        load_graphs(tmp_path / "s.npz", participants=tmp_path / "p.csv", where="qc!=failed")


def test_a_number_that_is_twice_in_a_file_name_gives_no_site(tmp_path):
    for site in (1, 2):
        for subject in range(1, 4):
            np.save(tmp_path / f"site{site}_sub{subject:02}.npy", matrices(1, 5)[0])
    with pytest.raises(InputError):
        load_graphs(tmp_path, site="@file")


def test_a_table_of_confounds_is_not_read_instead_of_the_matrix(tmp_path):
    from scipy.io import savemat

    for subject in range(4):
        savemat(tmp_path / f"s{subject}.mat", {"FC": matrices(1, 8)[0], "confounds": RNG.normal(size=(40, 6))})
    with pytest.raises(InputError, match="array"):
        load_graphs(tmp_path)


def test_planted_data_still_read(tmp_path):
    planted = make_planted_graphs(10, 6, random_state=0)
    BrainGraphs(planted.graphs, planted.labels).save(tmp_path / "p.npz")
    assert len(load_graphs(tmp_path / "p.npz")) == 10
