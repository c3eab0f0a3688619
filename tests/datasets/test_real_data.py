"""The shared datasets load, with the counts that their descriptions state."""

import numpy as np
import pytest

from isocapsnet.datasets.catalog import CATALOG
from isocapsnet.datasets.connectivity import TangentSpace
from isocapsnet.datasets.duplicates import find_duplicates
from isocapsnet.datasets.readers import examine_graphs, load_graphs


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("hiv_dti", (76, 90, 90), {"-1": 20, "1": 56}),
        ("abide_aal116_nyu", (182, 116, 116), {"0": 104, "1": 78}),
        ("adhd200_peking_1", (85, 190, 190), {"-1": 49, "1": 36}),
    ],
)
def test_shared_datasets_load(shared_data, name, shape, classes):
    data, findings = examine_graphs(shared_data / f"{name}.npz")
    assert not findings.errors
    assert data.adjacency.shape == shape
    assert data.passport["classes"] == classes
    assert data.passport["graphs"]["symmetric"] is True


def test_hiv_dti_has_the_papers_folds_and_the_catalogs_counts(shared_data):
    data = load_graphs(shared_data / "hiv_dti.npz", atlas="aal90")
    assert [len(fold) for fold in data.folds] == [26, 25, 25]
    assert np.array_equal(np.sort(np.concatenate(data.folds)), np.arange(76))
    assert data.passport["classes"] == dict(CATALOG["hiv-dti"].class_counts)
    assert data.passport["graphs"]["max"] == 2_263_337


def test_abide_brings_age_and_is_recognised_as_aal116(shared_data):
    data = load_graphs(shared_data / "abide_aal116_nyu.npz")
    assert data.covariates.columns.tolist() == ["age"]
    assert data.atlas.name == "aal116"
    assert find_duplicates(data) == ([], 0)


def test_correlations_of_real_subjects_have_a_tangent_space(shared_data):
    data = load_graphs(shared_data / "abide_aal116_nyu.npz")
    tangent = TangentSpace().fit(data.adjacency[:40]).transform(data.adjacency[40:45])
    assert np.isfinite(tangent).all()
    np.testing.assert_allclose(tangent, tangent.swapaxes(1, 2), atol=1e-9)
