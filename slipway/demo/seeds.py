"""Releases version 3 again and again under differently drawn traffic, on one set of builds.

python -m slipway.demo.seeds --fault window --seeds 10
"""

import argparse
import json
import sys
import time
from pathlib import Path

from registry.client import releases
from registry.contract.releases import Hold, ReleasePhase
from slipway.demo import traffic
from slipway.demo.__main__ import CAUGHT_WITHIN_S, QUIET_S, RATE, Play, say
from slipway.demo.contracts import Fault
from slipway.demo.service import service
from slipway.demo.story import MODEL, REF, STATIC, DemoFailed
from slipway.demo.traffic import Load


def one(acts: Play, load: Load, seed: int) -> dict[str, object]:
    """One release of version 3 from stable version 2, and back to where it began."""
    demo, fault = acts.demo, acts.on.fault
    release = demo.promote(f"{MODEL}@3{STATIC}")
    began = time.monotonic()
    if fault is Fault.NONE:
        ended = demo.complete(release, load)
        frozen = any(change.hold == Hold.FROZEN for change in ended.history)
        demo.client.rollback(REF, wait=30)
    else:
        ended = demo.wait_caught(release, CAUGHT_WITHIN_S).release
        frozen = False
    demo.unpin()
    explained = acts.running.client.call(releases.explain(REF, release.number)).matches
    wanted = ReleasePhase.COMPLETED if fault is Fault.NONE else ReleasePhase.ROLLED_BACK
    return {
        "seed": seed,
        "fault": fault,
        "outcome": ended.phase,
        "as_promised": ended.phase is wanted and not frozen and explained,
        "frozen": frozen,
        "replay_matches": explained,
        "canary_requests": ended.verdict.canary_requests if ended.verdict else None,
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="The demo's version 3 with several seeds of traffic.")
    parser.add_argument("--fault", type=Fault, choices=list(Fault), default=Fault.WINDOW)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the files that are drawn")
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--home", type=Path, default=Path(".slipway") / "seeds")
    on = parser.parse_args()
    found = []
    with service(on.home.resolve(), say) as running:
        acts = Play(on, running)
        acts.first()
        token, url = running.home / "admin-token", running.credentials.url
        for seed in range(1, on.seeds + 1):
            with traffic.load(acts.made.inputs, url, REF, token, running.home, on.rate, seed) as load:
                time.sleep(QUIET_S)
                if seed == 1:
                    acts.second(load)
                    for build in acts.queued.values():
                        acts.demo.built(build)
                try:
                    line = one(acts, load, seed)
                except DemoFailed as error:
                    line = {"seed": seed, "as_promised": False, "error": str(error)}
                journal = load.stop()
                line |= {"requests": len(journal.attempts), "failed": len(journal.failed)}
            found.append(line)
            print(json.dumps(line), flush=True)
    sys.exit(0 if all(line["as_promised"] and not line["failed"] for line in found) else 1)


if __name__ == "__main__":
    main()
