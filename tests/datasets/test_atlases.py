"""Atlases: built-in tables, files of names and coordinates, downloads, and how they fit the nodes of data."""

from types import SimpleNamespace

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from isocapsnet import BrainGraphs, InputError, load_graphs
from isocapsnet.cli import main
from isocapsnet.datasets import Atlas, atlas_download, fetch_atlas, load_atlas
from isocapsnet.datasets.atlas import ATLASES, fit_atlas
from isocapsnet.datasets.atlas_download import DOWNLOADS

YEO7 = {"Visual", "Somatomotor", "Dorsal Attention", "Ventral Attention", "Limbic", "Frontoparietal", "Default"}


def graphs_of(n_nodes: int, atlas: Atlas | None = None) -> BrainGraphs:
    values = np.random.default_rng(0).normal(size=(4, n_nodes, n_nodes))
    return BrainGraphs(values + values.swapaxes(1, 2), [0, 1, 0, 1], atlas=atlas)


def write_named(folder, names):
    """A folder of matrices whose rows and columns have names."""
    folder.mkdir()
    data = graphs_of(len(names))
    for subject, graph in zip(data.subjects, data.adjacency, strict=True):
        pd.DataFrame(graph, index=names, columns=names).to_csv(folder / f"sub-{subject}.csv")
    return folder


# -- built-in tables --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ATLASES)
def test_a_built_in_atlas_is_complete(name):
    atlas = load_atlas(name)
    assert len(atlas) == ATLASES[name][1] == len(set(atlas.node_names))
    assert np.abs(atlas.coordinates).max() < 110
    assert np.ptp(atlas.coordinates, axis=0).min() > 60  # both hemispheres, front to back
    assert set(atlas.networks["yeo7"]) - {"no network"} <= YEO7
    assert len(set(atlas.networks["yeo17"]) - {"no network"}) > 7


@pytest.mark.parametrize(
    ("name", "left", "right"),
    [
        ("aal116", ".L", ".R"),
        ("dk82", "L.", "R."),
        ("glasser360", "L_", "R_"),
        ("schaefer400", "_LH_", "_RH_"),
        ("harvard-oxford96", "Left", "Right"),
        ("destrieux148", "L ", "R "),
    ],
)
def test_names_and_coordinates_agree_on_the_side(name, left, right):
    atlas = load_atlas(name)
    x = {side: atlas.coordinates[[side in n for n in atlas.node_names], 0] for side in (left, right)}
    assert (x[left] < 1).all()
    assert (x[right] > -1).all()
    assert len(x[left]) >= len(atlas) // 2 - 4


def test_networks_of_schaefer_are_those_of_the_names_and_of_most_vertices():
    atlas = load_atlas("schaefer400")
    parts = {"Vis": "Visual", "SomMot": "Somatomotor", "Default": "Default", "Limbic": "Limbic"}
    for name, network in zip(atlas.node_names, atlas.networks["yeo7"], strict=True):
        assert parts.get(name.split("_")[2], network) == network
    # The 17 networks were counted on the surface. Most of their names start like those of the 7 networks.
    pairs = zip(atlas.node_names, atlas.networks["yeo17"], strict=True)
    assert np.mean([fine.startswith(name.split("_")[2]) for name, fine in pairs]) > 0.8


def test_schaefer_agrees_with_the_published_centroids():
    """Some rows of Schaefer2018_100Parcels_7Networks_order_FSLMNI152_1mm.Centroid_RAS.csv; ours are of a surface."""
    published = {
        "7Networks_LH_Vis_1": (-26, -34, -17),
        "7Networks_LH_SomMot_4": (-55, -8, 34),
        "7Networks_LH_Default_pCunPCC_2": (-6, -53, 33),
        "7Networks_RH_Vis_1": (32, -31, -22),
        "7Networks_RH_Cont_PFCl_4": (43, 16, 45),
        "7Networks_RH_Default_pCunPCC_2": (7, -52, 31),
    }
    atlas = load_atlas("schaefer100")
    for name, point in published.items():
        own = atlas.coordinates[atlas.node_names.index(name)]
        assert np.linalg.norm(own - np.array(point)) < 6, name
    assert [atlas.node_names.index(name) for name in published] == [0, 12, 49, 50, 85, 99]


def test_an_unknown_name_is_refused_with_the_names():
    with pytest.raises(InputError, match=r"atlas='aal' is unknown.*schaefer200"):
        load_atlas("aal")


@pytest.mark.parametrize("source", [3, ["aal90"], b"aal90", "", "a\0b", "x" * 5000])
def test_what_is_no_atlas_is_refused(source):
    with pytest.raises(InputError, match="atlas="):
        load_atlas(source)


# -- how an atlas fits data ------------------------------------------------------------------------------------------


def test_an_atlas_of_another_size_is_refused_with_both_numbers():
    with pytest.raises(InputError, match=r"'aal116' has 116 regions.* 200 nodes; .*cc200, schaefer200"):
        load_graphs(graphs_of(200), atlas="aal116")


def test_an_atlas_with_other_names_is_refused_with_the_number(tmp_path):
    names = [*load_atlas("dk68").node_names[:66], "elsewhere", "nowhere"]
    folder = write_named(tmp_path / "study", names)
    with pytest.raises(InputError, match=r"'dk68' does not have 2 of the 68 nodes.*elsewhere, nowhere"):
        load_graphs(folder, atlas="dk68")


def test_parcels_of_another_resolution_do_not_pass_for_those_of_an_atlas():
    small, large = load_atlas("schaefer100"), load_atlas("schaefer400")
    assert set(small.node_names) & set(large.node_names)  # LH_Vis_1 is another parcel in each
    with pytest.raises(InputError, match="400 regions"):
        fit_atlas(large, small.node_names, len(small))


def test_nodes_in_another_order_get_their_own_coordinates(tmp_path):
    atlas = load_atlas("dk68")
    order = np.random.default_rng(1).permutation(68)
    folder = write_named(tmp_path / "study", [atlas.node_names[i] for i in order])
    for options in ({"atlas": "dk68"}, {}):
        read = load_graphs(folder, **options).atlas
        assert read.node_names == tuple(atlas.node_names[i] for i in order)
        np.testing.assert_array_equal(read.coordinates, atlas.coordinates[order])
        assert read.networks["yeo7"] == tuple(atlas.networks["yeo7"][i] for i in order)


@pytest.mark.parametrize(
    ("name", "spell"),
    [
        ("aal90", lambda atlas: atlas.aliases),
        ("schaefer200", lambda atlas: atlas.aliases),
        ("schaefer100", lambda atlas: [name.removeprefix("7Networks_") for name in atlas.node_names]),
        ("glasser360", lambda atlas: [f"{name}_ROI" for name in atlas.node_names]),
        ("dk68", lambda atlas: [name.replace("L.", "ctx-lh-").replace("R.", "ctx-rh-") for name in atlas.node_names]),
    ],
)
def test_other_spellings_are_recognised(tmp_path, name, spell):
    atlas = load_atlas(name)
    names = list(spell(atlas))
    read = load_graphs(write_named(tmp_path / "study", names)).atlas
    assert read.name == name
    assert list(read.node_names) == names  # the data keep their names
    np.testing.assert_array_equal(read.coordinates, atlas.coordinates)


@pytest.mark.parametrize("names", [[f"node {i}" for i in range(1, 91)], [f"ROI_{i:03}" for i in range(90)]])
def test_numbered_nodes_have_the_order_of_the_atlas(tmp_path, names):
    read = load_graphs(write_named(tmp_path / "study", names), atlas="aal90")
    assert read.atlas.node_names == load_atlas("aal90").node_names


def test_networks_are_saved_with_the_data(tmp_path):
    data = load_graphs(graphs_of(160), atlas="dosenbach160")
    data.save(tmp_path / "data.npz")
    assert BrainGraphs.load(tmp_path / "data.npz").atlas.networks == data.atlas.networks
    assert list(data.atlas.networks) == ["yeo7", "yeo17", "dosenbach"]


# -- tables ----------------------------------------------------------------------------------------------------------


def expect(atlas, names, networks=None):
    assert atlas.node_names == names
    np.testing.assert_allclose(atlas.coordinates, [[-10, 20, 30], [11.5, -21, 31]])
    assert atlas.networks == (networks or {})


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("own.csv", "name,x,y,z\na,-10,20,30\nb,11.5,-21,31\n"),
        ("own.csv", "ROI Label;ROI Name;R;A;S\n1;a;-10;20;30\n2;b;11.5;-21;31\n"),
        ("own.tsv", "index\tname\tx\ty\tz\n2\tb\t11.5\t-21\t31\n0\tBackground\t0\t0\t0\n1\ta\t-10\t20\t30\n"),
        ("own.node", "# made by hand\n-10 20 30 1 2.5 a\n11.5 -21 31 2 2.5 b\n"),
        ("own.txt", "Region MNI_x MNI_y MNI_z\na -10 20 30\nb 11.5 -21 31\n"),
    ],
)
def test_tables_of_names_and_coordinates(tmp_path, file, text):
    (tmp_path / file).write_text(text)
    expect(load_atlas(tmp_path / file), ("a", "b"))
    data = load_graphs(graphs_of(2), atlas=str(tmp_path / file))
    assert data.atlas.name == "own"


def test_columns_of_networks_are_read(tmp_path):
    path = tmp_path / "atlas-own_dseg.tsv"
    path.write_text(
        "index\tlabel\tnetwork_label\tlabel_7network\tx\ty\tz\n1\ta\tVis\tq\t-10\t20\t30\n2\tb\tn/a\tq\t11.5\t-21\t31\n"
    )
    expect(load_atlas(path), ("a", "b"), {"network_label": ("Vis", "no network")})


def test_names_of_a_built_in_atlas_need_no_coordinates(tmp_path):
    own = load_atlas("schaefer100")
    path = tmp_path / "atlas-Schaefer_dseg.tsv"
    rows = "".join(f"{i}\t{name}\t#781283\n" for i, name in enumerate(own.node_names, start=1))
    path.write_text(f"index\tname\tcolor\n{rows}")
    np.testing.assert_array_equal(load_atlas(path).coordinates, own.coordinates)


@pytest.mark.parametrize(
    ("file", "text", "fact"),
    [
        ("own.csv", "x,y,z\n1,2,3\n", "no column of names"),
        ("own.csv", "name,x,y,z\na,1,2,3\na,4,5,6\n", "two regions called 'a'"),
        ("own.csv", "name,x,y,z\na,1,2,\n", "line 2"),
        ("own.csv", "name,x,y,z\na,1,2,three\n", "three"),
        ("own.csv", "name,x,y,z\n,1,2,3\n", "line 2"),
        ("own.csv", "name,x,y,z\n", "no regions"),
        ("own.node", "1 2\n", "fewer than three"),
        ("own.csv", "", "empty"),
    ],
)
def test_bad_tables_are_refused(tmp_path, file, text, fact):
    (tmp_path / file).write_text(text)
    with pytest.raises(InputError, match=fact):
        load_atlas(tmp_path / file)


# -- downloads -------------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOCAPSNET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_an_atlas_that_is_not_downloaded_says_how(cache):
    with pytest.raises(InputError, match=r"fetch_atlas\('schaefer1000'\)"):
        load_atlas("schaefer1000")
    result = CliRunner().invoke(main, ["data", "describe", "planted", "--atlas", "schaefer1000"])
    assert result.exit_code == 2
    assert "isocapsnet data fetch-atlas schaefer1000" in result.output


def test_schaefer_is_downloaded_once(cache, monkeypatch):
    requests = []

    def download(file, folder, progress=None):
        requests.append(file.url)
        folder.mkdir(parents=True)
        (folder / file.path).write_text(
            "ROI Label,ROI Name,R,A,S\n"
            "1,17Networks_LH_VisCent_Striate_1,-9,-80,3\n"
            "2,17Networks_RH_DefaultA_PFCm_1,6,50,9\n"
        )
        return folder / file.path

    monkeypatch.setattr(atlas_download, "download", download)
    result = CliRunner().invoke(main, ["data", "fetch-atlas", "schaefer100-17"])
    assert result.exit_code == 0, result.output
    assert "MIT" in result.output
    fetch_atlas("schaefer100-17")
    assert len(requests) == 1
    assert requests[0].startswith("https://") and "100Parcels_17Networks" in requests[0]
    atlas = load_atlas("schaefer100-17")
    assert atlas.networks == {"yeo17": ("VisCent", "DefaultA")}
    np.testing.assert_array_equal(atlas.coordinates, [[-9, -80, 3], [6, 50, 9]])


def test_volumes_of_nilearn_become_centroids(cache, tmp_path, monkeypatch):
    labels = np.zeros((10, 10, 10), dtype=np.int16)
    labels[1:3, 4, 5], labels[7, 7, 1:4] = 2001, 2002
    nib.save(nib.Nifti1Image(labels, np.diag([2.0, 2, 2, 1])), tmp_path / "aal.nii.gz")
    lut = pd.DataFrame({"index": [0, 2001, 2002], "name": ["Background", "Precentral_L", "Precentral_R"]})
    fetched = {"maps": str(tmp_path / "aal.nii.gz"), "lut": lut}
    monkeypatch.setattr("nilearn.datasets.fetch_atlas_aal", lambda version, data_dir, verbose: fetched)
    atlas = fetch_atlas("aal3")
    assert atlas.node_names == ("Precentral_L", "Precentral_R")
    np.testing.assert_allclose(atlas.coordinates, [[3, 8, 10], [14, 14, 4]])


def test_a_failed_download_leaves_nothing_behind(cache, monkeypatch):
    def fail(**options):
        raise ConnectionError("no route to host")

    monkeypatch.setattr("nilearn.datasets.fetch_atlas_msdl", fail)
    with pytest.raises(InputError, match="no route to host"):
        fetch_atlas("msdl39")
    assert not list(cache.rglob("*.csv"))


def test_maps_with_equal_names_are_numbered(cache, monkeypatch):
    fetched = SimpleNamespace(labels=["Aud", "DMN", "Aud"], region_coords=[(1, 2, 3)] * 3, networks=["A", "D", "A"])
    monkeypatch.setattr("nilearn.datasets.fetch_atlas_msdl", lambda **options: vars(fetched))
    atlas = fetch_atlas("msdl39")
    assert atlas.node_names == ("Aud 1", "DMN", "Aud 2")
    assert atlas.networks == {"msdl": ("A", "D", "A")}


def test_names_of_built_in_atlases_and_downloads_differ():
    assert not ATLASES.keys() & DOWNLOADS.keys()
    output = CliRunner().invoke(main, ["data", "atlases"]).output
    assert all(name in output for name in (*ATLASES, *DOWNLOADS))
