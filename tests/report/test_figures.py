"""Figures are judged by what their artists hold: positions, numbers, words."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from isocapsnet._validation import InputError
from isocapsnet.report.figures import brain, comparison, curves, roc, style, templates
from isocapsnet.report.figures.brain import edges_to_draw, is_heavy_tailed
from isocapsnet.report.figures.style import NEGATIVE, PALETTE, POSITIVE, colours_of, markers_of

INTERVALS = [[0.6, 0.5, 0.7], [0.8, 0.7, 0.9], [0.5, 0.5, 0.5]]
NAMES = ["isocapsnet", "linear", "constant"]


def find(figure: Any, gid: str) -> list[Any]:
    return figure.findobj(lambda artist: artist.get_gid() == gid)


def texts(figure: Any) -> list[str]:
    from matplotlib.text import Text

    return [artist.get_text() for artist in figure.findobj(Text) if artist.get_text()]


def rows(figure: Any) -> list[str]:
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


# -- comparison ---------------------------------------------------------------------------------------------------


def test_comparison_lists_methods_from_best_to_worst_at_their_means_and_intervals() -> None:
    figure = comparison.plot_comparison(NAMES, INTERVALS, band=0.1)
    assert rows(figure) == ["linear", "isocapsnet", "constant"]
    for row, (mean, low, high) in enumerate([INTERVALS[1], INTERVALS[0], INTERVALS[2]]):
        (dot,) = find(figure, f"mean-{row}")
        (line,) = find(figure, f"interval-{row}")
        assert (dot.get_xdata()[0], dot.get_ydata()[0]) == (mean, row)
        assert list(line.get_xdata()) == [low, high]


def test_comparison_has_the_chance_band_and_the_linear_reference_where_they_belong() -> None:
    figure = comparison.plot_comparison(NAMES, INTERVALS, band=0.1)
    (band,), (chance,), (reference,) = (find(figure, gid) for gid in ("chance-band", "chance", "reference"))
    assert (band.get_x(), band.get_width()) == pytest.approx((0.4, 0.2))
    assert chance.get_xdata()[0] == 0.5
    assert reference.get_xdata()[0] == 0.8


def test_a_method_has_one_colour_that_no_other_method_class_or_sign_has() -> None:
    names = ["gin", "isocapsnet", "linear", "constant", "svm", "isocapsnet[kernel_size=3]", *"abcdefgh"]
    rows = [SimpleNamespace(method=name, name=name.split("[")[0]) for name in names]
    styles = style.method_styles(rows)
    assert len(set(styles.values())) == len(names)
    assert styles["isocapsnet"].colour == styles["isocapsnet[kernel_size=3]"].colour == style.METHODS[0]
    assert styles["linear"].colour == style.METHODS[1]
    colours = {drawn.colour for drawn in styles.values()}
    assert colours.isdisjoint({POSITIVE, NEGATIVE, *style.class_colours(4)})
    assert len(style.method_styles([SimpleNamespace(method=str(i), name=str(i)) for i in range(40)])) == 40


def test_comparison_keeps_the_row_of_a_method_that_was_not_measured() -> None:
    figure = comparison.plot_comparison(["a", "b"], [[np.nan] * 3, [0.6, np.nan, np.nan]], reference=None)
    assert rows(figure) == ["b", "a"]
    assert find(figure, "interval-0") == find(figure, "mean-1") == []


def test_folds_shows_each_defined_score_once_and_the_mean() -> None:
    figure = comparison.plot_folds(["a", "b"], [[0.6, np.nan, 0.8], [0.5, 0.5, 0.5]])
    (dots,), (bar,) = find(figure, "folds-0"), find(figure, "mean-0")
    assert list(dots.get_xdata()) == [0.6, 0.8]
    assert list(bar.get_xdata()) == pytest.approx([0.7, 0.7])
    assert len({round(float(y), 6) for y in find(figure, "folds-1")[0].get_ydata()}) == 3


def test_audit_draws_differences_against_no_change() -> None:
    figure = comparison.plot_audit(["a"], [[-0.1, -0.2, 0.0]])
    assert find(figure, "no-change")[0].get_xdata()[0] == 0
    assert find(figure, "mean-0")[0].get_xdata()[0] == -0.1


def test_sweep_has_a_line_per_metric_and_a_bar_per_value() -> None:
    means = np.array([[0.5, 0.4, 0.6], [0.7, 0.6, 0.8]])
    metrics = {"accuracy": means, "ROC AUC": means + 0.1}
    figure = comparison.plot_sweep("kernel_size", [2, 3], metrics, [1.5, 30.0], constant_accuracy=0.737)
    scores, times = figure.axes
    lines = {line.get_label(): list(line.get_ydata()) for line in scores.lines}
    assert lines["accuracy"] == [0.5, 0.7]
    assert lines["ROC AUC"] == pytest.approx([0.6, 0.8])
    assert [bar.get_height() for bar in times.patches] == [1.5, 30.0]
    assert times.get_yscale() == "linear"
    slow = comparison.plot_sweep("kernel_size", [2, 3], metrics, [1.5, 90.0])
    assert slow.axes[1].get_yscale() == "log" and find(slow, "constant-accuracy") == []
    assert [label.get_text() for label in times.get_xticklabels()] == ["2", "3"]
    assert scores.get_xlabel() == "kernel_size"
    (chance,), (constant,) = find(figure, "chance"), find(figure, "constant-accuracy")
    assert (chance.get_ydata()[0], constant.get_ydata()[0]) == (0.5, 0.737)
    assert {chance.get_label(), constant.get_label()} <= {text.get_text() for text in scores.get_legend().get_texts()}


# -- predictions and training -------------------------------------------------------------------------------------


def test_roc_of_a_perfect_and_of_a_reversed_fold_averages_to_chance() -> None:
    labels = np.array([0, 0, 1, 1] * 2)
    positive = np.array([0.1, 0.2, 0.8, 0.9, 0.9, 0.8, 0.2, 0.1])
    figure = roc.plot_roc(labels, np.stack([1 - positive, positive], 1), [0] * 4 + [1] * 4, ["no", "yes"])
    assert len(find(figure, "fold")) == 2
    (mean,) = find(figure, "mean")
    inside = (mean.get_xdata() > 0.01) & (mean.get_xdata() < 0.99)
    assert np.asarray(mean.get_ydata())[inside] == pytest.approx(0.5)
    assert "ROC, mean AUC 0.500" in texts(figure)


def test_roc_of_weighted_folds_has_their_weighted_mean() -> None:
    labels = np.array([0, 0, 1, 1] * 2)
    positive = np.array([0.1, 0.2, 0.8, 0.9, 0.9, 0.8, 0.2, 0.1])
    probabilities = np.stack([1 - positive, positive], 1)
    figure = roc.plot_roc(labels, probabilities, [0] * 4 + [1] * 4, ["no", "yes"], weights=[3, 1])
    (mean,) = find(figure, "mean")
    inside = (mean.get_xdata() > 0.01) & (mean.get_xdata() < 0.99)
    assert np.asarray(mean.get_ydata())[inside] == pytest.approx(0.75)
    assert "ROC, mean AUC 0.750" in texts(figure)


def test_roc_beyond_two_classes_has_a_curve_per_class() -> None:
    labels = np.arange(30) % 3
    probabilities = 0.8 * np.eye(3)[labels] + 0.2 / 3
    figure = roc.plot_roc(labels, probabilities, np.zeros(30), ["a", "b", "c"])
    assert [line.get_label() for line in find(figure, "mean")] == ["a", "b", "c"]
    assert find(figure, "fold") == []


def test_roc_says_when_no_fold_has_two_classes() -> None:
    figure = roc.plot_roc([1, 1], [[0.2, 0.8], [0.4, 0.6]], [0, 1], ["no", "yes"])
    assert any("not defined" in text for text in texts(figure))


def test_calibration_bins_hold_observed_frequencies_and_count_a_subject_once() -> None:
    labels = np.array([0, 0, 0, 1] * 8)
    positive = np.where(np.arange(32) < 16, 0.2, 0.7)
    probabilities = np.stack([1 - positive, positive], axis=1)
    figure = curves.plot_calibration(labels, probabilities, n_repeats=1, classes=["no", "yes"])
    points = [(dot.get_xdata()[0], dot.get_ydata()[0]) for dot in find(figure, "bin")]
    assert np.array(points) == pytest.approx(np.array([(0.2, 0.25), (0.7, 0.25)]))
    heights = {round(bar.get_x(), 2): bar.get_height() for bar in find(figure, "predictions") if bar.get_height()}
    assert list(heights) == [0.2, 0.68] and len(set(heights.values())) == 1
    twice = curves.plot_calibration(labels, probabilities, n_repeats=2, classes=["no", "yes"])
    widths = [np.ptp(find(drawn, "interval")[0].get_ydata()) for drawn in (figure, twice)]
    assert widths[1] > widths[0]


def test_confusion_counts_graphs_per_repeat() -> None:
    labels = np.array([0, 0, 1, 1])
    answers = np.array([0, 1, 1, 1])
    probabilities = np.eye(2)[np.tile(answers, 2)]
    figure = curves.plot_confusion(np.tile(labels, 2), probabilities, n_repeats=2, classes=["no", "yes"])
    alphas = [cell.get_alpha() for cell in find(figure, "cell")]
    assert alphas[0] == alphas[1] and alphas[2] < alphas[0] < alphas[3]
    assert {"1.0\n50%", "2.0\n100%", "0.0\n0%"} <= set(texts(figure))


def test_learning_draws_each_fit_and_marks_its_best_validation_epoch() -> None:
    history = [
        {"epoch": 1, "train_loss": 1.0, "valid_loss": 0.9},
        {"epoch": 2, "train_loss": None, "valid_loss": 0.4},
        {"epoch": 3, "train_loss": 0.2, "valid_loss": 0.6},
    ]
    figure = curves.plot_learning([history, [{"epoch": 1, "train_loss": 0.5}]])
    assert [list(line.get_ydata()) for line in find(figure, "train_loss")] == [[1.0, 0.2], [0.5]]
    (best,) = find(figure, "best")
    assert (best.get_xdata()[0], best.get_ydata()[0]) == (2, 0.4)
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["training", "validation"]


# -- graphs -------------------------------------------------------------------------------------------------------


def test_template_shows_its_numbers_and_its_signed_edges() -> None:
    from matplotlib.colors import to_hex

    figure = templates.plot_template([[0.5, -2.0], [1.0, 0.0]])
    assert {"0.50", "-2.00", "1.00"} <= set(texts(figure))
    widths = {to_hex(edge.get_edgecolor()): edge.get_linewidth() for edge in find(figure, "edge")}
    assert widths.keys() == {NEGATIVE.lower(), POSITIVE.lower()}
    assert widths[NEGATIVE.lower()] > widths[POSITIVE.lower()]


def test_symmetric_template_has_one_line_per_edge_and_an_asymmetric_one_two() -> None:
    symmetric = np.array([[0, 1.0, 0.5], [1.0, 0, 0], [0.5, 0, 0]])
    assert len(find(templates.plot_template(symmetric), "edge")) == 2
    symmetric[0, 1] = 0.8
    assert len(find(templates.plot_template(symmetric), "edge")) == 4


def test_connectome_draws_nodes_and_edges_at_their_places_and_leaves_out_nodes_of_size_zero() -> None:
    coordinates = np.array([[-40.0, 0, 20], [40, 10, 0], [0, -60, 10], [0, 50, 0]])
    adjacency = np.zeros((4, 4))
    adjacency[0, 1] = adjacency[1, 0] = 1.0
    figure = brain.plot_connectome(coordinates, adjacency, node_sizes=[10, 10, 10, 0])
    _, left, behind, right, above = figure.axes
    for view, second in ((behind, 2), (above, 1)):
        (edge,), (points,) = view.lines, view.collections
        assert sorted(zip(*edge.get_data(), strict=True)) == [tuple(c[[0, second]]) for c in coordinates[:2]]
        assert np.asarray(points.get_offsets()) == pytest.approx(coordinates[:3][:, [0, second]])
    for hemisphere in (left, right):
        assert len(hemisphere.lines) == 0
        assert len(hemisphere.collections[0].get_offsets()) == 2


@pytest.mark.parametrize(("coordinates", "n_brains"), [(None, 0), (np.random.default_rng(0).normal(0, 30, (6, 3)), 2)])
def test_reconstruction_shows_input_and_output_of_each_subject_without_their_diagonals(
    coordinates: Any, n_brains: int
) -> None:
    rng = np.random.default_rng(1)
    graphs = rng.normal(size=(2, 6, 6))
    figure = brain.plot_reconstruction(graphs, graphs / 2, ["sub-1 (case)", "sub-2 (control)"], coordinates)
    images = [np.asarray(axis.images[0].get_array()) for axis in figure.axes if axis.images]
    off_diagonal = ~np.eye(6, dtype=bool)
    for place, image in enumerate(images):
        expected = graphs[place // 2] / (1 + place % 2)
        assert image[off_diagonal] == pytest.approx(expected[off_diagonal])
        assert np.diag(image) == pytest.approx(0)
    assert len(images) == 4
    assert {"sub-1 (case): input", "sub-2 (control): input", "reconstruction"} <= set(texts(figure))
    brains = [points for axis in figure.axes for points in axis.collections if len(points.get_offsets()) == 6]
    assert len(brains) == n_brains


def test_drawn_edges_are_those_above_the_threshold_and_the_strongest_of_them_four_per_node() -> None:
    weak = np.array([[0, 1.0, 0.04], [1.0, 0, 0.06], [0.04, 0.06, 0]])
    assert np.count_nonzero(np.triu(edges_to_draw(weak))) == 2
    many = np.abs(np.random.default_rng(0).normal(1, 0.1, (60, 60)))
    many = np.triu(many, k=1) + np.triu(many, k=1).T
    kept = edges_to_draw(many)
    assert np.count_nonzero(np.triu(kept)) == 240
    assert kept[kept > 0].min() >= np.sort(many[np.triu_indices(60, k=1)])[-240]


def test_counts_over_many_magnitudes_get_a_logarithmic_scale_and_correlations_do_not() -> None:
    from matplotlib.colors import SymLogNorm

    counts = np.full((5, 5), 3.0)
    counts[0, 1] = 200_000
    assert is_heavy_tailed(counts)
    assert not is_heavy_tailed(np.random.default_rng(0).normal(size=(5, 5)))
    assert not is_heavy_tailed(np.zeros((3, 3)))
    figure = brain.plot_reconstruction([counts], [counts], ["a"])
    assert isinstance(figure.axes[0].images[0].norm, SymLogNorm)
    assert figure.axes[-1].get_yticks().tolist() == [0, 1e3, 1e4, 1e5]
    counts[0, 2] = -200_000
    signed = brain.plot_reconstruction([counts], [counts], ["a"])
    assert signed.axes[-1].get_yticks().tolist() == [-1e5, -1e4, -1e3, 0, 1e3, 1e4, 1e5]


def test_representation_puts_a_class_per_marker_and_keeps_distances_of_plane_data() -> None:
    vectors = np.zeros((6, 5))
    vectors[:, :2] = [[0, 0], [2, 0], [0, 1], [5, 5], [6, 5], [5, 7]]
    figure = curves.plot_representation(vectors, [0, 0, 0, 1, 1, 1], ["no", "yes"])
    drawn = np.concatenate([np.stack(find(figure, f"class-{code}")[0].get_data(), axis=1) for code in (0, 1)])
    assert np.linalg.norm(drawn[0] - drawn[3]) == pytest.approx(np.linalg.norm(vectors[0] - vectors[3]))
    assert find(figure, "class-0")[0].get_marker() != find(figure, "class-1")[0].get_marker()
    assert any("of variance" in text for text in texts(figure))


# -- style --------------------------------------------------------------------------------------------------------


def test_styles_differ_beyond_the_palette() -> None:
    styles = set(zip(colours_of(30), markers_of(30), strict=True))
    assert len(styles) == 30
    assert len(set(PALETTE)) == len(PALETTE)


def test_saved_files_are_png_and_svg_with_text_as_text(tmp_path: Path) -> None:
    figure = comparison.plot_comparison(NAMES, INTERVALS)
    png, svg = style.save_figure(figure, tmp_path / "new", "comparison")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert ">isocapsnet</text>" in svg.read_text()


def test_equal_data_give_equal_svg() -> None:
    first, second = (style.as_svg(comparison.plot_comparison(NAMES, INTERVALS, band=0.1)) for _ in range(2))
    assert first == second


def test_drawing_leaves_the_users_matplotlib_settings_alone() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    style.as_png(comparison.plot_comparison(NAMES, INTERVALS))
    assert dict(matplotlib.rcParams) == before


def test_missing_extra_is_one_sentence_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r'pip install "isocapsnet\[plots\]"'):
        comparison.plot_comparison(NAMES, INTERVALS)


def test_missing_nilearn_is_one_sentence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nilearn.plotting", None)
    with pytest.raises(InputError, match=r'pip install "isocapsnet\[plots\]"'):
        brain.plot_connectome(np.zeros((2, 3)), np.zeros((2, 2)))
