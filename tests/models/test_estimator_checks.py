"""Every check of ours on every method of MODELS, and a count of how many ran."""

from functools import partial

import pytest
from estimator_checks import CHECKS

from isocapsnet.models import MODELS

# Settings that make a fit take a blink; what a method's own tests prove is not repeated here.
FAST = {
    "isocapsnet": {"max_epochs": 2, "n_templates": 2},
    "freq": {"density": 0.2, "n_patterns": 100},
}

# Where a method is right to fail a check, the test insists that it does.
MUST_FAIL = {
    ("constant", "check_answer_depends_on_the_graph"): "a constant predictor looks at no graph",
}


def settings(name):
    seeded = {"random_state": 0} if "random_state" in MODELS[name]().get_params() else {}
    return seeded | FAST.get(name, {})


# One object per method, so that checks share what they fitted.
MAKE = {name: partial(model, **settings(name)) for name, model in MODELS.items()}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("method", MODELS)
def test_estimator(method, check):
    if (method, check) in MUST_FAIL:
        with pytest.raises(AssertionError):
            CHECKS[check](MAKE[method])
    else:
        CHECKS[check](MAKE[method])


def test_every_check_runs_on_every_method(request):
    ran = {
        (item.callspec.params["method"], item.callspec.params["check"])
        for item in request.node.parent.collect()
        if getattr(item, "originalname", None) == "test_estimator"
    }
    assert len(CHECKS) >= 30
    assert len(ran) == len(MODELS) * len(CHECKS)
    assert set(MUST_FAIL) <= ran
