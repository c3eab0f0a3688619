"""From fitted networks to regions, stability and evidence.

``explanation.explain`` says what one fit shows on graphs it did not see, ``refits.explain_refits`` does so for refits
on folds, and ``combine.combine`` turns several explanations into evidence cards with a verdict.
"""
