"""The incident path over HTTP, without any script: entry, confirm, press, receipt."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

from registry.client import access, deployments, releases
from registry.contract.audit import AuditEntry
from registry.contract.releases import ReleasePhase, Transition
from registry.contract.tokens import Role
from tests.web.reading import confirm_form, form_of, press, text_of, title_of
from tests.web.world import World
from web.press import new_key


def serving(world: World, ref: str) -> str:
    route = world.run(world.registry.client(deployments.get(ref))).requested
    assert route is not None
    return ", ".join(f"{arm.version} {arm.share}" for arm in route.arms if arm.share)


def arm_of(world: World, ref: str, version: str) -> str:
    routes = world.run(world.registry.client(deployments.routes(ref))).items
    return next(arm.arm for route in routes for arm in route.arms if arm.version == version)


def audit(world: World, ref: str) -> tuple[AuditEntry, ...]:
    return world.run(world.registry.client(access.audit(subject=f"deployment:{ref}"))).items


def test_confirm_press_receipt(world: World) -> None:
    ref = world.deployment(1)
    world.trial(ref, 2, steps=2)
    ana = world.visitor("ana")
    confirm = ana.get(f"/d/{ref}/rollback")
    told = text_of(confirm)
    assert "v2 (25 %) stops. v1 serves 100 % on 2 nodes, within about a second." in told.replace("\xa0", " ")
    assert told.index("Roll back prod to v1 now") < told.index("Keep v2") < told.index("What happens")
    assert "v1 is loaded and warm everywhere." in told

    pressed = press(ana, ref, confirm_form(ana, ref))
    assert pressed.status_code == 303
    receipt = pressed.headers["location"]
    assert re.fullmatch(r"/rollbacks/rbk_[0-9a-f]+", receipt)
    assert serving(world, ref) == "animals@1@fp32 10000"
    world.until("the receipt is closed", lambda: "back on v1" in title_of(ana.get(receipt)))
    closed = ana.get(receipt)
    assert "refresh" not in closed.headers
    told = text_of(closed)
    assert "All 2 nodes serve animals@1@fp32; last switched" in told
    assert "By ana" in told and "n1 ✔ drained +" in told and "Reason none given" in told
    assert title_of(closed).startswith("2/2 back on v1 · R-")
    entry = next(each for each in audit(world, ref) if each.action == "deployment.roll_back")
    assert (entry.actor, entry.via) == ("ana", "UI")
    assert entry.request_id == pressed.headers["x-request-id"]


def test_a_press_before_the_page_could_be_read_is_refused(world: World) -> None:
    ref = world.deployment(1, 2)
    ana = world.visitor()
    form = form_of(ana.get(f"/d/{ref}/rollback"))
    generation = int(form["key"].partition("-")[2])
    fast = press(ana, ref, form | {"key": new_key(generation)})
    assert fast.status_code == 409
    assert "too soon to have read it. Nothing was changed" in text_of(fast)
    assert serving(world, ref) == "animals@2@fp32 10000"
    time.sleep(0.45)
    assert press(ana, ref, form_of(fast)).status_code == 303


def test_two_people_press_together_and_a_third_later(world: World) -> None:
    ref = world.deployment(1, 2)
    people = [world.visitor(name) for name in ("ana", "ben", "cy")]
    forms = [confirm_form(person, ref) for person in people]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(press, people[:2], [ref, ref], forms[:2]))
    later = press(people[2], ref, forms[2])
    where = [answer.headers["location"] for answer in (*together, later)]
    assert len({address.partition("?")[0] for address in where}) == 1
    assert sorted(address.partition("?")[2] for address in where) == [
        "",
        "pressed=already",
        "pressed=already",
    ]
    first = ("ana", "ben")[0 if "?" not in where[0] else 1]
    assert f"Already rolled back by {first}. Your press changed nothing." in text_of(people[2].get(where[2]))
    again = press(people[0 if first == "ana" else 1], ref, forms[0])
    assert "You had rolled back already." in text_of(
        people[0 if first == "ana" else 1].get(again.headers["location"])
    )
    assert len(world.run(world.registry.client(releases.receipts(ref))).items) == 1
    assert sum(each.action == "deployment.roll_back.already" for each in audit(world, ref)) == 3
    offered = text_of(people[0].get(f"/d/{ref}"))
    assert f"Already rolled back to v1 by {first}." in offered


def test_a_step_taken_meanwhile_never_bounces_a_press(world: World) -> None:
    ref = world.deployment(1)
    release = world.trial(ref, 2)
    ana = world.visitor()
    form = confirm_form(ana, ref)
    world.run(world.registry.client(releases.advance(ref, release.number, Transition())))
    assert press(ana, ref, form).status_code == 303
    assert serving(world, ref) == "animals@1@fp32 10000"


def test_another_target_is_confirmed_once_more(world: World) -> None:
    ref = world.deployment(1, 2)
    ana = world.visitor()
    form = confirm_form(ana, ref)
    world.trial(ref, 3)
    bounced = press(ana, ref, form)
    assert bounced.status_code == 409
    told = text_of(bounced)
    assert "rolling back would lead to another version than the one you read" in told
    assert "Roll back prod to v2 now" in told
    assert serving(world, ref) == "animals@2@fp32 9500, animals@3@fp32 500"
    time.sleep(0.45)
    assert press(ana, ref, form_of(bounced)).status_code == 303
    assert serving(world, ref) == "animals@2@fp32 10000"


def test_another_version_can_be_chosen(world: World) -> None:
    ref = world.deployment(1, 2)
    world.trial(ref, 3)
    ana = world.visitor()
    other = arm_of(world, ref, "animals@1@fp32")
    assert f'href="/d/{ref}/rollback?to={other}"' in ana.get(f"/d/{ref}/rollback").text
    form = confirm_form(ana, ref, to=other)
    assert form["explicit"] == "1"
    world.roll_back(ref)
    bounced = press(ana, ref, form)
    assert bounced.status_code == 409
    assert "admin rolled back to animals@2@fp32" in text_of(bounced)
    time.sleep(0.45)
    assert press(ana, ref, form_of(bounced)).status_code == 303
    assert serving(world, ref) == "animals@1@fp32 10000"


def test_what_is_impossible_says_why_and_what_to_do(world: World) -> None:
    ana, viewer = world.visitor(), world.visitor("vic", Role.VIEWER)
    first = world.deployment(1)
    for path in (f"/d/{first}", f"/d/{first}/rollback"):
        told = text_of(ana.get(path))
        assert "v1 is the first version here: there is no earlier one to go back to." in told
        assert f"slipway promote animals@VERSION --to {first}" in told
    ref = world.deployment(1, 2)
    told = text_of(viewer.get(f"/d/{ref}/rollback"))
    assert "You are signed in as vic (viewer); this needs the role releaser." in told
    assert f"slipway rollback {ref}" in told
    forced = press(viewer, ref, confirm_form(ana, ref))
    assert forced.status_code == 403
    assert serving(world, ref) == "animals@2@fp32 10000"


def test_the_receipt_reloads_by_header_until_it_is_closed(world: World) -> None:
    ref = world.deployment(1, 2)
    ana = world.visitor()
    form = confirm_form(ana, ref)
    for node in world.nodes:
        node.deaf = True
    try:
        receipt = press(ana, ref, form).headers["location"]
        waiting = ana.get(receipt)
        assert waiting.headers["refresh"] == "1"
        assert title_of(waiting).startswith("0/2 rolling back · R-")
        assert "This page reloads by itself." in waiting.text
        assert "refresh" not in ana.get(f"{receipt}?stay=1").headers
        alive = ana.get(
            receipt, headers={"cookie": f"slipway_alive=1; slipway_session={ana.cookies['slipway_session']}"}
        )
        assert "refresh" not in alive.headers, "the script looks after it"
        assert ana.get(f"/rev{receipt}").json()["every_ms"] == 700
    finally:
        for node in world.nodes:
            node.deaf = False
    world.until("it is closed", lambda: "refresh" not in ana.get(receipt).headers)


def test_a_receipt_takes_a_reason_and_drains_a_silent_node(world: World) -> None:
    ref = world.deployment(1, 2)
    ana, viewer = world.visitor("ana"), world.visitor("vic", Role.VIEWER)
    with world.silent(1):
        receipt = press(ana, ref, confirm_form(ana, ref)).headers["location"]
        world.until("n1 is back", lambda: "1 of 2 nodes serve" in text_of(ana.get(receipt)))
        told = text_of(ana.get(receipt))
        assert "its last known version is animals@2@fp32" in told
        assert "n2 ? silent since" in told
        node = form_of(ana.get(receipt))["node"]
        assert "this needs the role releaser" in text_of(viewer.get(receipt))
        assert viewer.post(f"{receipt}/drain", data={"node": node}).status_code == 403
        assert ana.post(f"{receipt}/drain", data={"node": node}).status_code == 303
        assert "n2 is drained." in text_of(ana.get(receipt))
    noted = ana.post(f"{receipt}/notes", data={"text": " wrong <label> table "})
    assert noted.headers["location"] == f"{receipt}#notes"
    told = text_of(ana.get(receipt))
    assert "ana: wrong <label> table" in told
    assert ana.post(f"{receipt}/notes", data={"text": "  "}).status_code == 303
    world.sql("UPDATE nodes SET draining = false")


def test_an_ended_release_tells_its_rollback_in_the_history(world: World) -> None:
    ref = world.deployment(1)
    release = world.trial(ref, 2)
    world.roll_back(ref)
    ana = world.visitor()
    world.until(
        "it is rolled back",
        lambda: (
            world.run(world.registry.client(releases.get(ref, release.number))).phase
            is ReleasePhase.ROLLED_BACK
        ),
    )
    page = ana.get(f"/d/{ref}")
    told = text_of(page)
    assert "Rollback to v1 ↩ 2 of 2 nodes confirmed by admin" in told
    assert "Release 2: v2 from v1 ↩ rolled back" in told
    assert "Automation is off" in told
    assert 'href="/rollbacks/rbk_' in page.text
