"""Options about who is read, from which file or row, and what ``data check`` proposes; all of it is on record."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from isocapsnet._validation import InputError
from isocapsnet.cli import main
from isocapsnet.datasets.identifiers import find_site, match_subjects
from isocapsnet.datasets.readers import examine_graphs, load_graphs
from isocapsnet.datasets.reading import ReadOptions
from isocapsnet.datasets.remedies import find_remedies

from . import layouts, writers

FORTY = layouts.make_forty()


def run(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


def last_line(result) -> str:
    return result.output.strip().splitlines()[-1]


@pytest.fixture
def abide(tmp_path):
    """Files called by site and number, and a table with numbers only."""
    return layouts.LAYOUTS["ABIDE names"].write(FORTY, tmp_path)


# -- who ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["50010", "sub-50010", "0050010", "NYU_0050010", "NYU_0050010_rois_aal", "NYU_0050010_rois", "nyu-50010"]
)
def test_a_subject_is_excluded_in_any_spelling(abide, name):
    read = load_graphs(abide, target="diagnosis", exclude=name)
    assert read.exclusions == {"50010": "excluded on request"}
    assert len(read) == 39


def test_a_spelling_of_nobody_or_of_two_subjects_is_refused(abide):
    with pytest.raises(InputError, match="no subject '5001'"):
        load_graphs(abide, exclude="5001")
    with pytest.raises(InputError, match="may be the subject 50010, 50023"):
        load_graphs(abide, exclude="50010_50023")
    assert match_subjects(["a1", "x"], ["a-01", "b1"], {}) == {"a1": "a-01"}


def test_excluded_subjects_are_listed_in_a_file(abide, tmp_path):
    (tmp_path / "bad.txt").write_text("# motion\nNYU_0050010\n\n50023\n")
    result = run("data", "convert", abide, tmp_path / "o.npz", "--exclude", f"@{tmp_path / 'bad.txt'},50036")
    assert result.exit_code == 0, result.output
    assert set(load_graphs(tmp_path / "o.npz").exclusions) == {"50010", "50023", "50036"}
    with pytest.raises(InputError, match=r"nowhere\.txt"):
        load_graphs(abide, exclude=f"@{tmp_path}/nowhere.txt")


def test_refused_subjects_are_set_aside_with_the_reason(abide, tmp_path):
    np.savetxt(abide / "NYU_0050010_rois_aal.csv", np.eye(5), delimiter=",")
    (abide / "UM_1_0050023_rois_aal.csv").write_text("damaged\n1\n")
    with pytest.raises(InputError, match="1 more"):
        load_graphs(abide, target="diagnosis", kind="graphs")
    read = load_graphs(abide, target="diagnosis", kind="graphs", skip_refused=True)
    rest = FORTY[2:]
    assert np.array_equal(read[rest.subjects.tolist()].adjacency, rest.adjacency)
    assert set(read.exclusions) == {"50010", "50023"}
    assert "5 nodes but most graphs have 8" in read.exclusions["50010"]
    read.save(tmp_path / "saved.npz")
    assert load_graphs(tmp_path / "saved.npz").exclusions == read.exclusions


def test_problems_of_all_subjects_are_not_skipped(abide):
    with pytest.raises(InputError, match="no column 'dx'"):
        load_graphs(abide, target="dx", skip_refused=True)
    for path in abide.glob("*_rois_aal.csv"):
        path.write_text("1,x\n2\n")
    with pytest.raises(InputError, match="no subject is left"):
        load_graphs(abide, kind="graphs", skip_refused=True)


def test_sizes_without_a_majority_are_one_sentence(tmp_path):
    for i in range(30):
        np.save(tmp_path / f"s{i:02}.npy", np.eye(20 + i % 5))
    _, findings = examine_graphs(tmp_path, ReadOptions(skip_refused=True))
    assert len(findings.errors) == 1
    assert "20 (6 subjects)" in findings.errors[0]
    assert "regions=" in findings.errors[0]


@pytest.mark.parametrize(
    ("file_name", "subject", "site"),
    [
        ("NYU_0050952_rois_aal", "50952", "NYU"),
        ("UM_1_0050302_rois_cc200", "UM_1_0050302", "UM_1"),
        ("CMU_a_0050642", "50642", "CMU_a"),
        ("sub-NYU-50952_fc", "NYU-50952", "NYU"),
    ],
)
def test_the_site_is_before_the_number_of_the_subject(file_name, subject, site):
    assert find_site(file_name, subject) == site


def test_files_without_a_site_are_refused(tmp_path):
    folder = layouts.LAYOUTS["one .mat per subject"].write(FORTY, tmp_path)
    with pytest.raises(InputError, match="no site before"):
        load_graphs(folder, site="@file")
    with pytest.raises(InputError, match="@file or @folder"):
        load_graphs(folder, site="@scanner")


def test_files_are_selected_by_their_folder(tmp_path):
    for atlas, scale in (("AAL", 1.0), ("CC200", 2.0)):
        for subject, _, _, graph in layouts.pairs(FORTY):
            (tmp_path / atlas).mkdir(exist_ok=True)
            np.save(tmp_path / atlas / f"{subject}.npy", scale * graph)
    read = load_graphs(tmp_path, select="CC200")
    assert np.array_equal(read.adjacency, 2 * FORTY.adjacency)
    assert read.handled["files whose path has CC200"] == ("40 of 80 files",)


# -- rows of the table ---------------------------------------------------------------------------------------------


def test_rows_that_agree_count_once_and_others_need_a_condition(tmp_path):
    folder = layouts.several_rows(FORTY, tmp_path)
    read = load_graphs(folder, target="diagnosis")  # which all rows of a subject share
    assert any("several rows of participants.csv" in what for what in read.handled)
    for where in ("Modality=fMRI", ["Modality!=PET", "Modality != mri"], "Modality = fmri"):
        chosen = load_graphs(folder, target="diagnosis", covariates="age", where=where)
        np.testing.assert_allclose(chosen.covariates["age"], FORTY.covariates["age"])
        assert any("participants.csv where" in what for what in chosen.handled)
    with pytest.raises(InputError, match="has MRI, PET, fMRI"):
        load_graphs(folder, where="Modality=DTI")
    with pytest.raises(InputError, match="COLUMN=VALUE"):
        load_graphs(folder, where="Modality")
    with pytest.raises(InputError, match="no column 'Scan'"):
        load_graphs(folder, where="Scan=1")


def test_thousand_repeated_subjects_are_one_sentence_and_a_command(tmp_path):
    folder = layouts.several_rows(FORTY, tmp_path)
    result = run("data", "check", folder, "--target", "diagnosis", "--covariates", "age")
    assert result.exit_code == 2
    assert sum(line.startswith("refused") for line in result.output.splitlines()) == 1
    works = [line for line in result.output.splitlines() if line.startswith(("works", "or"))]
    assert any("--where Modality=fMRI" in line for line in works)
    assert all("isocapsnet benchmark" in line and "(40 subjects)" in line for line in works)


# -- regions ---------------------------------------------------------------------------------------------------------


def test_missing_regions_are_on_record_and_limited(tmp_path):
    folder = layouts.LAYOUTS["different regions, lists"].write(FORTY, tmp_path)
    read = load_graphs(folder, target="diagnosis")
    assert len(read.handled["nodes absent from the file kept without edges"]) == 14
    with pytest.raises(InputError, match=r"1 of 8 nodes are missing.*max_missing=0.1"):
        load_graphs(folder, target="diagnosis", max_missing=0.1)
    assert len(load_graphs(folder, target="diagnosis", max_missing=0.1, skip_refused=True)) == 26
    (folder / "NYU_0050010_rois_cc200_regions.txt").write_text("1 2 3")
    with pytest.raises(InputError, match="has 7 nodes, but 3 regions"):
        load_graphs(folder, target="diagnosis")
    (folder / "NYU_0050010_rois_cc200_regions.txt").unlink()
    with pytest.raises(InputError, match="no list of regions"):
        load_graphs(folder, target="diagnosis")


def write_named(folder, data, names=None):
    """Matrices with the names of the regions that each subject has."""
    folder.mkdir()
    for subject, _, _, graph in layouts.pairs(data):
        nodes = np.flatnonzero(graph.any(axis=0))
        titles = [(names or {}).get((subject, int(node)), f"region{node}") for node in nodes]
        pd.DataFrame(graph[np.ix_(nodes, nodes)], index=titles, columns=titles).to_csv(folder / f"{subject}.csv")
    return folder


def test_named_regions_are_aligned_if_no_subject_has_all(tmp_path):
    """Every subject lacks one of eight regions, each another one."""
    graphs = FORTY.adjacency.copy()
    for i, graph in enumerate(graphs):
        graph[i % 8] = graph[:, i % 8] = 0
        graph[np.eye(8, dtype=bool)] = np.arange(8) != i % 8
        graph[(graph == 0) & ~np.eye(8, dtype=bool)] = 0
    data = FORTY.replace(adjacency=graphs)
    read = load_graphs(write_named(tmp_path / "named", data))
    assert read.atlas.node_names == tuple(f"region{i}" for i in range(8))
    silent = graphs.any(axis=1)
    assert np.array_equal(read.adjacency, graphs * silent[:, :, None] * silent[:, None])
    misspelled = {("50010", 3): "regoin3"}
    with pytest.raises(InputError, match="regoin3"):
        load_graphs(write_named(tmp_path / "misspelled", data, misspelled))
    other = {(subject, node): f"area{node}" for subject in data.subjects[:19].tolist() for node in range(8)}
    with pytest.raises(InputError, match="the other files do not have"):
        load_graphs(write_named(tmp_path / "two", data, other))


def test_a_table_of_the_atlas_is_no_list_of_subjects(tmp_path):
    folder = layouts.LAYOUTS["one .csv per subject"].write(FORTY, tmp_path)
    for titles in ("index,name,x,y,z", "id,region,x,y,z"):
        (folder / "regions.csv").write_text(titles + "\n" + "".join(f"{i},area{i},1,2,3\n" for i in range(8)))
        assert np.array_equal(load_graphs(folder, target="diagnosis").adjacency, FORTY.adjacency)
    with pytest.raises(InputError, match=r"one column of subjects|no list of regions"):
        load_graphs(folder, target="diagnosis", regions=folder / "regions.csv")


@pytest.mark.parametrize("prefix", ["", "V", "X", "Var"])
def test_positions_are_no_names(tmp_path, prefix):
    """Of a matrix without its empty regions, pandas and R count the columns that are left."""
    for subject, _, _, graph in layouts.pairs(FORTY):
        nodes = np.flatnonzero(graph.any(axis=0))
        frame = pd.DataFrame(graph[np.ix_(nodes, nodes)], columns=[f"{prefix}{i + 1}" for i in range(len(nodes))])
        frame.to_csv(tmp_path / f"{subject}.csv", index=False)
    with pytest.raises(InputError, match="7 nodes but most graphs have 8"):
        load_graphs(tmp_path)
    numbers = write_named(tmp_path / "numbers", FORTY, {(s, n): f"{n + 1}" for s in FORTY.subjects for n in range(8)})
    assert np.array_equal(load_graphs(numbers).adjacency, FORTY.adjacency)  # numbers of regions have gaps


def test_a_region_that_nobody_has_is_a_node_if_the_number_is_given(tmp_path):
    folder = layouts.LAYOUTS["different regions, lists"].write(FORTY, tmp_path)
    read = load_graphs(folder, n_nodes=10, index_base=1)
    assert read.n_nodes == 10
    assert not read.adjacency[:, 8:].any()


# -- stacks and rows --------------------------------------------------------------------------------------------------


def test_a_cube_whose_matrices_are_symmetric_along_another_axis_is_refused(tmp_path):
    np.save(tmp_path / "cube.npy", np.moveaxis(FORTY.adjacency[:8], 0, 2))
    with pytest.raises(InputError, match="which axis"):
        load_graphs(tmp_path / "cube.npy")
    np.save(tmp_path / "last.npy", np.moveaxis(FORTY.adjacency, 0, 2))
    assert np.array_equal(load_graphs(tmp_path / "last.npy").adjacency, FORTY.adjacency)


def test_labels_of_another_length_are_refused(tmp_path):
    with pytest.raises(InputError, match="40 graphs but 39"):
        load_graphs((FORTY.adjacency, FORTY.labels[1:]))
    with pytest.raises(InputError, match="40 graphs but 39 labels"):
        load_graphs({"fc": FORTY.adjacency, "labels": FORTY.labels[1:]})
    with pytest.raises(InputError, match="39 subjects"):
        load_graphs(FORTY.adjacency, subjects=FORTY.subjects[1:].tolist())
    assert load_graphs((FORTY.adjacency, FORTY.labels[:, None])).class_counts.tolist() == [20, 20]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda lines: [lines[0], lines[1] + ",1", *lines[2:]], "fields in line 2"),
        (lambda lines: [lines[0], lines[1].rpartition(",")[0], *lines[2:]], "fields in line 2"),
        (lambda lines: [lines[0].replace("0throw_1thcolumn", "0throw_9thcolumn"), *lines[1:]], "triangle="),
        (lambda lines: [lines[0], lines[1].rpartition(",")[0] + ",word", *lines[2:]], "'word'"),
        (
            lambda lines: [lines[0], ",".join([*lines[1].split(",")[:2], "", *lines[1].split(",")[3:]]), *lines[2:]],
            "nan",
        ),
    ],
    ids=["one more", "one less", "title", "word", "gap"],
)
def test_damaged_rows_are_refused(tmp_path, change, sentence):
    path = layouts.wids_triangles(FORTY, tmp_path)
    path.write_text("\n".join(change(path.read_text().splitlines())))
    with pytest.raises(InputError, match=sentence):
        load_graphs(path, participants=tmp_path / "phenotypic.csv", target="diagnosis")


def test_a_first_line_of_values_is_not_lost(tmp_path):
    rows = FORTY.adjacency.reshape(40, -1)
    lines = [",".join([subject, *map(repr, row)]) for subject, row in zip(FORTY.subjects, rows.tolist(), strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(f"sub-{line}" for line in lines))
    read = load_graphs(tmp_path / "rows.csv")
    assert read.subjects.tolist() == FORTY.subjects.tolist()
    assert np.array_equal(read.adjacency, FORTY.adjacency)


def test_columns_that_are_no_edges_must_be_named(tmp_path):
    """A triangle with the diagonal has as many values as one without it and eight more columns."""
    frame = pd.DataFrame(FORTY.adjacency[:, *np.triu_indices(8, 1)], columns=[f"V{i}" for i in range(28)])
    for i in range(8):
        frame.insert(i, "abcdefgh"[i], i)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(InputError, match="a, b, c and 5 more are not called as the other edges"):
        load_graphs(tmp_path / "rows.csv", triangle="upper", n_nodes=8)
    read = load_graphs(tmp_path / "rows.csv", triangle="upper", n_nodes=8, covariates=list("abcdefgh"))
    off = ~np.eye(8, dtype=bool)
    assert np.array_equal(read.adjacency[:, off], FORTY.adjacency[:, off])


def test_new_subjects_have_the_regions_of_training(tmp_path):
    """A region that none of the new subjects has is a node all the same."""
    layout = layouts.LAYOUTS["different regions, long list"]
    for part in ("all", "new"):
        (tmp_path / part).mkdir()
    trained = load_graphs(layout.write(FORTY, tmp_path / "all"), target="diagnosis")
    new = load_graphs(layout.write(FORTY[[0, 24]], tmp_path / "new"), like=trained)
    assert new.atlas.node_names == trained.atlas.node_names
    assert np.array_equal(new.adjacency, FORTY[[0, 24]].adjacency)
    nel = {part: layouts.nel(data, tmp_path / part) for part, data in (("all", FORTY), ("new", FORTY[[0, 24]]))}
    assert load_graphs(nel["new"]).n_nodes == 7
    assert np.array_equal(load_graphs(nel["new"], like=load_graphs(nel["all"])).adjacency, FORTY[[0, 24]].adjacency)


def test_a_file_of_one_matrix_is_not_taken_for_rows(tmp_path):
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "matrix.csv", np.corrcoef(rng.normal(size=(49, 99))), delimiter=",")
    with pytest.raises(InputError, match="neither a symmetric matrix nor a triangle"):
        load_graphs(tmp_path / "matrix.csv")


def test_columns_in_the_file_and_in_the_table_are_refused(tmp_path):
    path = layouts.named_triangles(FORTY, tmp_path)
    layouts.phenotypes(FORTY).to_csv(tmp_path / "more.csv", index=False)
    with pytest.raises(InputError, match=r"all\.tsv and more\.csv both have 'diagnosis'"):
        load_graphs(path, participants=tmp_path / "more.csv", target="diagnosis")


# -- data check -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, layout in layouts.LAYOUTS.items() if layout.remedy])
def test_check_ends_with_a_command_that_works(tmp_path, name, monkeypatch):
    """Of each layout that is refused without an option; a list of regions in another place cannot be guessed."""
    layout = layouts.LAYOUTS[name]
    monkeypatch.chdir(tmp_path)
    source = layout.write(FORTY, tmp_path)
    options = ReadOptions(**layout.options)
    _, findings = examine_graphs(source, options)
    remedies = find_remedies(source, options, findings)
    if "regions" in layout.remedy:
        assert [remedy.changes for remedy in remedies] == [{"skip_refused": True}]
        assert len(remedies[0].data) == 26
        return
    if name == "HCP netmats":  # a table in the order of the graphs, or not
        assert [remedy.changes for remedy in remedies] == [{"subjects": "participant_id"}]
        return
    assert layout.remedy in [remedy.changes for remedy in remedies]


def test_check_names_the_usual_confounds_that_no_option_names(tmp_path, abide):
    """Without the line, a benchmark says that no age or sex was read, and nothing said that they are there."""
    table = pd.read_csv(abide / "phenotypic.csv").assign(sex=["f", "m"] * 20, iq=100)
    table.to_csv(abide / "phenotypic.csv", index=False)
    assert "--covariates age,sex adds" in run("data", "check", abide).output
    named = run("data", "check", abide, "--covariates", "iq,sex").output
    assert "not read  age in" in named and "--covariates iq,sex,age adds" in named
    assert "not read" not in run("data", "check", abide, "--covariates", "sex,age").output
    assert "not read  age in" in run("data", "check", abide, "--target", "sex").output


def test_check_of_usable_data_ends_with_the_benchmark(tmp_path, abide):
    assert last_line(run("data", "check", abide)) == f"next      isocapsnet benchmark {abide} --target diagnosis"
    (abide / "phenotypic.csv").rename(tmp_path / "other.csv")
    assert "--participants" in last_line(run("data", "check", abide))
    (tmp_path / "other.csv").rename(abide / "phenotypic.csv")
    result = run("data", "check", abide, "--target", "diagnosis", "--exclude", "50010", "--site", "@file")
    for option in ("--target diagnosis", "--site @file", "--exclude 50010"):
        assert option in last_line(result)


def test_every_command_takes_the_options(tmp_path):
    """The dictionary of BrainNetworkTransformer, from check to explanation."""
    path = layouts.bnt_dictionary(FORTY, tmp_path)
    (tmp_path / "bad.txt").write_text("sub-50010\n")
    reading = ("--array", "corr", "--exclude", f"@{tmp_path / 'bad.txt'}", "--skip-refused")
    model, out = tmp_path / "m.safetensors", tmp_path / "results"
    for command in (
        ("data", "check", path),
        ("data", "describe", path),
        ("benchmark", path, "--methods", "constant", "--repeats", 1, "--jobs", 0, "--no-explain", "--out", out),
        ("fit", path, "--method", "linear", "--out", model),
        ("predict", model, path, "--out", tmp_path / "p.csv"),
        ("explain", model, path, "--folds", 0, "--no-figures", "--out", tmp_path / "explained"),
    ):
        result = run(*command, *reading)
        assert result.exit_code == 0 or (command[0] == "explain" and "LinearClassifier" in result.output), result.output
    assert len(pd.read_csv(tmp_path / "p.csv")) == 39
    described = run("data", "describe", path, *reading).output
    assert "graphs from the array corr: " in described
    assert "50010: excluded on request" in described


def test_stray_files_are_named(tmp_path):
    folder = layouts.stray_files(FORTY, tmp_path)
    read = load_graphs(folder, target="diagnosis")
    (strays,) = (where for what, where in read.handled.items() if "set aside" in what)
    assert strays == ("coordinates.csv", "subject_ids.txt")
    writers.write_matrix(np.eye(3), folder / f"{FORTY.subjects[0]}.csv")  # a subject's file is no stray
    with pytest.raises(InputError, match=f"{FORTY.subjects[0]}.csv has 3 nodes"):
        load_graphs(folder, target="diagnosis")
