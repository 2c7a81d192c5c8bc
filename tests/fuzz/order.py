"""The order of tasks by streams, events and waits of the host.

A task is a point (stream, number). The clock of a stream gives, for each stream, the last number that is ordered before the next
task of this stream. The clock of the host gives the last number that is known to be done. Methods that order tasks return the
lines of Python that do so.

In a section several threads run at once, each with streams of its own. A thread does not know the tasks that others launch in the
section: it sees their streams as they were at the beginning.
"""


def merge(clock, other):
    for index, number in enumerate(other):
        clock[index] = max(clock[index], number)


class Order:
    def __init__(self, devices):
        """devices: of the streams, by their numbers."""
        self.devices, self.count = devices, len(devices)
        self.clocks = [[0] * self.count for _ in devices]
        self.host = [0] * self.count
        self.events = {}  # name: (clock, thread that recorded it; None outside of sections)
        self._event_devices = {}
        self._next_event = 0
        self._thread = None
        self._own = range(self.count)
        self._frozen = None

    # Sections.

    def begin_section(self):
        self._frozen = [list(clock) for clock in self.clocks]
        self._host_before, self._host_after = list(self.host), list(self.host)

    def begin_thread(self, number, streams):
        self._thread, self._own, self.host = number, streams, list(self._host_before)

    def end_thread(self):
        merge(self._host_after, self.host)

    def end_section(self):
        self._thread, self._own, self._frozen, self.host = None, range(self.count), None, self._host_after
        self.events = {name: (clock, None) for name, (clock, _) in self.events.items()}

    @property
    def in_section(self):
        return self._frozen is not None

    @property
    def streams(self):
        """The streams that the thread may launch on."""
        return list(self._own)

    def clock(self, stream):
        return self.clocks[stream] if stream in self._own else self._frozen[stream]

    # Tasks.

    def launch(self, stream):
        """The number of a new task."""
        clock = self.clocks[stream]
        merge(clock, self.host)
        clock[stream] += 1
        return clock[stream]

    def missing(self, stream, points):
        """The points of {stream: number} that are not ordered before the next task of `stream`."""
        clock = self.clocks[stream]
        return {
            other: number for other, number in points.items() if other != stream and max(clock[other], self.host[other]) < number
        }

    def unknown(self, points):
        """The points of {stream: number} that the host does not know to be done."""
        return {stream: number for stream, number in points.items() if self.host[stream] < number}

    # Ways to order.

    def order(self, stream, points, rng, may_wait=True):
        """The next task of `stream` comes after `points`."""
        lines = []
        while missing := self.missing(stream, points):
            other = rng.choice(sorted(missing))
            if may_wait and rng.random() < 0.12:
                lines += self.wait({other: missing[other]}, rng)
            else:
                lines += self._order_on_device(stream, other, missing[other], rng)
        return lines

    def _order_on_device(self, stream, other, number, rng):
        known = [
            name for name, (clock, thread) in self.events.items() if clock[other] >= number and thread in (None, self._thread)
        ]
        if known and rng.random() < 0.6:
            name = rng.choice(known)
            merge(self.clocks[stream], self.events[name][0])
            return [f"s{stream}.wait_event({name})"]
        if rng.random() < 0.5:
            merge(self.clocks[stream], self.clock(other))
            return [f"s{stream}.wait_stream(s{other})"]
        lines, name = self.record(other)
        merge(self.clocks[stream], self.events[name][0])
        return [*lines, f"s{stream}.wait_event({name})"]

    def record(self, stream, name=None):
        """Lines that record an event, a new one unless `name` is given, and its name."""
        if name is None:
            name, self._next_event = f"e{self._next_event}", self._next_event + 1
            line = f"{name} = s{stream}.record_event()"
            self._event_devices[name] = self.devices[stream]
        else:
            line = f"{name}.record(s{stream})"
        self.events[name] = (list(self.clock(stream)), self._thread)
        return [line], name

    def own_events(self, stream):
        """The events that the thread may record again on the stream: an event belongs to a device."""
        return [
            name
            for name, (clock, thread) in self.events.items()
            if thread == self._thread and self._event_devices[name] == self.devices[stream]
        ]

    def wait(self, points, rng):
        """The host waits until `points` are done."""
        lines = []
        while unknown := self.unknown(points):
            stream, number = sorted(unknown.items())[0]
            ways = ["stream", "event", "old event"] + ([] if self.in_section else ["device"])
            way = rng.choice(ways)
            old = [
                name
                for name, (clock, thread) in self.events.items()
                if clock[stream] >= number and thread in (None, self._thread)
            ]
            if way == "old event" and old:
                name = rng.choice(old)
                merge(self.host, self.events[name][0])
                lines.append(f"{name}.synchronize()")
            elif way == "event":
                recorded, name = self.record(stream)
                merge(self.host, self.events[name][0])
                lines += [*recorded, f"{name}.synchronize()"]
            elif way == "device":
                lines += self.wait_for_device()
            else:
                lines += self.wait_for_stream(stream)
        return lines

    def wait_for_stream(self, stream):
        merge(self.host, self.clock(stream))
        return [f"s{stream}.synchronize()"]

    def wait_for_device(self):
        """The first stream, which is current."""
        for stream, device in enumerate(self.devices):
            if device == 0:
                merge(self.host, self.clock(stream))
        return ["torch.npu.synchronize()"]
