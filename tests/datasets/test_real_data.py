"""Real datasets open by their names, with the counts that the catalog states."""

import numpy as np
import pytest

from isocapsnet.datasets.catalog import CATALOG
from isocapsnet.datasets.connectivity import TangentSpace
from isocapsnet.datasets.duplicates import find_duplicates
from isocapsnet.datasets.readers import examine_graphs, load_graphs


@pytest.mark.parametrize(
    ("name", "n_graphs", "folds"),
    [("hiv-dti", 76, [26, 25, 25]), ("hiv-fmri-34", 34, [12, 11, 11]), ("abide-nyu", 182, []), ("peking-1", 85, [])],
)
def test_real_datasets_open_by_name(real_data, name, n_graphs, folds):
    data, findings = examine_graphs(name)
    assert not findings.errors
    assert data.name == name
    assert data.adjacency.shape == (n_graphs, CATALOG[name].n_nodes, CATALOG[name].n_nodes)
    assert data.passport["classes"] == dict(CATALOG[name].class_counts)
    assert data.passport["graphs"]["symmetric"] is True
    assert [len(fold) for fold in data.folds] == folds
    assert (data.atlas and data.atlas.name) == CATALOG[name].atlas


def test_hiv_dti_is_what_the_paper_used(real_data):
    data = load_graphs("hiv-dti")
    assert np.array_equal(np.sort(np.concatenate(data.folds)), np.arange(76))
    assert data.passport["graphs"]["max"] == 2_263_337
    assert data.digest() == load_graphs(real_data / "hiv_dti.npz").digest()


def test_abide_brings_age(real_data):
    data = load_graphs("abide-nyu")
    assert data.covariates.columns.tolist() == ["age"]
    assert find_duplicates(data) == ([], 0)
    assert load_graphs(real_data / "abide_aal116_nyu.npz").atlas is None  # a file name is no order of regions


def test_correlations_of_real_subjects_have_a_tangent_space(real_data):
    data = load_graphs("abide-nyu")
    tangent = TangentSpace().fit(data.adjacency[:40]).transform(data.adjacency[40:45])
    assert np.isfinite(tangent).all()
    np.testing.assert_allclose(tangent, tangent.swapaxes(1, 2), atol=1e-9)
