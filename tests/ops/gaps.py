"""The known gaps: `known_gaps.yaml`, a list of {id, class, reason}. An id names a case or is a glob of case ids."""

import dataclasses
import fnmatch
from pathlib import Path

import yaml

FILE = Path(__file__).with_name("known_gaps.yaml")
CLASSES = ("not offered", "upstream", "bug")


@dataclasses.dataclass
class Verdict:
    """The verdict on a run. The run passes if `wrong` is empty."""

    gaps: list  # cases that fail as the file says
    wrong: list  # sentences


def load(file=FILE):
    return yaml.safe_load(file.read_text()) or []


def expand(entries, ids):
    """The ids of the cases that the entries name, with their entries, and what is wrong with the entries themselves."""
    named, wrong = {}, []
    for entry in entries:
        if set(entry) != {"id", "class", "reason"} or entry["class"] not in CLASSES or not str(entry["reason"]).strip():
            wrong.append(f"known gap {entry}: needs id, class (one of {', '.join(CLASSES)}) and reason")
            continue
        matching = [entry["id"]] if entry["id"] in ids else fnmatch.filter(ids, entry["id"])
        if not matching:
            wrong.append(f"known gap {entry['id']}: no case has such an id")
        for id in matching:
            if id in named:
                wrong.append(f"known gap {entry['id']}: {id} is named by {named[id]['id']} too")
            named[id] = entry
    return named, wrong


def judge(records, entries, ids, full):
    """Failures must be known, and what is known must fail where all samples ran. `ids` are those of all cases, run or not."""
    named, wrong = expand(entries, ids)
    gaps = []
    for id, record in records.items():
        bad = record["status"] in ("failed", "crashed", "hung")
        if bad and id in named:
            gaps.append(id)
        elif bad:
            wrong.append(f"{id}: {record['status']}: {record['detail']}")
        elif id in named and full:
            wrong.append(f"{id}: {record['status']}, but it is a known gap: remove it from the list")
    return Verdict(gaps, wrong)
