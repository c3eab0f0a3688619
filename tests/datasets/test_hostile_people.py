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


# -- persons with several graphs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("title", ["id", "SUB_ID", "participant", "patient_id", "groups"])
def test_arrays_with_a_person_twice_are_refused(title):
    with pytest.raises(InputError, match=title):
        load_graphs({"adjacency": GRAPHS, "y": DX, title: PAIRS})
    scans = [f"sub-{person}_ses-{i % 2}" for i, person in enumerate(PAIRS)]
    assert len({*load_graphs({"adjacency": GRAPHS, "y": DX, title: PAIRS}, subjects=scans).persons}) == 6
    data = load_graphs({"adjacency": GRAPHS, "y": DX, title: PAIRS}, covariates=title)  # as the message says
    assert list(data.covariates) == [title]


@pytest.mark.parametrize("title", ["id", "SUB_ID", "participant"])
def test_arrays_whose_title_says_so_are_identifiers(title):
    assert load_graphs({"adjacency": GRAPHS, "y": DX, title: NUMBERS}).subjects.tolist() == NUMBERS


@pytest.mark.parametrize("values", [["HC", "PT"] * 6, [0.0, 1.0] * 6])
@pytest.mark.parametrize("title", ["groups", "patient", "site_id", "diagnosis_code"])
def test_arrays_of_groups_stay_covariates(title, values):
    data = load_graphs({"adjacency": GRAPHS, "y": DX, title: np.array(values)})
    assert list(data.covariates) == [title] and len({*data.persons}) == N


@pytest.mark.parametrize("people", [PAIRS, ["p1", "p2"] * 6])
@pytest.mark.parametrize("title", ["subject_id", "src_subject_id", "SUB_ID"])
def test_frames_with_a_person_twice_are_refused(title, people):
    frame = pd.DataFrame({title: people, "session_id": [1, 2] * 6, "dx": DX})
    with pytest.raises(InputError, match=title):
        load_graphs(GRAPHS, participants=frame, target="dx")
    with pytest.raises(InputError, match=r"person|p1"):
        load_graphs(GRAPHS, participants=frame.drop(columns="session_id"), target="dx")


def test_frames_with_a_row_for_each_scan_are_read():
    frame = pd.DataFrame({"subject_id": PAIRS, "session_id": [1, 2] * 6, "dx": DX})
    frame.insert(0, "participant_id", [f"sub-{p}_ses-{i % 2}" for i, p in enumerate(PAIRS)])
    assert len({*load_graphs(GRAPHS, participants=frame, target="dx").persons}) == 6


@pytest.mark.parametrize("other", ["site_id", "site_code", "session_id", "patient", "record_id"])
def test_frames_keep_identifiers_beside_other_codes(other):
    values = range(N) if other == "record_id" else [1, 2] * 6
    data = load_graphs(GRAPHS, participants=pd.DataFrame({"SUB_ID": NUMBERS, other: values, "dx": DX}), target="dx")
    assert data.subjects.tolist() == NUMBERS and classes(data) == DX


SCANS = ["_bl _m12", "_BL _FU1", "_day1 _day2", "_r1 _r2", "_20190101 _20200131", "_2019-01-01 _2020-01-31"]
SCANS += ["_MR1 _MR2", "_MR_d0129 _MR_d0629", "_25750_2_0 _25750_3_0"]


@pytest.mark.parametrize("parts", SCANS)
def test_names_of_scans_are_of_one_person(tmp_path, parts):
    scans = [f"S{i // 2:02d}{parts.split()[i % 2]}" for i in range(N)]
    assert len({*load_graphs((GRAPHS, DX), subjects=scans).persons}) == 6
    with pytest.raises(InputError, match="one person"):
        load_graphs(write_study(tmp_path, scans))


@pytest.mark.parametrize(
    "name", ["M{:02d}", "site1_{}", "NYU_00509{:02d}", "R{}_01", "A{}_12_01", "2019{:04d}", "1_{}"]
)
def test_ordinary_names_are_persons(name):
    ids = [name.format(i + 1) for i in range(N)]
    assert len({*load_graphs((GRAPHS, DX), subjects=ids).persons}) == N


@pytest.mark.parametrize("scan", ["OAS2_{:04d}_MR{}", "P{:02d}{}x"])
def test_a_column_of_persons_beside_that_of_scans(tmp_path, scan):
    """The names of the files say who the person is, or the study is refused with a choice of rows."""
    scans = [scan.format(i // 2 + 1, i % 2 + 1) for i in range(N)]
    people = {"Subject ID": PAIRS, "MRI ID": scans, "Group": np.repeat(["a", "b"], 6), "Visit": [1, 2] * 6}
    write_study(tmp_path, scans, **people)
    if scan.startswith("OAS"):
        data = load_graphs(tmp_path, target="Group")
        assert len(data) == N and len({*data.persons}) == 6
    else:
        with pytest.raises(InputError, match="Visit=1"):
            load_graphs(tmp_path, target="Group")
        excluded = load_graphs(tmp_path, target="Group", exclude=scans[1::2])
        for data in (load_graphs(tmp_path, target="Group", where="Visit=1"), excluded):
            assert data.subjects.tolist() == scans[::2]


# -- the order of rows, sites, exclusions --------------------------------------------------------------------------


def test_an_index_with_numbers_twice_is_refused():
    """After concat(), sort_index() would mix the groups."""
    frame = pd.concat([pd.DataFrame({"dx": ["HC"] * 6}), pd.DataFrame({"dx": ["PT"] * 6})])
    for one in (frame, frame.sort_index()):
        with pytest.raises(InputError, match="reset_index"):
            load_graphs(GRAPHS, participants=one, target="dx")
    data = load_graphs(GRAPHS, participants=frame.reset_index(drop=True), target="dx")
    assert classes(data) == ["HC"] * 6 + ["PT"] * 6


def test_missing_sites_are_on_record_and_spellings_refused(tmp_path):
    write_study(tmp_path, NUMBERS, participant_id=NUMBERS, dx=DX, site=["NYU", "", "UM"] * 4, bad=["NYU", "nyu"] * 6)
    table = load_graphs(tmp_path, target="dx", site="site")
    array = load_graphs({"adjacency": GRAPHS, "y": DX, "site": np.array(["NYU", None, "UM"] * 4, dtype=object)})
    for data in (table, array):
        assert data.sites.tolist() == ["NYU", "unknown", "UM"] * 4
        assert ["4 subjects"] in map(list, data.handled.values())
    with pytest.raises(InputError, match="nyu"):
        load_graphs(tmp_path, target="dx", site="bad")
    with pytest.raises(InputError, match="nyu"):
        load_graphs({"adjacency": GRAPHS, "y": DX, "site": ["NYU", "nyu"] * 6})


def test_sites_that_are_whole_numbers_have_one_spelling():
    data = load_graphs({"adjacency": GRAPHS, "y": DX, "site": np.array([1.0, 2.0] * 6)})
    assert data.sites.tolist() == ["1", "2"] * 6


@pytest.mark.parametrize(
    ("name", "is_there"), [("1a", False), ("NYU_1a", False), ("sub-1", True), ("NYU_0001_rois", True)]
)
def test_an_excluded_name_ends_where_its_part_ends(name, is_there):
    def read():
        return load_graphs((GRAPHS, DX), subjects=[str(i + 1) for i in range(N)], exclude=[name])

    if is_there:
        assert [*read().exclusions] == ["1"]
    else:
        with pytest.raises(InputError, match=name):
            read()


@pytest.mark.parametrize("title", ["subjects", "id"])
@pytest.mark.parametrize("people", ["groups", "SUB_ID"])
def test_arrays_of_persons_beside_identifiers_are_refused(title, people):
    arrays = {"adjacency": GRAPHS, "y": DX, title: [f"x{i}" for i in range(N)], people: PAIRS}
    with pytest.raises(InputError, match=people):
        load_graphs(arrays)
    arrays[title] = [f"sub-{p}_ses-{i % 2}" for i, p in enumerate(PAIRS)]
    assert len({*load_graphs(arrays).persons}) == 6


# -- files and rows ------------------------------------------------------------------------------------------------


def test_a_table_with_a_row_per_session(tmp_path):
    scans = [f"sub-{i // 2 + 1:02d}_ses-{i % 2 + 1}" for i in range(N)]
    write_study(tmp_path, [f"{scan}_fc" for scan in scans], participant_id=scans, dx=["a", "b"] * 6)
    for session, label in (("ses-1", "a"), ("ses-2", "b")):
        data = load_graphs(tmp_path, target="dx", select=session)
        assert classes(data) == [label] * 6


@pytest.mark.parametrize("name", ["NYU_0050952_rois_cc200", "S50952_run2", "50952_r1"])
@pytest.mark.parametrize("title", ["SUB_ID", "number"])
def test_a_single_file_may_have_other_numbers(tmp_path, name, title):
    """Shorter ones, if the title says that the column has identifiers."""
    write_study(tmp_path, [name], **{title: [200, 1, 2, 50952, 50953], "age": [9, 8, 7, 6, 5]})
    if title == "SUB_ID":
        data = load_graphs(tmp_path, covariates="age")
        assert data.subjects.tolist() == ["50952"] and data.covariates["age"].tolist() == [6]
    else:
        with pytest.raises(InputError, match="participant_id"):
            load_graphs(tmp_path, covariates="age")


@pytest.mark.parametrize("name", ["NYU_0050999_rois_cc200", "S15_run2", "S6_run2"])
def test_a_single_file_of_nobody_gets_no_row(tmp_path, name):
    write_study(tmp_path, [name], SUB_ID=[200, 1, 2, 50952], age=[9, 8, 7, 6])
    with pytest.raises(InputError, match="participant_id"):
        load_graphs(tmp_path, covariates="age")


def test_both_spellings_of_abcd_are_one(tmp_path):
    codes = [f"INV{i:02d}BD7" for i in range(N)]
    write_study(tmp_path, [f"sub-NDAR{c}" for c in codes], subjectkey=[f"NDAR_{c}" for c in codes], dx=DX)
    assert classes(load_graphs(tmp_path, target="dx")) == DX


@pytest.mark.parametrize("title", ["subject_age", "sub_score", "participant_motion", "id"])
def test_measurements_are_not_identifiers(title):
    values = np.arange(N) + 0.5 if title == "id" else np.arange(N)
    data = load_graphs({"adjacency": GRAPHS, "y": DX, title: values})
    assert data.subjects[0] == "1" and data.covariates[title].tolist() == values.tolist()


@pytest.mark.parametrize("title", ["subject", "participant", "patient", "code"])
@pytest.mark.parametrize("groups", [["HC", "PT"] * 6, ["HC", "MCI", "AD"] * 4])
def test_groups_beside_identifiers_are_no_persons(tmp_path, title, groups):
    columns = {"participant_id": NUMBERS, title: groups, "dx": DX}
    assert len({*load_graphs(write_study(tmp_path, NUMBERS, **columns), target="dx").persons}) == N
    assert len({*load_graphs(GRAPHS, participants=pd.DataFrame(columns), target="dx").persons}) == N
