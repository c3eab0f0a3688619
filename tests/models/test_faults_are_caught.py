"""The estimator checks can fail: estimators with one fault each, and the check that must notice."""

from functools import partial

import numpy as np
import pytest

from isocapsnet.models.baselines import LinearClassifier
from tests.models import estimator_checks as checks


class ChecksInInit(LinearClassifier):
    def __init__(self, *, C=1.0, random_state=None):
        super().__init__(C=float(C), random_state=random_state)


class SetsItsOwnParameter(LinearClassifier):
    def _fit(self, X, codes):
        self.C = 3.0
        super()._fit(X, codes)


class AcceptsAnyOption(LinearClassifier):
    def _fit(self, X, codes):
        self.class_weight, given = None, self.class_weight
        super()._fit(X, codes)
        self.class_weight = given


class IgnoresItsStrength(LinearClassifier):
    def _fit(self, X, codes):
        self.C, given = 1.0, self.C
        super()._fit(X, codes)
        self.C = given


class IgnoresClassWeight(AcceptsAnyOption):
    pass


class PromisesAnUnknownParameter(LinearClassifier):
    @classmethod
    def search_space(cls):
        return {"depth": [1, 2]}


class DrawsFromTheGlobalGenerator(LinearClassifier):
    def _fit(self, X, codes):
        super()._fit(X, codes)
        self.intercept_ += 1e-3 * np.random.rand()  # noqa: NPY002


class ForgetsItsSeed(LinearClassifier):
    def _fit(self, X, codes):
        super()._fit(X, codes)
        self.intercept_[0] += 1e-9 * np.random.default_rng().random()


class RemembersThePreviousFit(LinearClassifier):
    def _fit(self, X, codes):
        self.fits_ = getattr(self, "fits_", 0) + 1
        super()._fit(X * self.fits_ + 0.1 * self.fits_ * X**2, codes)


class LooksAtTheWholeBatch(LinearClassifier):
    def _predict_proba(self, X):
        return super()._predict_proba(X - X.mean(axis=0))


class DoesNotSumToOne(LinearClassifier):
    def _predict_proba(self, X):
        return super()._predict_proba(X) * 1.01


class WritesToItsInput(LinearClassifier):
    def _fit(self, X, codes):
        X[:, 0, 0] = 0
        super()._fit(X, codes)


class DividesByTheSpread(LinearClassifier):
    def _predict_proba(self, X):
        return super()._predict_proba(X) * (X.std() / X.std())


class TakesRootsOfWeights(LinearClassifier):
    def _predict_proba(self, X):
        return super()._predict_proba(np.sqrt(X))


class CountsLabelsFromZero(LinearClassifier):
    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


class HoldsAFunction(LinearClassifier):
    def _fit(self, X, codes):
        super()._fit(X, codes)
        self.link_ = lambda scores: scores


class CountsRoundedDown(LinearClassifier):
    def _fit(self, X, codes):
        super()._fit(np.floor(X) if X.dtype == np.float64 else X, codes)


class LikesOneMemoryLayout(LinearClassifier):
    def _fit(self, X, codes):
        super()._fit(X if X.flags.c_contiguous else X[::-1], codes)


FAULTS = {
    ChecksInInit: checks.check_init_stores_its_arguments_unchanged_and_unchecked,
    SetsItsOwnParameter: checks.check_fit_leaves_the_parameters_alone,
    AcceptsAnyOption: checks.check_unknown_options_are_refused_in_fit,
    IgnoresItsStrength: checks.check_every_parameter_makes_a_difference,
    IgnoresClassWeight: checks.check_class_weight_moves_the_probabilities,
    PromisesAnUnknownParameter: checks.check_search_space_holds_parameters_that_can_be_set,
    DrawsFromTheGlobalGenerator: checks.check_global_random_state_is_untouched,
    ForgetsItsSeed: checks.check_same_random_state_gives_the_same_bits,
    RemembersThePreviousFit: checks.check_refit_forgets_the_previous_fit,
    LooksAtTheWholeBatch: checks.check_a_graph_is_answered_alike_alone_and_among_others,
    DoesNotSumToOne: checks.check_probabilities_sum_to_one_and_predict_takes_the_largest,
    WritesToItsInput: checks.check_input_is_never_written_to,
    DividesByTheSpread: checks.check_constant_and_empty_graphs,
    TakesRootsOfWeights: checks.check_negative_edges,
    CountsLabelsFromZero: checks.check_every_label_type_gives_the_same_probabilities,
    HoldsAFunction: checks.check_pickling,
    CountsRoundedDown: checks.check_number_types_with_equal_values_agree,
    LikesOneMemoryLayout: checks.check_memory_layout_does_not_matter,
}


@pytest.mark.parametrize(("faulty", "check"), FAULTS.items(), ids=lambda thing: thing.__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_fault_is_caught_and_its_absence_passes(faulty, check):
    check(partial(LinearClassifier, C=1.0, random_state=0))
    with pytest.raises((AssertionError, ValueError, TypeError, AttributeError, pytest.fail.Exception)):
        check(partial(faulty, C=1.0, random_state=0))
