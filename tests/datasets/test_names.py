"""Datasets by name: a file in the folder ISOCAPSNET_DATA, else the catalog; an absent one is a sentence."""

import numpy as np
import pytest
from click.testing import CliRunner

from isocapsnet._validation import InputError
from isocapsnet.cli import main
from isocapsnet.datasets import download
from isocapsnet.datasets.catalog import CATALOG
from isocapsnet.datasets.readers import load_graphs

FILES = {
    "abide-nyu": "abide_aal116_nyu.npz",
    "hiv-dti": "hiv_dti.npz",
    "hiv-fmri-34": "hiv_fmri_34.npz",
    "peking-1": "adhd200_peking_1.npz",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOCAPSNET_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("ISOCAPSNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def write(path, name, shift=0.0):
    counts = CATALOG[name].class_counts
    labels = [int(label) for label, count in counts.items() for _ in range(count)]
    graphs = np.random.default_rng(0).normal(size=(len(labels), 4, 4)) + shift
    np.savez(path, adjacency=graphs + graphs.swapaxes(1, 2), labels=labels, age=np.arange(len(labels)) / 2)


@pytest.mark.parametrize("name", FILES)
def test_a_name_is_the_file_in_the_data_folder(folder, name):
    write(folder / FILES[name], name)
    data = load_graphs(name, exclude=["3"])
    assert data.name == name
    assert len(data) == sum(CATALOG[name].class_counts.values()) - 1
    assert dict(data.exclusions) == {"3": "excluded on request"}
    result = CliRunner().invoke(main, ["data", "check", name])
    assert result.exit_code == 0, result.output


def test_a_file_or_folder_of_that_name_wins(folder):
    write(folder / "hiv_dti.npz", "hiv-dti")
    (folder.parent / "hiv-dti").mkdir()
    for subject in range(3):
        np.save(folder.parent / "hiv-dti" / f"sub-{subject}.npy", np.full((5, 5), subject + 1.0))
    assert load_graphs("hiv-dti").n_nodes == 5
    assert load_graphs("planted").n_nodes == 28


def test_a_path_is_not_a_name(folder):
    for path in ("./planted", folder / "planted"):
        with pytest.raises(InputError, match="There is no file"):
            load_graphs(path)


@pytest.mark.parametrize("name", ["abide-nyu", "hiv-fmri-34", "peking-1"])
def test_an_absent_dataset_says_which_file_to_put_where(folder, name, monkeypatch):
    for is_set in (True, False):
        if not is_set:
            monkeypatch.delenv("ISOCAPSNET_DATA")
        with pytest.raises(InputError) as refusal:
            load_graphs(name)
        assert FILES[name] in str(refusal.value)
        assert "ISOCAPSNET_DATA" in str(refusal.value)
    result = CliRunner().invoke(main, ["benchmark", name])
    assert result.exit_code == 2
    assert FILES[name] in result.output
    assert "Traceback" not in result.output


def test_a_dataset_that_is_not_there_is_downloaded(folder, monkeypatch):
    asked = []

    def refuse(file, *rest):
        asked.append(file.url)
        raise InputError("no network in tests")

    monkeypatch.setattr("isocapsnet.datasets.catalog.download", refuse)
    with pytest.raises(InputError, match="no network"):
        load_graphs("hiv-dti")
    assert asked == [CATALOG["hiv-dti"].files[0].url]
    assert download.recorded_checksum(CATALOG["hiv-dti"].files[0], folder) is None


def test_another_file_under_the_datasets_name_is_refused(folder):
    write(folder / FILES["hiv-dti"], "hiv-fmri-34")
    with pytest.raises(InputError, match="hiv-dti should have the classes"):
        load_graphs("hiv-dti")


def test_options_of_files_do_not_apply_to_datasets(folder):
    write(folder / FILES["abide-nyu"], "abide-nyu")
    with pytest.raises(InputError, match="select= does not apply"):
        load_graphs("abide-nyu", select=["x"])
    with pytest.raises(InputError, match="no covariate 'iq'; it has age"):
        load_graphs("abide-nyu", covariates=["iq"])
    with pytest.raises(InputError, match="continuous"):
        load_graphs("abide-nyu", target="age")
    assert load_graphs("planted", n_nodes=28).n_nodes == 28
    with pytest.raises(InputError, match="28 nodes, but 27"):
        load_graphs("planted", n_nodes=27)
