"""A queue worked off in SimGrid: a case as JSON on standard input, when units end on the output.

Run as a file by a Python that has SimGrid, and nothing of this project is imported. A master gives
units to the workers that ask it, one after the other, over a network that takes no time.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from simgrid import Actor, Engine, LinkInRoute, Mailbox, NetZone, this_actor

FLOPS = 1e9  # of a unit of one second, which a worker of speed 1 does in a second
SWIFT = 1e15  # bytes a second; messages have none


def hand_out(case: dict[str, Any]) -> None:
    """Give units in their order; what needs others, as soon as they are done, before all else."""
    needs = {int(place): set(needed) for place, needed in case["needs"].items()}
    missing = {place: set(needed) for place, needed in needs.items()}
    ready = [place for place in range(len(case["seconds"])) if place not in needs]
    asking: list[int] = []
    left, at_work = len(case["seconds"]), len(case["speed"])
    inbox = Mailbox.by_name("master")
    while at_work:
        worker, done = inbox.get()
        asking.append(worker)
        if done is not None:
            left -= 1
            for place in list(missing):
                missing[place].discard(done)
                if not missing[place]:
                    del missing[place]
                    ready.append(place)
        while asking and ready:
            first = min(ready, key=lambda place: (place not in needs, place))
            ready.remove(first)
            this_actor.sleep_for(case["per_task"])
            Mailbox.by_name(f"worker {asking.pop(0)}").put(first, 0)
        while asking and not left:
            Mailbox.by_name(f"worker {asking.pop(0)}").put(None, 0)
            at_work -= 1


def work(number: int, case: dict[str, Any], ended: list[float]) -> None:
    """Come, then ask and compute until there is nothing more."""
    this_actor.sleep_for(case["begins"][number])
    done = None
    while True:
        Mailbox.by_name("master").put((number, done), 0)
        done = Mailbox.by_name(f"worker {number}").get()
        if done is None:
            return
        this_actor.execute(case["seconds"][done] * FLOPS)
        ended[done] = Engine.clock


def main() -> None:
    """Simulate the case."""
    case = json.load(sys.stdin)
    engine = Engine(["case", "--log=root.thresh:error", "--cfg=network/model:CM02"])
    zone = NetZone.create_full_zone("zone")
    master = zone.create_host("master", FLOPS)
    ended = [0.0] * len(case["seconds"])
    hosts = []
    for number, speed in enumerate(case["speed"]):
        host = zone.create_host(f"worker {number}", FLOPS * speed)
        link = zone.create_link(f"link {number}", SWIFT).set_latency(0).seal()
        ends = (host.netpoint, master.netpoint, None, None)
        zone.add_route(*ends, [LinkInRoute(link)], True)
        hosts.append(host)
    zone.seal()
    Actor.create("master", master, hand_out, case)
    for number, host in enumerate(hosts):
        Actor.create(f"worker {number}", host, work, number, case, ended)
    engine.run()
    json.dump(ended, sys.stdout)


if __name__ == "__main__":
    main()
