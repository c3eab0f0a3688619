"""Splits, the null and the names of jobs."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from benchmark_toys import Logistic, make_samples, make_study, toy_method, toy_source
from hypothesis import given, settings
from hypothesis import strategies as st

from isocapsnet._validation import InputError
from isocapsnet.evaluation import Plan, Protocol, Samples
from isocapsnet.evaluation.estimation import tune
from isocapsnet.evaluation.naming import canonical_json, digest_of, seed_from
from isocapsnet.evaluation.preparation import Preparation
from isocapsnet.evaluation.protocol import free_unlabelled, inner_folds, null_order, stratified_folds
from isocapsnet.models._training import TrainingDivergedError


def _with_persons(study: Samples, persons: dict[int, str]) -> Samples:
    """The same graphs, of which some are of other persons."""
    covariates = study.data.covariates
    for index, person in persons.items():
        covariates.iloc[index, covariates.columns.get_loc("person")] = person
    return Samples(study.data.replace(covariates=covariates), "person")


@given(
    n_graphs=st.integers(12, 40),
    n_classes=st.integers(2, 3),
    n_folds=st.integers(2, 4),
    unlabelled=st.integers(0, 4),
    repeat=st.integers(0, 3),
)
@settings(max_examples=40, deadline=None)
def test_every_labelled_graph_is_tested_once_per_repeat_and_no_unlabelled_graph_ever(
    n_graphs: int, n_classes: int, n_folds: int, unlabelled: int, repeat: int
) -> None:
    study = make_samples(n_graphs=n_graphs + 12, n_classes=n_classes, n_unlabelled=unlabelled)
    splits = Protocol("nested", n_folds=n_folds).splits(study, repeat)
    tested = np.concatenate([split.test for split in splits])
    assert sorted(tested) == study.labelled.tolist()
    for split in splits:
        assert not set(split.train) & set(split.test)
        assert sorted([*split.train, *split.test]) == study.labelled.tolist()


def test_splits_depend_on_dataset_protocol_and_repeat_alone() -> None:
    study, protocol = make_samples(), Protocol()
    tests = [split.test.tolist() for split in protocol.splits(study, 0)]
    tuned_otherwise = replace(protocol, inner_folds=5, n_candidates=2)
    assert [split.test.tolist() for split in tuned_otherwise.splits(study, 0)] == tests
    assert [split.test.tolist() for split in protocol.splits(study, 1)] != tests
    assert [split.test.tolist() for split in protocol.splits(make_samples(seed=1), 0)] != tests


def test_graphs_of_one_subject_are_never_split_between_training_and_test() -> None:
    study = make_samples(n_graphs=48, graphs_per_subject=3)
    for repeat in range(5):
        for split in Protocol().splits(study, repeat):
            assert not set(study.subjects[split.train]) & set(study.subjects[split.test])


def test_paper_uses_the_predefined_folds_and_nested_does_not() -> None:
    study = make_samples(n_graphs=30, folds=3)
    expected = [list(range(start, 30, 3)) for start in range(3)]
    assert [split.test.tolist() for split in Protocol("paper").splits(study, 0)] == expected
    assert [split.test.tolist() for split in Protocol("nested").splits(study, 0)] != expected
    assert not Protocol("paper").is_tuned


def test_leave_site_out_tests_each_site_once_and_drops_its_travelling_subjects_from_training() -> None:
    study = make_samples(n_graphs=40, n_sites=4)
    # One person was scanned at the first and at the last site.
    splits = Protocol("leave-site-out").splits(_with_persons(study, {0: study.subjects[39]}), 0)
    assert [split.name for split in splits] == [f"site {i}" for i in range(4)]
    assert set(study.sites[splits[1].test]) == {"site 1"}
    assert 39 not in splits[0].train
    assert 0 not in splits[3].train


@pytest.mark.parametrize(
    ("study", "protocol", "repeats", "sentence"),
    [
        (make_samples(n_graphs=4), Protocol(n_folds=3), 1, "Class 0 has 2 graphs, fewer than the 3 folds"),
        (make_samples(n_graphs=8, graphs_per_subject=2), Protocol(), 1, "has 2 subjects, fewer than the 3 folds"),
        (make_samples(), Protocol("leave-site-out"), 1, "at least two sites"),
        (make_samples(n_sites=3), Protocol("leave-site-out"), 2, "sites"),
        (make_samples(folds=3), Protocol("paper"), 2, "predefined folds"),
        (Samples(make_study().replace(folds=[np.arange(9), np.arange(8, 20)])), Protocol("paper"), 1, "folds overlap"),
        (make_samples(n_classes=1), Protocol(), 1, "two"),
        (
            make_samples(n_graphs=30, graphs_per_subject=2, folds=3),
            Protocol("paper"),
            1,
            "tests subjects that also train",
        ),
    ],
)
def test_impossible_splits_are_refused_with_a_sentence(study, protocol, repeats, sentence) -> None:
    with pytest.raises(InputError, match=sentence):
        protocol.check_repeats(study, repeats)
        protocol.splits(study, 0)


def test_unlabelled_graphs_of_tested_people_and_sites_do_not_train() -> None:
    study = make_samples(n_graphs=40, n_sites=2, n_unlabelled=10)  # all of the last at the second site
    assert study.unlabelled.tolist() == list(range(30, 40))
    assert free_unlabelled(study, Protocol(), np.array([20, 21])).tolist() == list(range(30, 40))
    returning = _with_persons(study, {33: study.subjects[21]})
    assert 33 not in free_unlabelled(returning, Protocol(), np.array([20, 21]))
    away = Protocol("leave-site-out")
    assert [len(free_unlabelled(study, away, split.test)) for split in away.splits(study, 0)] == [10, 0]


def test_there_are_no_inner_folds_where_none_keep_subjects_whole_and_classes_in_training() -> None:
    labels, groups = np.array([1, 0, 0, 1, 0, 1]), np.array([0, 3, 1, 0, 3, 1])
    with pytest.raises(InputError, match="cannot keep each subject whole"):
        stratified_folds(labels, groups, 2, seed=76)
    assert inner_folds(labels, groups, 3, seed=76) == []
    assert len(inner_folds(labels, None, 3, seed=76)) == 3


def test_tuning_passes_over_inner_folds_of_one_class_and_keeps_the_defaults_without_any_other() -> None:
    study = make_samples(n_graphs=24, effect=4.0)
    train, labels = np.arange(24), study.labels

    def fit(settings: dict, graphs: np.ndarray, labels: np.ndarray) -> Logistic:
        return Logistic(**settings).fit(graphs, labels)

    one_class = (np.arange(12), np.arange(12, 24, 2))
    candidates = [{"blind": True}, {"blind": False}]
    both = [one_class, (np.arange(12), np.arange(12, 24))]
    preparation = Preparation(())
    assert tune(candidates, both, fit, preparation, study, train, labels) == {"blind": False}
    assert tune(candidates, [one_class], fit, preparation, study, train, labels) == {"blind": True}


@pytest.mark.parametrize("error", [TrainingDivergedError, ValueError])
def test_a_candidate_that_cannot_be_fitted_is_left_out_and_does_not_fail_the_job(error: type[Exception]) -> None:
    study = make_samples(n_graphs=24, effect=4.0)
    folds = [(np.arange(12), np.arange(12, 24)), (np.arange(12, 24), np.arange(12))]

    def fit(settings: dict, graphs: np.ndarray, labels: np.ndarray) -> Logistic:
        if settings["C"] > 1:
            raise error("the loss became nan")
        return Logistic(**settings).fit(graphs, labels)

    arguments = folds, fit, Preparation(()), study, np.arange(24), study.labels
    assert tune([{"C": 9.0}, {"C": 1.0}, {"C": 5.0}], *arguments) == {"C": 1.0}
    with pytest.raises(error):
        tune([{"C": 9.0}, {"C": 5.0}], *arguments)


def test_the_null_moves_data_but_neither_labels_nor_folds_nor_unlabelled_graphs() -> None:
    study = make_samples(n_graphs=40, n_unlabelled=6)
    order = null_order(study, Protocol(), 1)
    assert sorted(order) == list(range(40))
    assert order[study.unlabelled].tolist() == study.unlabelled.tolist()
    assert (order != np.arange(40)).sum() > 20
    assert not np.array_equal(order, null_order(study, Protocol(), 2))
    assert np.array_equal(order, null_order(study, Protocol("paper"), 1))


def test_under_the_null_the_graphs_of_a_subject_move_together() -> None:
    study = make_samples(n_graphs=30, graphs_per_subject=3)
    order = null_order(study, Protocol(), 1)
    for start in range(0, 30, 3):
        assert len(set(study.subjects[order[start : start + 3]])) == 1
    assert not np.array_equal(order, np.arange(30))


def test_under_the_null_of_labels_inside_subjects_graphs_stay_with_their_subject() -> None:
    study = make_samples(n_graphs=30, graphs_per_subject=3)
    study = Samples(study.data.replace(labels=np.arange(30) % 2), "person")
    order = null_order(study, Protocol(), 1)
    assert np.array_equal(study.subjects[order], study.subjects)
    assert not np.array_equal(order, np.arange(30))


def test_under_the_null_of_leave_site_out_subjects_stay_in_their_site() -> None:
    study = make_samples(n_graphs=40, n_sites=4)
    order = null_order(study, Protocol("leave-site-out"), 1)
    assert np.array_equal(study.sites[order], study.sites)
    assert not np.array_equal(study.sites[null_order(study, Protocol(), 1)], study.sites)


def test_canonical_json_does_not_depend_on_key_order_or_sequence_type() -> None:
    assert canonical_json({"b": (1, 2), "a": np.float64(0.5)}) == '{"a":0.5,"b":[1,2]}'
    with pytest.raises(InputError, match="nan"):
        canonical_json({"a": float("nan")})


def test_keys_and_seeds_are_the_same_in_another_process() -> None:
    code = (
        "from isocapsnet.evaluation.naming import digest_of, seed_from;"
        "print(digest_of({'a': [1, 'b']}), seed_from('fit', 3, None))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out == [digest_of({"a": [1, "b"]}), str(seed_from("fit", 3, None))]


def test_a_job_key_changes_with_all_a_result_depends_on_and_with_nothing_else(tmp_path) -> None:
    source = toy_source()
    method = toy_method("linear", Logistic, version=1, space={"C": [0.1, 1.0]})
    base = Plan(source, (method,), Protocol(), repeats=1)
    key = base.tasks(tmp_path)[0].job.key
    assert key == digest_of(json.loads(canonical_json(base.tasks(tmp_path)[0].job.to_json())))

    def first_key(**changes: object) -> str:
        return replace(base, **changes).tasks(tmp_path)[0].job.key

    same = {
        "runtime": first_key(methods=(replace(method, runtime={"device": "cuda"}),)),
        "repeats": first_key(repeats=7),
        "permutations": first_key(permutations=3),
        "factory": first_key(methods=(replace(method, factory="benchmark_toys:Prior"),)),
    }
    assert set(same.values()) == {key}
    different = {
        "version": first_key(methods=(replace(method, version=2),)),
        "name": first_key(methods=(replace(method, name="other"),)),
        "parameters": first_key(methods=(replace(method, parameters={"C": 2.0}),)),
        "space": first_key(methods=(replace(method, space={"C": [5.0]}),)),
        "unlabelled": first_key(methods=(replace(method, use_unlabeled=True),)),
        "protocol": first_key(protocol=Protocol("paper")),
        "tuning": first_key(protocol=Protocol(n_candidates=3)),
        "search": first_key(protocol=Protocol(search="exhaustive")),
        "data": first_key(source=toy_source(seed=1)),
    }
    tasks = replace(base, repeats=2, permutations=2, audits=1).tasks(tmp_path)
    assert len({task.job.key for task in tasks}) == len(tasks) == 2 * 3 * (1 + 1 + 2)
    assert len({key, *different.values()}) == len(different) + 1


def test_tuning_settings_do_not_tell_untuned_records_apart(tmp_path) -> None:
    plan = Plan(toy_source(), (toy_method("linear", Logistic),), Protocol(n_candidates=3), repeats=1)
    other = replace(plan, protocol=Protocol(n_candidates=9, search="exhaustive"))
    assert [t.job.key for t in plan.tasks(tmp_path)] == [t.job.key for t in other.tasks(tmp_path)]


def test_a_method_asked_for_twice_is_refused() -> None:
    with pytest.raises(InputError, match="linear"):
        Plan(toy_source(), (toy_method("linear", Logistic),) * 2)
