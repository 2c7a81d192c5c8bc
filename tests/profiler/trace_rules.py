"""Checks the rules of the public Trace Event format that viewers rely on."""

import gzip
import json
import math
from pathlib import Path

LARGEST_ID = 2**53  # of a number in JavaScript


def read(path):
    path = Path(path)
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        found = json.load(file)
    return found["traceEvents"] if isinstance(found, dict) else found


def check(events):
    """Fails for an event that a viewer would draw at a wrong place or drop. Returns the numbers of X events and of flows."""
    bars, starts, ends = {}, {}, {}
    for event in events:
        if event["ph"] == "M":
            continue
        assert isinstance(event["ts"], (int, float)) and math.isfinite(event["ts"]), event
        if event["ph"] == "X":
            assert isinstance(event["dur"], (int, float)) and event["dur"] >= 0, event
            bars.setdefault((event["pid"], event["tid"]), []).append(event)
        elif event["ph"] in "sf":
            assert 0 <= event["id"] < LARGEST_ID, event
            side = starts if event["ph"] == "s" else ends
            assert (event["cat"], event["id"]) not in side, event
            side[event["cat"], event["id"]] = event
    for track in bars.values():
        nested(track)
    assert starts.keys() == ends.keys()
    for key, start in starts.items():
        assert start["ts"] <= ends[key]["ts"], (start, ends[key])
        for event in (start, ends[key]):
            assert any(inside(event, bar) for bar in bars[event["pid"], event["tid"]]), event
    return sum(map(len, bars.values())), len(starts)


def nanoseconds(microseconds):
    """A sum of two times in microseconds is off by up to 2 ns, because a float has 53 bits. Whole nanoseconds add exactly."""
    return round(microseconds * 1000)


def begin_and_end(bar):
    begin = nanoseconds(bar["ts"])
    return begin, begin + nanoseconds(bar["dur"])


def inside(event, bar):
    """Whether the event begins during the bar. Times are rounded to a nanosecond."""
    begin, end = begin_and_end(bar)
    return begin - 1 <= nanoseconds(event["ts"]) <= end + 1


def nested(bars):
    around = []
    for bar in sorted(bars, key=lambda bar: (bar["ts"], -bar["dur"])):
        begin, end = begin_and_end(bar)
        while around and around[-1][0] <= begin + 1:
            around.pop()
        assert not around or end <= around[-1][0] + 1, (bar, around[-1][1])
        around.append((end, bar))
