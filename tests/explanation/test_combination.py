"""Evidence cards: right on planted patterns, silent on shuffled labels, the same however a fit names its nodes."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from isocapsnet._validation import InputError
from isocapsnet.explanation.combination import combine
from isocapsnet.explanation.fits import FitExplanation, explain_fit
from isocapsnet.functional import permutation_table
from tests.explanation.conftest import Study, cross_validate
from tests.explanation.recovery import node_precision, region_shares


def test_cards_of_a_solved_pattern_are_stable_and_name_the_planted_nodes(study: Study) -> None:
    assert study.area >= 0.95
    planted = [pattern.nodes for pattern in study.planted.truth]
    for card in combine(study.explanations, study.tests):
        assert (card.verdict, card.n_separating, card.n_fits) == ("stable", 3, 3)
        assert card.sentence.startswith("Stable: ") and "3 of 3 fits" in card.sentence
        assert node_precision(region_shares(card, 16), planted) >= 0.8
        assert {region.node for region in card.regions[:4]} == set(planted[0].tolist())
        assert card.effect.low > 1
        assert 0.8 < np.abs(region_shares(card, 16)).sum() <= 1
        # Every listed window touches the pattern: nothing else distinguishes the classes.
        assert all({*range(w.row, w.row + 4), *range(w.column, w.column + 4)} & {*planted[0]} for w in card.windows)


def test_an_orientation_is_found_at_its_nodes_and_turns_with_the_class() -> None:
    study = cross_validate("orientation", seed=2)
    assert study.area >= 0.95
    [pattern] = study.planted.truth
    cards = combine(study.explanations, study.tests)
    assert all(card.verdict == "stable" for card in cards)
    assert all(node_precision(region_shares(card, 16), [pattern.nodes]) >= 0.75 for card in cards)
    home = int(pattern.nodes[0])
    templates = study.explanations[0].templates
    assert templates is not None
    # In the pattern's own window the two classes hold turned copies, so the winning permutations differ.
    assert (templates.orientation[0, :, home, home] != templates.orientation[1, :, home, home]).all()


@pytest.mark.parametrize("seed", range(4))
def test_shuffled_labels_leave_no_stable_template(seed: int) -> None:
    study = cross_validate("existence", seed=seed, shuffled=True)
    cards = combine(study.explanations, study.tests)
    assert len(cards) == 2
    assert [card.verdict for card in cards] == ["not stable"] * 2
    assert all("chance could explain" in card.sentence for card in cards)


def test_evidence_at_other_regions_each_time_is_not_stable(study: Study) -> None:
    moved = []
    for place, explanation in enumerate(study.explanations):
        assert explanation.templates is not None
        rolled = np.roll(explanation.templates.region_evidence, 5 * place, axis=-1)
        moved.append(replace(explanation, templates=replace(explanation.templates, region_evidence=rolled)))
    for card in combine(moved, study.tests):
        assert card.verdict == "not stable"
        assert "in different regions" in card.sentence


def test_cards_do_not_depend_on_how_a_fit_orders_its_templates_or_their_nodes(study: Study) -> None:
    renamed = [study.explanations[0], _rename(study.explanations[1]), _rename(study.explanations[2])]
    for card, same in zip(combine(study.explanations), combine(renamed), strict=True):
        assert np.allclose(card.matrix, same.matrix, atol=1e-6)
        assert np.allclose(region_shares(card, 16), region_shares(same, 16))
        assert [w.orientations for w in card.windows] == [w.orientations for w in same.windows]
        assert (card.p_value, card.verdict) == (same.p_value, same.verdict)


def _rename(explanation: FitExplanation) -> FitExplanation:
    """The same fit with its two templates swapped and the nodes of each renumbered."""
    old = explanation.templates
    assert old is not None
    table = permutation_table(4).numpy()
    numbers = {tuple(row): index for index, row in enumerate(table.tolist())}
    renaming = np.array([2, 0, 3, 1])
    # K'[q'] = K[q] with K' = K[renaming] needs renaming[q'] = q.
    translated = np.array([numbers[tuple(np.argsort(renaming)[row].tolist())] for row in table])
    changed = {
        name: getattr(old, name)[..., ::-1, :, :]
        for name in ("window_separation", "window_effect", "window_influence", "class_scores", "orientation_share")
    }
    templates = replace(
        old,
        matrices=old.matrices[::-1][:, renaming][:, :, renaming],
        template_evidence=old.template_evidence[..., ::-1],
        region_evidence=old.region_evidence[:, :, ::-1],
        orientation=translated[old.orientation][:, ::-1],
        **changed,
    )
    return replace(explanation, templates=templates)


def test_repeats_do_not_narrow_the_interval_but_more_subjects_do(study: Study) -> None:
    once = combine(study.explanations, study.tests)[0].effect
    twice = combine(study.explanations * 2, study.tests * 2)[0].effect
    unnamed = combine(study.explanations)[0].effect
    assert (once.low, once.high) == pytest.approx((twice.low, twice.high))
    assert unnamed.high - unnamed.low > 1.5 * (once.high - once.low)


def test_the_interval_of_a_known_example(study: Study) -> None:
    effect = combine(study.explanations, study.tests)[0].effect
    n_each = len(study.labels) / 2
    error = np.sqrt(2 / n_each + effect.value**2 / (4 * n_each))
    assert effect.high - effect.value == pytest.approx(1.96 * error, rel=0.001)


def test_two_fits_are_not_assessed(study: Study) -> None:
    for card in combine(study.explanations[:2], study.tests[:2]):
        assert (card.verdict, card.places, card.shape) == ("not assessed", None, None)
        assert (
            card.sentence.startswith("Not assessed: ")
            and "at least 3 fits" in card.sentence
            and "(here: 2)" in card.sentence
        )


def test_fits_with_templates_of_another_size_are_left_out_and_counted(study: Study) -> None:
    odd = study.explanations[0]
    assert odd.templates is not None
    odd = replace(odd, templates=replace(odd.templates, matrices=odd.templates.matrices[:, :3, :3]))
    cards = combine([odd, *study.explanations], [study.tests[0], *study.tests])
    assert [(card.n_fits, card.n_left_out) for card in cards] == [(3, 1)] * 2


def test_fits_without_unseen_graphs_of_a_class_are_left_out_and_counted(study: Study) -> None:
    test = study.tests[0][study.labels[study.tests[0]] == 1]
    one_class = explain_fit(study.models[0], study.planted.graphs[test], study.labels[test])
    cards = combine([one_class, *study.explanations])
    assert [(card.n_fits, card.n_left_out, card.verdict) for card in cards] == [(3, 1, "stable")] * 2
    assert combine([one_class]) == []


def test_the_places_are_those_of_the_reference(study: Study) -> None:
    templates = study.explanations[0].templates
    assert templates is not None
    first, second = combine(study.explanations), combine(study.explanations, reference=templates.matrices[::-1])
    assert [card.regions for card in first] == [card.regions for card in second][::-1]
    with pytest.raises(InputError, match="reference="):
        combine(study.explanations, reference=np.zeros((2, 3, 3), np.float32))


def test_cards_are_json_and_nothing_is_lost(study: Study) -> None:
    card = combine(study.explanations, study.tests)[0]
    content = json.loads(json.dumps(asdict(card), allow_nan=False))
    assert content["windows"][0]["orientations"][1]["permutation"] == card.windows[0].orientations[1].permutation
    assert content["effect"] == {"value": card.effect.value, "low": card.effect.low, "high": card.effect.high}
    assert len(content["matrix"]) == 4
    assert content["places"]["p_value"] <= 0.05


def test_windows_are_chosen_without_labels(study: Study) -> None:
    """Shuffling the held-out labels changes effects, not which windows are listed."""
    rng = np.random.default_rng(0)
    shuffled = [
        explain_fit(model, study.planted.graphs[test], rng.permutation(study.labels[test]))
        for model, test in zip(study.models, study.tests, strict=True)
    ]
    for card, other in zip(combine(study.explanations), combine(shuffled), strict=True):
        assert [(w.row, w.column) for w in card.windows] == [(w.row, w.column) for w in other.windows]


def test_nothing_to_combine_gives_no_cards(study: Study) -> None:
    assert combine([]) == []
    assert combine([replace(study.explanations[0], templates=None)]) == []
    with pytest.raises(InputError, match="subjects for 1"):
        combine(study.explanations, study.tests[:1])


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["existence", "orientation"])
def test_planted_nodes_are_found_over_many_seeds(effect: str) -> None:
    precisions = []
    for seed in range(8):
        study = cross_validate(effect, seed=seed)
        if study.area >= 0.95:
            planted = [pattern.nodes for pattern in study.planted.truth]
            cards = combine(study.explanations, study.tests)
            assert all(card.verdict == "stable" for card in cards)
            precisions += [node_precision(region_shares(card, 16), planted) for card in cards]
    assert len(precisions) >= 8
    assert np.mean(precisions) >= 0.8


@pytest.mark.slow
def test_shuffled_labels_leave_no_stable_template_over_many_seeds() -> None:
    for seed in range(100, 140):
        study = cross_validate("orientation" if seed % 2 else "existence", seed=seed, shuffled=True)
        assert "stable" not in [card.verdict for card in combine(study.explanations, study.tests)], seed
