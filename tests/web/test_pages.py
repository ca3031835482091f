"""Pages over HTTP: signing in, what they say, who may do what, and how they fail."""

import pytest

from registry.client import access, deployments, releases
from registry.contract.deployments import Pin
from registry.contract.releases import Transition
from registry.contract.tokens import Role, TokenCreate
from tests import patience
from tests.web.reading import text_of, title_of
from tests.web.world import OWN, World


def test_pages_ask_for_a_token_and_lead_back(world: World) -> None:
    with patience.client(base_url=world.url, headers=OWN) as stranger:
        asked = stranger.get("/d/prod/animals?x=1")
        assert (asked.status_code, asked.headers["location"]) == (
            303,
            "/login?next=%2Fd%2Fprod%2Fanimals%3Fx%3D1",
        )
        assert stranger.get("/rev/").status_code == 401
        wrong = stranger.post("/login", data={"token": "slp_guess", "next": "/"})
        assert wrong.status_code == 401
        assert "the token is not known here" in text_of(wrong)
        token = world.token("ben", Role.VIEWER)
        right = stranger.post("/login", data={"token": f" {token} ", "next": "/d/prod/animals"})
        assert (right.status_code, right.headers["location"]) == (303, "/d/prod/animals")
        cookie = right.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and token not in cookie
        assert stranger.get("/").status_code == 200


@pytest.mark.parametrize("elsewhere", ["//evil.example/", "https://evil.example/", "/\\evil.example", "x"])
def test_signing_in_leads_nowhere_else(world: World, elsewhere: str) -> None:
    with patience.client(base_url=world.url, headers=OWN) as stranger:
        token = world.token("ben", Role.VIEWER)
        assert stranger.post("/login", data={"token": token, "next": elsewhere}).headers["location"] == "/"


def test_a_session_ends_with_signing_out_and_with_its_token(world: World) -> None:
    ana = world.visitor()
    kept = dict(ana.cookies)
    assert ana.post("/logout").headers["location"] == "/login"
    with patience.client(base_url=world.url, cookies=kept) as thief:
        assert thief.get("/").status_code == 303
    made = world.run(world.registry.client(access.create_token(TokenCreate(name="cy", roles=(Role.VIEWER,)))))
    with patience.client(base_url=world.url, headers=OWN) as cy:
        cy.post("/login", data={"token": made.secret})
        assert cy.get("/").status_code == 200
        world.run(world.registry.client(access.revoke_token(made.token.id)))
        assert cy.get("/").status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
    ],
)
def test_a_form_from_elsewhere_changes_nothing(world: World, headers: dict[str, str]) -> None:
    ana = world.visitor()
    del ana.headers["sec-fetch-site"]
    for path in ("/login", "/logout", "/d/prod/x/rollback", "/rollbacks/r/notes", "/rollbacks/r/drain"):
        answer = ana.post(path, data={"token": "t", "target": "t", "key": "k", "node": "n"}, headers=headers)
        assert answer.status_code == 403, path
        assert "Nothing was changed" in text_of(answer)
    assert ana.get("/").status_code == 200
    assert ana.post("/logout", headers={"origin": world.url}).status_code == 303


def test_a_link_from_a_chat_does_not_ask_for_the_token_again(world: World) -> None:
    """The browser keeps a strict cookie back then; one step from a page of ours, and it comes."""
    with patience.client(base_url=world.url) as arriving:
        answer = arriving.get("/d/prod/x", headers={"sec-fetch-site": "cross-site"})
        strange = arriving.get("/d/prod/x→y?z=1", headers={"sec-fetch-site": "cross-site"})
    assert (answer.status_code, answer.headers["refresh"]) == (200, "0; url=/d/prod/x")
    assert strange.headers["refresh"] == "0; url=/d/prod/x%E2%86%92y?z=1"


def test_every_page_keeps_to_itself(world: World) -> None:
    ana = world.visitor()
    for path in ("/", "/login", "/nothing", "/static/slipway.js"):
        headers = ana.get(path).headers
        policy = headers["content-security-policy"]
        assert (
            "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-request-id"].startswith("req_")
    assert ana.get("/").headers["cache-control"] == "no-store"
    assert len(ana.get("/static/slipway.js").content) <= 10_240
    big = ana.post("/rollbacks/r/notes", data={"text": "x" * 70_000})
    assert big.status_code == 413


def test_registry_and_pages_share_one_address(world: World) -> None:
    ana = world.visitor()
    assert ana.get("/healthz").json() == {"status": "ok"}
    assert ana.get("/docs").status_code == 200
    assert ana.get("/v1/whoami").headers["content-type"] == "application/problem+json"
    lost = ana.get("/docsx")
    assert lost.status_code == 404
    assert lost.headers["content-type"].startswith("text/html")
    assert "There is no page /docsx" in text_of(lost)


def test_the_board_is_worst_first_and_says_what_is_going_on(world: World) -> None:
    calm, trial, paused = world.deployment(1, 2), world.deployment(1), world.deployment(1)
    world.trial(trial, 2, steps=2)
    release = world.trial(paused, 2)
    body = Transition(reason="<b>odd</b> labels")
    world.run(world.registry.client(releases.pause(paused, release.number, body)))
    ana = world.visitor("ana", Role.VIEWER)
    board = ana.get("/")
    rows = [board.text.index(f'href="/d/{ref}"') for ref in (paused, trial, calm)]
    assert rows == sorted(rows)
    told = text_of(board)
    assert "v2 stays at 5 %: <b>odd</b> labels." in told
    assert "<b>odd</b>" not in board.text
    assert "step 2 of 4" in told and "2/2 nodes ready" in told
    assert "animals@2@fp32 to 25 %" in told
    assert "v2 serves all traffic on 2 of 2 nodes." in told
    assert "1 needs a look" in title_of(board)
    assert "this needs the role releaser" in told, "a control that is off says why"
    assert 'class="rollback' not in board.text.replace('class="rollback-off', "")


def test_the_page_of_a_deployment_tells_requested_and_observed(world: World) -> None:
    ref = world.deployment(1)
    world.trial(ref, 2, steps=2)
    page = world.visitor().get(f"/d/{ref}")
    told = text_of(page)
    assert "you are here" in told
    assert "25 % you are here" in told and "50 % by command" in told
    assert "n1 ✔ ready v1 75 % 75 % ready" in told.replace("standby warm", "ready")
    assert "v2 25 % 25 %" in told
    assert "Release 2: v2 from v1" in told and "advanced by admin" in told
    assert f"slipway rollback {ref}" in told and f"{world.url}/v1/deployments/{ref}/rollback" in told
    assert 'href="/d/' + ref + '/rollback"' in page.text and "Roll back to v1…" in told
    assert page.text.count("<svg") == page.text.count("</svg>") and "<title id=" in page.text


def test_a_pin_is_said_with_its_reason(world: World) -> None:
    ref = world.deployment(1, 2)
    world.run(world.registry.client(deployments.pin(ref, Pin(reason="holiday freeze"))))
    told = text_of(world.visitor().get(f"/d/{ref}"))
    assert "Automation is off , by admin: holiday freeze" in told
    assert f"slipway deployment unpin {ref}" in told


def test_empty_states_name_the_exact_command(world: World) -> None:
    ana = world.visitor()
    unreleased = world.deployment()
    told = text_of(ana.get(f"/d/{unreleased}"))
    assert f"slipway promote animals@VERSION --to {unreleased}" in told
    lonely = world.deployment(environment="lab")
    assert "slipway node invite lab" in text_of(ana.get(f"/d/{lonely}"))
    missing = ana.get("/d/prod/missing")
    assert missing.status_code == 404
    assert "slipway rollback prod/missing" in text_of(missing), (
        "the last resort is there on a failing page too"
    )


def test_one_failing_panel_leaves_the_page_standing(world: World) -> None:
    ref = world.deployment(1, 2)
    ana = world.visitor()
    world.sql("ALTER TABLE rollbacks RENAME TO rollbacks_away")
    try:
        board, page, confirm = ana.get("/"), ana.get(f"/d/{ref}"), ana.get(f"/d/{ref}/rollback")
    finally:
        world.sql("ALTER TABLE rollbacks_away RENAME TO rollbacks")
    for answer in (board, page, confirm):
        assert answer.status_code == 200
        told = text_of(answer)
        assert f"The rollbacks of {ref} can't be shown:" in told
        assert f"Request id {answer.headers['x-request-id']}" in told
    assert "v2 serves all traffic" in text_of(page)
    assert "Roll back prod to v1 now" in text_of(confirm)


def test_a_silent_node_is_unknown_and_never_green(world: World) -> None:
    ref = world.deployment(1, 2)
    ana = world.visitor()
    with world.silent(1):
        page = ana.get(f"/d/{ref}")
    told = text_of(page)
    assert title_of(page).startswith("Partly unknown")
    assert "v2 serves all traffic on 1 of 2 nodes. n2 is silent." in told
    assert "n2 ? unknown silent since" in told
    world.until("n2 is back", lambda: "Healthy" in title_of(ana.get(f"/d/{ref}")))


def test_the_revision_changes_with_the_page_and_only_then(world: World) -> None:
    ref = world.deployment(1)
    ana = world.visitor()

    def rev(path: str) -> str:
        return str(ana.get(f"/rev{path}").json()["rev"])

    page = ana.get(f"/d/{ref}").text
    first, board = rev(f"/d/{ref}"), rev("/")
    assert f'data-rev="{first}"' in page
    assert rev(f"/d/{ref}") == first
    world.run(world.registry.client(deployments.pin(ref, Pin(reason="wait"))))
    assert rev(f"/d/{ref}") != first
    assert rev("/") != board
