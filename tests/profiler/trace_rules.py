"""The rules of the public Trace Event format that viewers rely on."""

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
    """Fails for an event that a viewer would misplace or drop. Returns the numbers of X events and of flows."""
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


def inside(event, bar):
    """Times are rounded to a nanosecond."""
    return bar["ts"] - 0.0015 <= event["ts"] <= bar["ts"] + bar["dur"] + 0.0015


def nested(bars):
    open_ends = []
    for bar in sorted(bars, key=lambda bar: (bar["ts"], -bar["dur"])):
        end = bar["ts"] + bar["dur"]
        while open_ends and open_ends[-1] <= bar["ts"] + 0.0015:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1] + 0.0015, bar
        open_ends.append(end)
