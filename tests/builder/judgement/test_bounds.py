"""The bounds against scipy, against the definition, and where they must refuse."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import beta, norm

from builder.judgement import bounds


@pytest.mark.parametrize(("events", "rows"), [(0, 1), (0, 300), (1, 20), (9, 1000), (150, 1000), (999, 1000)])
def test_clopper_pearson_is_the_beta_quantile(events: int, rows: int) -> None:
    assert bounds.clopper_pearson_upper(events, rows) == pytest.approx(
        beta.ppf(0.95, events + 1, rows - events)
    )


def test_clopper_pearson_of_all_rows_is_one() -> None:
    assert bounds.clopper_pearson_upper(7, 7) == 1.0


@pytest.mark.parametrize(
    ("gained", "lost", "rows"), [(3, 3, 1000), (0, 5, 400), (5, 0, 400), (40, 60, 1000), (1, 2, 12)]
)
def test_tango_is_the_root_of_the_score_of_the_constrained_likelihood(
    gained: int, lost: int, rows: int
) -> None:
    """The nuisance parameter found by maximising the likelihood numerically, not by the closed form."""

    def score(loss: float) -> float:
        grid = np.linspace(max(0.0, -loss), (1 - abs(loss)) / 2 + max(0.0, -loss), 400_001)[1:-1]
        likelihood = (
            gained * np.log(grid)
            + lost * np.log(np.clip(grid + loss, 1e-300, None))
            + (rows - gained - lost) * np.log(np.clip(1 - 2 * grid - loss, 1e-300, None))
        )
        nuisance = grid[likelihood.argmax()]
        return float((lost - gained - rows * loss) / np.sqrt(rows * (2 * nuisance + loss * (1 - loss))))

    root = brentq(lambda loss: score(loss) + norm.ppf(0.95), (lost - gained) / rows + 1e-9, 0.9)
    assert bounds.tango_upper(gained, lost, rows) == pytest.approx(root, abs=2e-4)


def test_tango_without_any_difference_depends_on_the_rows_alone() -> None:
    z = norm.ppf(0.95)
    assert bounds.tango_upper(0, 0, 268) == pytest.approx(z * z / (268 + z * z))


@pytest.mark.parametrize("limit", [0.002, 0.01, 0.05])
def test_fewest_rows_are_the_fewest(limit: float) -> None:
    rows = bounds.rows_for_tango(limit)
    assert bounds.tango_upper(0, 0, rows) <= limit + 1e-12 < bounds.tango_upper(0, 0, rows - 1)
    rows = bounds.rows_for_clopper_pearson(limit)
    assert bounds.clopper_pearson_upper(0, rows) <= limit + 1e-12 < bounds.clopper_pearson_upper(0, rows - 1)


def test_a_model_exactly_at_the_limit_is_accepted_in_about_one_of_twenty_runs() -> None:
    """What the bound is for: a point estimate would accept half of these."""
    generator = np.random.default_rng(7)
    rows, limit = 2000, 0.01
    draws = generator.multinomial(rows, [0.01, 0.01 + limit, 1 - 0.02 - limit], size=400)
    accepted = sum(bounds.tango_upper(int(gained), int(lost), rows) <= limit for gained, lost, _ in draws)
    assert accepted / 400 < 0.09


@pytest.mark.parametrize(("gained", "lost", "rows"), [(0, 0, 0), (-1, 0, 5), (3, 3, 5)])
def test_impossible_counts_are_refused(gained: int, lost: int, rows: int) -> None:
    with pytest.raises(ValueError, match="not possible"):
        bounds.tango_upper(gained, lost, rows)
