"""Transformers inside a fold: known answers, nothing learned from test subjects, metadata where it is needed."""

import tracemalloc
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.linalg import logm, sqrtm
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from isocapsnet._validation import InputError
from isocapsnet.datasets import connectivity
from isocapsnet.datasets.connectivity import (
    CONNECTIVITY,
    TRANSFORMS,
    ConfoundRegressor,
    DensityThreshold,
    EdgeScaler,
    FisherZ,
    LogTransform,
    SignedEdges,
    SiteHarmonizer,
    TangentSpace,
    TimeSeriesConnectivity,
    ValueThreshold,
)
from isocapsnet.datasets.transformer import GraphTransformer

N_GRAPHS, N_NODES = 36, 6
OFF_DIAGONAL = ~np.eye(N_NODES, dtype=bool)


def make_series(n_graphs=N_GRAPHS, n_nodes=N_NODES, seed=0):
    rng = np.random.default_rng(seed)
    mixing = np.eye(n_nodes) + 0.3 * rng.normal(size=(n_nodes, n_nodes))
    return [rng.normal(size=(rng.integers(30, 50), n_nodes)) @ mixing for _ in range(n_graphs)]


@pytest.fixture(scope="module")
def correlations():
    return np.stack([np.corrcoef(series, rowvar=False) for series in make_series()])


@pytest.fixture(scope="module")
def labels():
    return np.arange(N_GRAPHS) % 2


@pytest.fixture(scope="module")
def metadata():
    rng = np.random.default_rng(1)
    age = rng.uniform(20, 60, N_GRAPHS)
    age[3] = np.nan
    covariates = pd.DataFrame({"age": age, "sex": np.array(["f", "m"])[rng.integers(0, 2, N_GRAPHS)]})
    return {"sites": np.tile(["A", "B", "C"], N_GRAPHS // 3), "covariates": covariates}


def needed(transformer, metadata):
    """The metadata that a transformer asks for."""
    names = {"ConfoundRegressor": ["covariates"], "SiteHarmonizer": ["sites", "covariates"]}
    return {name: metadata[name] for name in names.get(type(transformer).__name__, [])}


def take(metadata, index):
    return {k: v.iloc[index] if hasattr(v, "iloc") else v[index] for k, v in metadata.items()}


EDGES = FunctionTransformer(lambda graphs: np.asarray(graphs)[:, *np.triu_indices(N_NODES, k=1)])


# -- known answers ----------------------------------------------------------------------------------------------


def test_tangent_space_is_the_logarithm_relative_to_the_geometric_mean(correlations):
    fitted = TangentSpace(shrinkage=0.3).fit(correlations[:20])
    shrunk = 0.7 * correlations + 0.3 * np.eye(N_NODES)
    whitening = np.linalg.inv(sqrtm(fitted.reference_).real)
    logarithms = np.stack([logm(whitening @ matrix @ whitening).real for matrix in shrunk])
    # The geometric mean is where the logarithms of the training matrices average to nothing.
    assert np.abs(logarithms[:20].mean(axis=0)).max() < 1e-4
    np.testing.assert_allclose(fitted.transform(correlations)[:, OFF_DIAGONAL], logarithms[:, OFF_DIAGONAL], atol=1e-8)
    assert not fitted.transform(correlations)[:, np.arange(N_NODES), np.arange(N_NODES)].any()


def test_tangent_space_of_singular_matrices_and_silent_nodes():
    series = np.random.default_rng(0).normal(size=(5, 4, 12))
    singular = np.stack([np.corrcoef(one, rowvar=False) for one in series])
    singular[2, 3] = singular[2, :, 3] = 0
    assert np.isfinite(TangentSpace().fit_transform(singular)).all()
    with pytest.raises(InputError, match="not positive definite; raise shrinkage=0"):
        TangentSpace(shrinkage=0.0).fit(singular)
    with pytest.raises(InputError, match="diagonal"):
        TangentSpace().fit(singular * (1 - np.eye(12)))


@pytest.mark.parametrize("kind", CONNECTIVITY)
def test_time_series_connectivity_is_nilearns(kind):
    from nilearn.connectome import ConnectivityMeasure

    series = make_series(12)
    expected = ConnectivityMeasure(kind=kind).fit(series[:8]).transform(series[8:])
    graphs = TimeSeriesConnectivity(kind).fit(series[:8]).transform(series[8:])
    np.testing.assert_allclose(graphs[:, OFF_DIAGONAL], expected[:, OFF_DIAGONAL])
    assert not np.diagonal(graphs, axis1=1, axis2=2).any()
    assert np.isfinite(TimeSeriesConnectivity(kind).fit(series).transform([series[0] * [1, 1, 1, 1, 1, 0]])).all()


def test_fisher_z_thresholds_logarithm_scale_and_signs():
    graph = np.array([[1.0, 0.5, -0.2], [0.5, 1.0, 0.1], [-0.2, 0.1, 1.0]])
    graphs = np.stack([graph, 0.5 * graph])
    assert FisherZ().fit_transform(graphs)[0, 0, 1] == pytest.approx(np.arctanh(0.5))
    assert FisherZ().fit_transform(graphs)[0, 0, 0] == 0
    # Mean absolute weights are 0.375, 0.15 and 0.075: a third of the edges is the strongest one.
    kept = DensityThreshold(1 / 3).fit_transform(graphs)
    assert np.argwhere(np.triu(kept[1], 1)).tolist() == [[0, 1]]
    assert kept[0, 0, 0] == 1
    fitted = ValueThreshold(0.5).fit(graphs)
    assert fitted.threshold_ == pytest.approx(np.median([0.5, 0.2, 0.1, 0.25, 0.1, 0.05]))
    assert np.argwhere(np.triu(fitted.transform(graphs)[0], 1)).tolist() == [[0, 1], [0, 2]]
    assert LogTransform().fit_transform(1e5 * graphs)[0, 0, 2] == pytest.approx(-np.log1p(2e4))
    assert EdgeScaler().fit_transform(graphs)[:, ~np.eye(3, dtype=bool)].std() == pytest.approx(1)
    standard = EdgeScaler(per_edge=True).fit_transform(graphs)
    np.testing.assert_allclose(standard.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(standard.std(axis=0), 1)
    assert SignedEdges("absolute").fit_transform(graphs)[0, 0, 2] == 0.2
    assert SignedEdges("positive").fit_transform(graphs)[0, 0, 2] == 0
    assert SignedEdges("negative").fit_transform(graphs)[0, 0, 2] == 0.2
    assert SignedEdges("negative").fit_transform(graphs)[0, 0, 1] == 0


def test_counts_and_memory_maps_are_taken_and_never_written_to(tmp_path, correlations, metadata):
    counts = (np.abs(correlations) * 1000).astype(np.int32)
    np.save(tmp_path / "counts.npy", counts)
    mapped = np.load(tmp_path / "counts.npy", mmap_mode="r")
    for name, transformer in TRANSFORMS.items():
        if name != "fisher-z":
            options = needed(transformer(), metadata)
            result = transformer().fit(mapped, **options).transform(mapped, **options)
            assert result.shape == counts.shape
            assert result.dtype.kind == "f"
    assert np.array_equal(mapped, counts)


def test_confound_regression_removes_what_covariates_explain(correlations, metadata):
    covariates = metadata["covariates"].assign(age=metadata["covariates"]["age"].fillna(40))
    slope = np.random.default_rng(2).normal(size=(N_NODES, N_NODES))
    is_male = (covariates["sex"] == "m").to_numpy()
    confounded = correlations + 0.1 * covariates["age"].to_numpy()[:, None, None] * slope + is_male[:, None, None]
    cleaned = ConfoundRegressor().fit_transform(confounded, covariates=covariates)
    for column in (covariates["age"], is_male):
        residual = (column - np.mean(column)).to_numpy() if hasattr(column, "to_numpy") else column - column.mean()
        np.testing.assert_allclose(np.tensordot(residual, cleaned, 1), 0, atol=1e-8)
    np.testing.assert_allclose(cleaned.mean(axis=0), confounded.mean(axis=0), atol=1e-10)
    # What is left is what regressing the same covariates out of the clean graphs leaves.
    expected = ConfoundRegressor().fit_transform(correlations, covariates=covariates)
    np.testing.assert_allclose(cleaned - cleaned.mean(axis=0), expected - expected.mean(axis=0), atol=1e-8)


def test_unknown_and_missing_covariates_count_as_the_average(correlations, metadata):
    fitted = ConfoundRegressor().fit(correlations, covariates=metadata["covariates"])
    unknown = pd.DataFrame({"age": [np.nan], "sex": ["other"]})
    np.testing.assert_allclose(fitted.transform(correlations[:1], covariates=unknown), correlations[:1])


def site_means(graphs, sites):
    return np.stack([graphs[sites == site].mean(axis=0) for site in np.unique(sites)])[:, OFF_DIAGONAL]


def test_harmonization_removes_site_effects_and_keeps_what_covariates_explain(correlations, metadata):
    rng = np.random.default_rng(3)
    sites = metadata["sites"]
    offset = {site: np.where(OFF_DIAGONAL, rng.normal(), 0) + rng.normal(size=(N_NODES, N_NODES)) for site in "ABC"}
    shifted = correlations + np.stack([offset[site] for site in sites])
    harmonised = SiteHarmonizer().fit_transform(shifted, sites=sites)
    before, after = site_means(shifted, sites).std(axis=0).mean(), site_means(harmonised, sites).std(axis=0).mean()
    assert after < 0.05 * before
    assert np.array_equal(np.diagonal(harmonised, 0, 1, 2), np.diagonal(shifted, 0, 1, 2))
    # A covariate that differs between sites is taken for a site effect unless it is named.
    age = np.where(sites == "A", 60.0, 30.0) + rng.normal(size=N_GRAPHS) * 10
    aged = correlations + 0.05 * age[:, None, None]
    covariates = pd.DataFrame({"age": age})
    slopes = [
        np.polyfit(age, graphs[:, 0, 1], 1)[0]
        for graphs in (
            SiteHarmonizer().fit_transform(aged, sites=sites),
            SiteHarmonizer().fit_transform(aged, sites=sites, covariates=covariates),
        )
    ]
    assert abs(slopes[1] - 0.05) < abs(slopes[0] - 0.05)
    assert slopes[1] == pytest.approx(0.05, rel=0.15)


def test_unseen_sites_follow_the_declared_policy(correlations):
    sites = np.array(["A"] * 15 + ["B"] * 15 + ["single"] + ["C"] * 5)
    train = slice(0, 31)
    kept = SiteHarmonizer().fit(correlations[train], sites=sites[train])
    assert kept.sites_.tolist() == ["A", "B"]
    with pytest.warns(UserWarning, match="fewer than two training subjects"):
        result = kept.transform(correlations, sites=sites)
    assert np.array_equal(result[30:], correlations[30:])
    assert not np.array_equal(result[:30], correlations[:30])
    refusing = SiteHarmonizer(unseen="refuse").fit(correlations[train], sites=sites[train])
    with pytest.raises(InputError, match="'single' has fewer than two training subjects"):
        refusing.transform(correlations[30:31], sites=sites[30:31])


def test_harmonization_needs_no_more_memory_than_its_result():
    graphs = np.random.default_rng(0).normal(size=(400, 40, 40))
    sites = np.arange(400) % 3
    harmonizer = SiteHarmonizer().fit(graphs[:60], sites=sites[:60])
    tracemalloc.start()
    try:
        harmonizer.transform(graphs, sites=sites)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * graphs.nbytes


def test_unseen_sites_alone_are_kept_with_covariates(correlations, metadata):
    harmonizer = SiteHarmonizer().fit(correlations, **metadata)
    with pytest.warns(UserWarning, match="moon"):
        kept = harmonizer.transform(correlations[:4], sites=["moon"] * 4, covariates=metadata["covariates"].iloc[:4])
    np.testing.assert_array_equal(kept, correlations[:4])


def test_one_site_is_left_alone_and_constant_edges_survive(correlations):
    same = np.full(N_GRAPHS, "A")
    assert np.array_equal(SiteHarmonizer().fit_transform(correlations, sites=same), correlations)
    constant = correlations.copy()
    constant[:, 0, 1] = constant[:, 1, 0] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        harmonised = SiteHarmonizer().fit_transform(constant, sites=np.arange(N_GRAPHS) % 2)
    assert np.isfinite(harmonised).all()
    assert not harmonised[:, 0, 1].any()


# -- nothing is learned from test subjects ------------------------------------------------------------------------


def fitted_states(transformer, graphs, labels, metadata):
    """The fitted state of the transformer in each fold of a cross-validated pipeline."""
    with sklearn.config_context(enable_metadata_routing=True):
        folds = cross_validate(
            make_pipeline(transformer, EDGES, LogisticRegression()),
            graphs,
            labels,
            cv=StratifiedKFold(3),
            params=needed(transformer, metadata),
            return_estimator=True,
        )
    return [joblib.hash({k: v for k, v in vars(e[0]).items() if k.endswith("_")}) for e in folds["estimator"]]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_changing_test_subjects_leaves_the_fitted_state_bit_equal(name, correlations, labels, metadata):
    before = fitted_states(TRANSFORMS[name](), correlations, labels, metadata)
    for fold, (_, test) in enumerate(StratifiedKFold(3).split(correlations, labels)):
        changed = correlations.copy()
        changed[test] = 0.5 * correlations[test][::-1] + 0.5 * np.eye(N_NODES)
        changed_metadata = {"sites": metadata["sites"].copy(), "covariates": metadata["covariates"].copy()}
        changed_metadata["covariates"].loc[test, "age"] = 99.0
        after = fitted_states(TRANSFORMS[name](), changed, labels, changed_metadata)
        assert after[fold] == before[fold]
        if name not in ("log", "signs", "fisher-z", "density"):
            assert all(a != b for i, (a, b) in enumerate(zip(after, before, strict=True)) if i != fold)


@pytest.mark.parametrize("kind", CONNECTIVITY)
def test_changing_test_series_leaves_the_fitted_state_bit_equal(kind):
    series = make_series()
    changed = series[:24] + make_series(12, seed=9)
    states = []
    for data in (series, changed):
        fitted = TimeSeriesConnectivity(kind).fit(data[:24])
        together = fitted.transform(data[24:])
        np.testing.assert_allclose(fitted.transform(data[30:31])[0], together[6], atol=1e-12)
        states.append(joblib.hash(vars(fitted)))
    assert states[0] == states[1]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_subject_is_transformed_alike_whoever_else_is_tested(name, correlations, metadata):
    transformer = TRANSFORMS[name]()
    train, test = np.arange(24), np.arange(12, 36)
    fitted = transformer.fit(correlations[train], **take(needed(transformer, metadata), train))
    state = joblib.hash(vars(fitted))
    options = needed(transformer, metadata)
    with np.errstate(all="ignore"):
        together = fitted.transform(correlations[test[:12]], **take(options, test[:12]))
        alone = [fitted.transform(correlations[[i]], **take(options, [i]))[0] for i in test[:12]]
    np.testing.assert_allclose(together, np.stack(alone), atol=1e-12)
    assert joblib.hash(vars(fitted)) == state


# -- composition --------------------------------------------------------------------------------------------------


def test_sites_and_covariates_reach_the_transformers_through_a_pipeline(correlations, labels, metadata):
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(SiteHarmonizer(), ConfoundRegressor(), FisherZ(limit=0.9), EDGES, LogisticRegression())
        pipeline.fit(np.clip(correlations, -0.5, 0.5), labels, **metadata)
        with pytest.raises(InputError, match="SiteHarmonizer needs sites"):
            pipeline.predict(correlations[:4])
        assert pipeline.predict(0.5 * correlations[:4], **take(metadata, range(4))).shape == (4,)
        scores = cross_validate(clone(pipeline), 0.5 * correlations, labels, params=metadata, error_score="raise")
    assert len(scores["test_score"]) == 5


def test_transformers_compose_with_the_estimators_of_the_package(correlations, labels):
    from isocapsnet.models.baselines import LinearClassifier

    pipeline = make_pipeline(TangentSpace(), EdgeScaler(), LinearClassifier())
    probabilities = pipeline.fit(correlations, labels).predict_proba(correlations)
    assert probabilities.shape == (N_GRAPHS, 2)
    from_series = make_pipeline(TimeSeriesConnectivity("tangent"), LinearClassifier())
    series = np.empty(N_GRAPHS, dtype=object)
    series[:] = make_series()
    assert from_series.fit(series[:30], labels[:30]).predict(series[30:]).shape == (6,)


def test_every_transformer_of_graphs_has_a_name_for_the_command_line():
    defined = {c for c in vars(connectivity).values() if isinstance(c, type) and issubclass(c, GraphTransformer)}
    assert set(TRANSFORMS.values()) == defined - {GraphTransformer}
    for name, transformer in TRANSFORMS.items():
        assert clone(transformer()).get_params() == transformer().get_params(), name


@pytest.mark.parametrize(
    ("transformer", "sentence"),
    [
        (TangentSpace(shrinkage=2), "shrinkage=2 is out of range"),
        (DensityThreshold(density=0), "density=0 is out of range"),
        (ValueThreshold(quantile=-1), "quantile=-1 is out of range"),
        (SignedEdges(policy="drop"), "policy='drop' is unknown"),
        (ConfoundRegressor(), "ConfoundRegressor needs covariates"),
        (SiteHarmonizer(), "SiteHarmonizer needs sites"),
    ],
)
def test_bad_parameters_and_missing_metadata_are_refused(correlations, transformer, sentence):
    with pytest.raises(InputError, match=sentence):
        transformer.fit(correlations)


def test_graphs_that_do_not_fit_are_refused(correlations, metadata):
    with pytest.raises(InputError, match="fitted on graphs of 6 nodes"):
        EdgeScaler().fit(correlations).transform(correlations[:, :5, :5])
    with pytest.raises(InputError, match=r"needs correlations.*transform=\"fisher-z,harmonize,confounds\""):
        FisherZ().fit_transform(3 * correlations)
    with pytest.raises(InputError, match="36 graphs but 3 rows of covariates"):
        ConfoundRegressor().fit(correlations, covariates=metadata["covariates"][:3])
    with pytest.raises(InputError, match="too few to regress out"):
        ConfoundRegressor().fit(correlations[:3], covariates=metadata["covariates"][:3])
    with pytest.raises(InputError, match="kind='coherence' is unknown"):
        TimeSeriesConnectivity("coherence").fit(make_series(3))
    with pytest.raises(InputError, match="Time series 1 has shape"):
        TimeSeriesConnectivity().fit([np.ones((9, 4)), np.ones((9, 5))])
    with pytest.raises(InputError, match="'age' was there at fit"):
        ConfoundRegressor().fit(correlations, covariates=metadata["covariates"]).transform(
            correlations, covariates=metadata["covariates"][["sex"]]
        )
