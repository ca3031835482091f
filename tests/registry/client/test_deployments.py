"""What is no deployment's name is told before anything is sent."""

import pytest

from registry.client import deployments, releases
from registry.contract.releases import Promote, RollBack


@pytest.mark.parametrize("ref", ["prodnone", "prod", "prod/", "/sentiment", ""])
def test_what_names_no_deployment_is_refused_with_the_form_that_is_wanted(ref: str) -> None:
    for call in (
        lambda: releases.roll_back(ref, RollBack()),
        lambda: releases.promote(ref, Promote(version="sentiment@1")),
        lambda: deployments.get(ref),
    ):
        with pytest.raises(ValueError, match="write ENVIRONMENT/NAME"):
            call()


def test_a_name_leads_to_its_path() -> None:
    assert deployments.get("prod/sentiment").path == "/v1/deployments/prod/sentiment"
