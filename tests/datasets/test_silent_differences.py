"""Inputs that were read without a word and wrongly: each is refused now, or read as it is meant."""

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from isocapsnet import BrainGraphs, load_graphs, make_planted_graphs
from isocapsnet._validation import InputError
from isocapsnet.datasets.identifiers import find_persons
from isocapsnet.datasets.passport import count_handled
from isocapsnet.datasets.readers import examine_graphs
from isocapsnet.datasets.reading import ReadOptions
from isocapsnet.datasets.remedies import find_remedies
from isocapsnet.evaluation.protocol import stratified_folds
from isocapsnet.evaluation.samples import Samples

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


# -- numbers of regions ------------------------------------------------------------------------------------------------


def write_regions(folder, low, high, n_lacking=1):
    """Each of six subjects lacks a region of those from ``low`` to ``high``, of which nobody lacks the last."""
    folder.mkdir()
    lists = {}
    for subject in range(6):
        regions = [number for number in range(low, high + 1) if number != low + 1 + subject % 3]
        lists[f"s{subject}"] = regions
        np.save(folder / f"s{subject}.npy", matrices(1, len(regions))[0])
    rows = [f"{subject},{' '.join(map(str, regions))}" for subject, regions in lists.items()]
    (folder / "regions.csv").write_text("subject,regions\n" + "\n".join(rows) + "\n")
    return folder


def test_numbers_of_regions_are_not_taken_to_count_from_1(tmp_path):
    """Of regions 0 to 9, nobody has 0: read from 1, all regions would have the place of the one before."""
    folder = write_regions(tmp_path / "open", 1, 8)
    with pytest.raises(InputError, match="index_base=0 or index_base=1"):
        load_graphs(folder, n_nodes=10)
    for base in (0, 1):
        read = load_graphs(folder, n_nodes=10, index_base=base)
        assert read.atlas.node_names == tuple(map(str, range(base, base + 10)))
        assert not read.adjacency[:, :1].any() if base == 0 else read.adjacency[:, 0].any()
    findings = examine_graphs(folder, ReadOptions(n_nodes=10))[1]
    remedies = find_remedies(folder, ReadOptions(n_nodes=10), findings)
    assert [remedy.changes for remedy in remedies] == [{"index_base": 0}, {"index_base": 1}]


def test_a_zero_or_the_last_region_says_where_counting_starts(tmp_path):
    for low, high, first in ((0, 8, 0), (1, 10, 1)):
        read = load_graphs(write_regions(tmp_path / str(low), low, high), n_nodes=10)
        assert read.atlas.node_names[0] == str(first)
    with pytest.raises(InputError, match="counted from 0"):
        load_graphs(tmp_path / "1", n_nodes=10, index_base=0)
    with pytest.raises(InputError, match="counted from 1"):
        load_graphs(tmp_path / "0", n_nodes=10, index_base=1)


def test_the_base_of_regions_is_not_ignored(tmp_path):
    folder = write_regions(tmp_path / "s", 0, 8)
    with pytest.raises(InputError, match="n_nodes="):
        load_graphs(folder, index_base=0)
    np.savez(tmp_path / "s.npz", adjacency=matrices(6, 5))
    with pytest.raises(InputError, match="index_base="):
        load_graphs(tmp_path / "s.npz", index_base=0)


# -- one person, several scans -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("sub-01_ses-1", "sub-01_ses-2"),
        ("sub-01_task-rest_run-1", "sub-01_task-nback_run-1"),
        ("01_run1", "01_run2"),
        ("01-visit-a", "01-visit-b"),
        ("100307_REST1_LR", "100307_REST2_RL"),
        ("S07_V1", "s7_V2"),
        ("007_test", "007_retest"),
        ("NYU_50952_session_1", "NYU_50952_session_2"),
    ],
)
def test_scans_of_a_person_are_recognised_by_their_names(first, second):
    assert len({*find_persons([first, second])}) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("scan1", "scan2"),
        ("control_run1", "control_run2"),
        ("01_control", "02_control"),
        ("test_01", "train_01"),
        ("runner01", "runner02"),
        ("A1_V12", "A1_V13"),
        ("NYU_1_50952", "NYU_2_50952"),
    ],
)
def test_others_are_not_merged(first, second):
    assert len({*find_persons([first, second])}) == 2


@pytest.mark.parametrize("style", ["{:02}_run{}", "sub-{:02}_ses-{}"])
def test_a_person_is_not_in_training_and_test_at_once(tmp_path, style):
    """Identifiers of a stack are of scans; there is no table that says so."""
    subjects = [style.format(person, scan) for person in range(12) for scan in (1, 2)]
    labels = np.repeat([0, 1] * 6, 2)
    np.savez(tmp_path / "s.npz", adjacency=matrices(24, 5), subjects=subjects, labels=labels)
    data, findings = examine_graphs(tmp_path / "s.npz")
    assert any("24 graphs of 12 people" in where[0] for where in data.handled.values())
    assert any("12 people" in sentence for sentence in findings.warnings)
    groups = Samples(data).groups
    for train, test in stratified_folds(data.labels, groups, 3, 0):
        assert not {subjects[i].partition("_")[0] for i in train} & {subjects[i].partition("_")[0] for i in test}


def test_files_of_one_person_are_refused_without_a_table(tmp_path):
    for person in range(6):
        for run in (1, 2):
            np.save(tmp_path / f"{person:02}_run{run}.npy", matrices(1, 5)[0])
    with pytest.raises(InputError, match="of one person") as caught:
        load_graphs(tmp_path)
    assert 'select="run1"' in str(caught.value)
    assert len(load_graphs(tmp_path, select="run1")) == 6


@pytest.mark.parametrize("names", [("s1", "s01"), ("A7", "a7"), ("sub-3", "3"), ("sub-3", "sub-03")])
def test_two_spellings_of_a_subject_are_refused_without_a_table(tmp_path, names):
    np.savez(tmp_path / "s.npz", adjacency=matrices(4, 5), subjects=[*names, "x8", "x9"])
    with pytest.raises(InputError, match="spellings of one subject"):
        load_graphs(tmp_path / "s.npz")
    for name in names:
        np.save(tmp_path / f"{name}.npy", matrices(1, 5)[0])
    (tmp_path / "s.npz").unlink()
    with pytest.raises(InputError, match=r"spellings of one|has 2 matrices"):
        load_graphs(tmp_path)


# -- conditions on rows ------------------------------------------------------------------------------------------------


def write_checked(folder, qc=("pass", "fail", "pass", "n/a", "none", "PASS", "pass", "fail"), name="qc"):
    rows = [f"s{i:02}\t{'ab'[i % 2]}\t{value}" for i, value in enumerate(qc)]
    for i in range(len(qc)):
        np.save(folder / f"s{i:02}.npy", matrices(1, 5)[0])
    (folder / "participants.tsv").write_text(f"participant_id\tdx\t{name}\n" + "\n".join(rows) + "\n")
    return folder


def test_subjects_who_do_not_fulfil_a_condition_are_left_out(tmp_path):
    folder = write_checked(tmp_path)
    np.save(folder / "s99.npy", matrices(1, 5)[0])  # without a row
    (folder / "s01.npy").write_bytes(b"damaged")  # not opened
    read = load_graphs(folder, target="dx", where="qc=pass")
    assert read.subjects.tolist() == ["s00", "s02", "s05", "s06"]
    assert read.is_labelled.all()
    assert {*read.exclusions} == {"s01", "s03", "s04", "s07", "s99"}
    assert all("where qc=pass" in reason for reason in read.exclusions.values())


def test_the_same_in_a_stack_whose_rows_are_in_the_order_of_the_table(tmp_path):
    write_checked(tmp_path)
    table, graphs = tmp_path / "participants.tsv", matrices(8, 5)
    np.save(tmp_path / "stack.npy", graphs)
    read = load_graphs(
        tmp_path / "stack.npy", participants=table, subjects="participant_id", target="dx", where="qc=pass"
    )
    frame = load_graphs(graphs, participants=pd.read_csv(table, sep="\t"), target="dx", where="qc=pass")
    for one in (read, frame):
        assert np.array_equal(one.adjacency, graphs[[0, 2, 5, 6]])
        assert len(one.exclusions) == 4
        assert one.is_labelled.all()


def test_left_out_rows_do_not_change_who_is_who(tmp_path):
    """Without the row of 1_2, the file of 1_2 has the name of 2."""
    for name in ("1_2", "1_3", "2", "3"):
        np.save(tmp_path / f"{name}.npy", matrices(1, 5)[0])
    (tmp_path / "participants.csv").write_text("participant_id,dx,qc\n1_2,a,0\n1_3,b,0\n2,a,1\n3,b,1\n")
    read = load_graphs(tmp_path, target="dx", where="qc=1")
    assert read.subjects.tolist() == ["2", "3"]
    assert np.array_equal(read.adjacency[0], np.load(tmp_path / "2.npy"))


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("v=2", [0, 1, 2]),
        ("v!=2", [3, 4, 5, 6, 7]),
        ("v=02", [0, 1, 2]),
        ("v=none", [3]),
        ("v!=none", [0, 1, 2, 4, 5, 6, 7]),
        ("v=n/a", [4, 5]),
        ("v=", [4, 5]),
        ("v=NA", [6]),
        ("v=2b", [7]),
    ],
)
def test_values_are_compared_by_one_rule(tmp_path, condition, kept):
    write_checked(tmp_path, ("2", "02", "2.0", "none", "n/a", "", "na", "2B"), "v")
    for table in (
        tmp_path / "participants.tsv",
        pd.read_csv(tmp_path / "participants.tsv", sep="\t", dtype=str, keep_default_na=False),
    ):
        read = load_graphs(tmp_path, participants=table, where=condition)
        assert read.subjects.tolist() == [f"s{i:02}" for i in kept]


def test_a_proposed_condition_is_added_to_those_given(tmp_path):
    rows = [(f"s{i:02}", "ab"[i % 2], visit, "qc1" if i else "qc0", visit + i) for i in range(8) for visit in (1, 2)]
    frame = pd.DataFrame(rows, columns=["participant_id", "dx", "visit", "qc", "age"])
    for i in range(8):
        np.save(tmp_path / f"s{i:02}.npy", matrices(1, 5)[0])
    frame.to_csv(tmp_path / "participants.csv", index=False)
    options = ReadOptions(target="dx", covariates=("age",), where="qc=qc1")
    remedies = find_remedies(tmp_path, options, examine_graphs(tmp_path, options)[1])
    assert {"where": ("qc=qc1", "visit=1")} in [remedy.changes for remedy in remedies]
    assert all(len(remedy.data) == 7 for remedy in remedies)


# -- atlases and arrays ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "n_nodes"), [("aal90", 90), ("dk82_study", 82), ("abide_aal116", 116)])
def test_a_name_does_not_say_in_which_order_regions_are(tmp_path, name, n_nodes):
    np.savez(tmp_path / f"{name}.npz", adjacency=matrices(4, n_nodes), labels=[0, 1, 0, 1])
    data, findings = examine_graphs(tmp_path / f"{name}.npz")
    assert data.atlas is None
    assert any("atlas=" in sentence and str(n_nodes) in sentence for sentence in findings.warnings)
    table = tmp_path / "table.csv"
    table.write_text("name\n" + "\n".join(f"ROI{i}" for i in range(1, n_nodes + 1)) + "\n")
    assert load_graphs(tmp_path / f"{name}.npz", atlas=table).atlas.coordinates is None


def test_files_of_17_networks_are_not_in_the_order_of_7(tmp_path):
    (folder := tmp_path / "study").mkdir()
    for subject in range(3):
        np.save(folder / f"s{subject}_Schaefer2018_100Parcels_17Networks.npy", matrices(1, 100)[0])
    with pytest.raises(InputError, match='atlas="schaefer100-17"'):
        load_graphs(folder, atlas="schaefer100")
    for path in folder.iterdir():
        path.rename(path.with_name(path.name.replace("17N", "7N")))
    assert load_graphs(folder, atlas="schaefer100").atlas.name == "schaefer100"


@pytest.mark.parametrize("suffix", [".mat", ".npz"])
@pytest.mark.parametrize("sizes", [{"dist": (30, 30), "fc": (20, 20)}, {"ts": (50, 6), "confounds": (50, 3)}])
def test_the_largest_of_several_matrices_is_not_taken(tmp_path, suffix, sizes):
    for subject in range(3):
        arrays = {name: RNG.normal(size=shape) for name, shape in sizes.items()}
        path = tmp_path / f"s{subject}{suffix}"
        savemat(path, arrays) if suffix == ".mat" else np.savez(path, **arrays)
    first, second = sizes
    with pytest.raises(InputError, match=f'array="{first}" or array="{second}"'):
        load_graphs(tmp_path)
    read = load_graphs(tmp_path, array=first)
    assert read.n_nodes == sizes[first][1]


def test_matrices_of_different_names_are_not_mixed(tmp_path):
    for subject in range(4):
        np.savez(tmp_path / f"s{subject}.npz", **{"fc" if subject else "sc": matrices(1, 6)[0]})
    with pytest.raises(InputError, match=r'array="fc" \(3 files\), array="sc" \(1 files\)'):
        load_graphs(tmp_path)
    assert len(load_graphs(tmp_path, array="fc", skip_refused=True)) == 3
    for subject in range(4):
        np.savez(tmp_path / f"s{subject}.npz", **{f"subject{subject}": matrices(1, 6)[0], "xyz": np.ones((6, 3))})
    assert len(load_graphs(tmp_path)) == 4


def test_equal_names_in_two_folders_are_refused_with_a_remedy_that_works(tmp_path):
    """HC/01 and PT/01 may be one person or two: it is not certain, so the files have to say it."""
    for group in ("HC", "PT"):
        (tmp_path / group).mkdir()
        for number in range(1, 6):
            np.savetxt(tmp_path / group / f"{number:02}.csv", matrices(1, 5)[0], delimiter=",")
    with pytest.raises(InputError, match=r"HC/01\.csv, PT/01\.csv") as caught:
        load_graphs(tmp_path, target="@folder")
    assert "HC_01.csv and PT_01.csv" in str(caught.value) and "select=" not in str(caught.value)
    for path in [*tmp_path.glob("*/*.csv")]:
        path.rename(path.with_name(f"{path.parent.name}_{path.name}"))
    data = load_graphs(tmp_path, target="@folder")
    assert len(data) == 10 and data.label_names == ("HC", "PT")


def test_two_spellings_of_a_site_are_refused_in_a_saved_dataset(tmp_path):
    sites = ["NYU", "nyu ", "NYU", "KKI"]
    BrainGraphs(matrices(4, 5), [0, 1, 0, 1], sites=sites).save(tmp_path / "sites.npz")
    covariates = pd.DataFrame({"centre": sites})
    BrainGraphs(matrices(4, 5), [0, 1, 0, 1], covariates=covariates).save(tmp_path / "column.npz")
    for name, options in (("sites.npz", {}), ("column.npz", {"site": "centre"})):
        with pytest.raises(InputError, match="'NYU' and 'nyu '"):
            load_graphs(tmp_path / name, **options)
    assert BrainGraphs.load(tmp_path / "sites.npz").sites.tolist() == sites  # results that exist open as before
    assert load_graphs(tmp_path / "column.npz").sites is None
    saved = BrainGraphs.load(tmp_path / "sites.npz")
    for source in (saved, tmp_path / "sites.npz"):
        with pytest.raises(InputError, match=r"replace\(sites="):
            load_graphs(source)
        assert load_graphs(source, exclude="2").sites.tolist() == ["NYU", "NYU", "KKI"]
    assert load_graphs(saved.replace(sites=[site.strip().upper() for site in sites])).sites.tolist()[1] == "NYU"


def test_what_was_handled_is_counted_without_names(tmp_path):
    handled = {
        "one": ["a.csv"], "two": ["a.csv", "b.csv"], "subject": ["e.csv, subject sub-1"],
        "counts": ["3 subjects"], "rows": ["3 of 12 rows"], "people": ["12 graphs of 6 people"],
    }  # fmt: skip
    counts = {"one": ["once"], "two": ["2 times"], "subject": ["once"]}
    assert count_handled(handled) == handled | counts
    np.savez(tmp_path / "a.npz", conn=matrices(12, 5), other=matrices(12, 5), ID=np.arange(12), code=np.arange(12) + 5)
    data = load_graphs(tmp_path / "a.npz", array="conn", subjects="ID")
    assert count_handled(data.handled) == {
        "graphs from the array conn": ["12 graphs"], "subjects from the array ID": ["12 subjects"]
    }  # fmt: skip
