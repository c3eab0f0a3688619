"""Cards of explanations that are made, not fitted: every place, class and order in them is known."""

import numpy as np
import pytest

from isocapsnet.explanation.cards import Agreement, EvidenceCard
from isocapsnet.explanation.combination import _judge, combine
from isocapsnet.explanation.fits import FitExplanation, Templates, over_regions

N_NODES, SIZE, STRIDE, N_WINDOWS = 12, 3, 2, 5
CODES = np.arange(40) % 2
#: Window [1, 3] lies over rows 2 to 4 and columns 6 to 8.
WINDOW, ROWS, COLUMNS = (1, 3), [2, 3, 4], [6, 7, 8]


def make_fit(seed: int, *, better: int = 1, swapped: bool = False) -> FitExplanation:
    """Two templates: the first separates the classes in one window and matches better in ``better``; the other not."""
    rng = np.random.default_rng(seed)
    matrices = np.random.default_rng(0).normal(size=(2, SIZE, SIZE)).astype(np.float32)
    evidence = np.zeros((len(CODES), 1, 2, N_WINDOWS, N_WINDOWS), np.float32)
    evidence[:, 0, 0, *WINDOW] = CODES + rng.normal(0, 0.2, len(CODES))
    evidence[:, 0, 1, 0, 0] = rng.normal(0, 0.1, len(CODES))
    scores = np.full((2, 2, N_WINDOWS, N_WINDOWS), 0.5, np.float32)
    scores[better, 0, *WINDOW], scores[1 - better, 0, *WINDOW] = 0.9, 0.2
    separated = evidence[CODES == 1, 0].mean(axis=0) - evidence[CODES == 0, 0].mean(axis=0)
    order = [1, 0] if swapped else [0, 1]
    return FitExplanation(
        classes=np.array(["control", "case"]),
        positions=np.arange(len(CODES)),
        codes=CODES,
        edges=np.zeros((N_NODES, N_NODES), np.float32),
        randomization=0.0,
        examples=np.arange(0),
        example_graphs=np.zeros((0, N_NODES, N_NODES), np.float32),
        templates=Templates(
            matrices=matrices[order],
            stride=STRIDE,
            template_evidence=evidence.sum(axis=(3, 4))[:, :, order],
            region_evidence=over_regions(evidence, N_NODES, SIZE, STRIDE)[:, :, order],
            unattributed=np.zeros((len(CODES), 1), np.float32),
            window_separation=separated[order],
            window_effect=separated[order],
            window_influence=evidence.std(axis=0)[0][order],
            class_scores=scores[:, order],
            orientation=np.zeros(scores.shape, np.int32),
            orientation_share=np.ones(scores.shape, np.float32),
        ),
    )


def make_cards(better: int = 1) -> list[EvidenceCard]:
    return combine([make_fit(seed, better=better) for seed in range(4)])


def test_evidence_of_a_window_belongs_to_the_nodes_of_its_rows_and_of_its_columns() -> None:
    evidence = np.zeros((N_WINDOWS, N_WINDOWS))
    evidence[WINDOW] = 1.0
    found = over_regions(evidence, N_NODES, SIZE, STRIDE)
    # Nodes 2, 4, 6 and 8 lie in two window positions each, so that the mean over positions halves their evidence.
    assert found.tolist() == [0, 0, 0.5, 1, 0.5, 0, 0.5, 1, 0.5, 0, 0, 0]


@pytest.mark.parametrize("better", [0, 1])
def test_the_window_and_regions_of_a_card_are_where_the_evidence_is_with_the_class_that_matches(better: int) -> None:
    card = make_cards(better=better)[0]
    first = card.windows[0]
    assert (first.row, first.column, first.favours) == (2, 6, better)
    assert first.scores[better] == pytest.approx(0.9) and first.scores[1 - better] == pytest.approx(0.2)
    assert first.share == pytest.approx(1)
    assert {region.node for region in card.regions[:6]} == {*ROWS, *COLUMNS}
    assert {region.favours for region in card.regions[:6]} == {better}


def test_regions_count_the_fits_in_which_they_are_among_the_first() -> None:
    regions = {region.node: region for region in make_cards()[0].regions}
    assert regions[3].n_fits == regions[7].n_fits == 4, "the middle of rows and columns has the most evidence"
    assert sum(region.n_fits for region in regions.values()) == 4 * SIZE


def test_a_card_follows_its_template_through_fits_that_list_it_elsewhere() -> None:
    fits = [make_fit(seed, swapped=seed % 2 == 1) for seed in range(4)]
    separating, idle = combine(fits)
    assert (separating.n_separating, separating.verdict) == (4, "stable")
    assert idle.n_separating < 4 and idle.verdict == "not stable"
    assert separating.effect.value > 2 > abs(idle.effect.value)


def test_a_card_says_whether_the_shape_is_similar_in_all_fits() -> None:
    assert "shape is similar" in make_cards()[0].sentence
    places, shape = Agreement(0.9, 0.2, 0.001), Agreement(0.4, 0.6, 0.3)
    assert "interpret the regions, not the drawing" in _judge(np.full(3, 0.001), 0.001, places, shape)[1]


def test_a_card_says_that_a_network_has_weight_0_instead_of_a_p_value_of_1() -> None:
    places = shape = Agreement(0.9, 0.2, 0.001)
    verdict, sentence = _judge(np.array([0.001, 0.001, 1.0]), 1.0, places, shape, n_without=1)
    assert verdict == "not stable" and "2 of 3 fits (in 1," in sentence and "does not take part" in sentence
    assert "p =" not in sentence
    assert "p = 1.000" in _judge(np.array([0.001, 0.001, 1.0]), 1.0, places, shape)[1], "without such a fit"


@pytest.mark.parametrize(
    ("p_value", "places", "verdict"),
    [(0.0099, 0.04, "stable"), (0.011, 0.001, "not stable"), (0.001, 0.06, "not stable")],
)
def test_stable_asks_for_separation_at_one_percent_and_for_the_same_places(
    p_value: float, places: float, verdict: str
) -> None:
    agreement = Agreement(0.9, 0.2, places)
    assert _judge(np.full(3, 0.001), p_value, agreement, agreement)[0] == verdict
