"""The device settings of programs. The seed determines them; 50 consecutive seeds share them."""

from dataclasses import dataclass, field

from .program import Profile

BLOCK = 50
SEGMENT = 2 << 20  # of memory up to 1 MiB

SMALL = ("small", "medium", "most of a small segment")
LARGE = ("small", "medium", "large", "large", "own segment")

GENERAL = Profile()
GRAPHS = Profile(likes=("capture", "replay", "graph_delete", "delete"))
LARGER = Profile(cells=LARGE, steps=24)
# Little memory: each tensor pins at most one segment; two more are for the temporaries of a line.
TIGHT = Profile(
    cells=(*SMALL, *SMALL[2:] * 3),
    graphs=False,
    pools=False,
    threads=False,
    most_live=4,
    limit=6 * SEGMENT,
    likes=("new", "delete", "churn"),
)
# Checked memory is not cached, and captures need the cache.
CHECKED = Profile(graphs=False, steps=24)

# Long waits, to be interrupted.
INTERRUPTED = Profile(
    cells=SMALL, steps=24, threads=False, long_sleeps=0.3, likes=("sleep", "capture", "replay", "graph_delete", "empty_cache")
)

PEERS = Profile(devices=2, threads=False, likes=("peer", "delete"))
TWO = {"SOFTNPU_DEVICE_COUNT": "2"}

RACES = {"SOFTNPU_RACE_CHECK": "report"}


@dataclass(frozen=True)
class Settings:
    profile: Profile
    environment: dict = field(default_factory=dict)

    @property
    def name(self):
        """For a table of results."""
        profile = next(name for name, value in globals().items() if value is self.profile)
        values = [
            value for name, value in self.environment.items() if value != COMMON.get(name) and name != "SOFTNPU_SHUFFLE_SEED"
        ]
        return ", ".join([profile.lower(), *values])


def _allocator(text):
    return {"PYTORCH_NPU_ALLOC_CONF": text}


def _launch(mode):
    return {"SOFTNPU_LAUNCH": mode}


ALL = (
    Settings(GENERAL),
    Settings(GENERAL, _launch("queue")),
    Settings(GRAPHS, _launch("shuffle")),
    Settings(TIGHT, RACES),
    Settings(GRAPHS, _launch("queue") | RACES),
    Settings(LARGER, _allocator("expandable_segments:True") | RACES),
    Settings(GRAPHS, _launch("shuffle") | RACES),
    Settings(CHECKED, {"SOFTNPU_MEMORY_CHECK": "redzone,poison"}),
    Settings(GRAPHS, RACES),
    Settings(TIGHT, _launch("shuffle") | _allocator("garbage_collection_threshold:0.5")),
    Settings(GENERAL, _launch("shuffle") | _allocator("multi_stream_lazy_reclaim:True")),
    Settings(LARGER, _launch("queue")),
    Settings(GENERAL, _launch("queue") | _allocator("release_lock_on_npumalloc:True")),
    Settings(PEERS, TWO | RACES),
    Settings(TIGHT, _launch("queue") | RACES),
    Settings(LARGER, _launch("shuffle") | _allocator("expandable_segments:True")),
    Settings(PEERS, TWO | _launch("shuffle")),
    Settings(CHECKED, _launch("queue") | {"SOFTNPU_MEMORY_CHECK": "poison"} | RACES),
)
# One device is enough, and little of it: a program that leaks fails soon.
COMMON = {
    "SOFTNPU_DEVICE_COUNT": "1",
    "SOFTNPU_DEVICE_MEMORY": "1G",
    "SOFTNPU_LAUNCH": "hybrid",
    "SOFTNPU_RACE_CHECK": "off",
    "SOFTNPU_MEMORY_CHECK": "none",
}


def of(seed):
    settings = ALL[seed // BLOCK % len(ALL)]
    order = {"SOFTNPU_SHUFFLE_SEED": str(seed // BLOCK)} if settings.environment.get("SOFTNPU_LAUNCH") == "shuffle" else {}
    return Settings(settings.profile, COMMON | settings.environment | order)


def of_interrupted(seed):
    """The settings of programs that are interrupted."""
    mode = ("hybrid", "queue")[seed // BLOCK % 2]
    return Settings(INTERRUPTED, COMMON | _launch(mode))
