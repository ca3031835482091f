"""What can go wrong between a caller and the registry."""

from registry.client.secrets import masked
from registry.contract.problems import Problem


class ApiError(Exception):
    """The registry refused: `problem` says why and how to mend it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.title}: {problem.detail} ({problem.hint})")
        self.problem = problem

    @property
    def status(self) -> int:
        return self.problem.status

    @property
    def kind(self) -> str:
        """Last segment of the problem's type, a value of `ProblemType`."""
        return self.problem.type.rsplit("/", 1)[-1]


class Unreachable(Exception):
    """No answer came: the registry is down, or something between is."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(
            f"no answer from the registry at {masked(url)}: {cause}; check SLIPWAY_URL and that it runs"
        )
        self.url = url
