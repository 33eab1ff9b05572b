# SPDX-License-Identifier: Apache-2.0
#
# ledger.py - reads what driver and workers of the chaos load have written (load.h) and says what was lost, done twice or
# wrong.
import collections
import struct

RECORD = struct.Struct("<QQIiiIiiii16x")
BEGIN, END, SUBMIT, OUTCOME, WRONG = 1, 2, 3, 4, 5
KINDS = {1: "task", 2: "once", 3: "parent", 4: "child", 5: "call", 6: "call once", 7: "value", 8: "nap", 9: "named"}
NAMED, CALLS = 9, (5, 6, 9)
NOT_DONE, UNKNOWN = 0, 2
ETASK, EUNSCHEDULABLE, EWORKER, EACTOR, EOBJ_LOST, ENODE, ETIMEDOUT, ECONN = 8, 4, 20, 21, 23, 24, 40, 45
DEATHS = (EWORKER, EACTOR, ENODE)

Record = collections.namedtuple("Record", "key time what attempt pid node code outcome retries signal")


def read(path):
    data = path.read_bytes()
    return [Record(*fields) for fields in RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size])]


class Call:
    """All that the ledger says of one key."""

    __slots__ = ("key", "submit", "outcome", "begins", "ends", "wrong", "outcomes")

    def __init__(self, key):
        self.key, self.submit, self.outcome, self.outcomes = key, None, None, 0
        self.begins, self.ends, self.wrong = [], [], 0

    @property
    def kind(self):
        return self.key >> 56


def calls_of(records):
    calls = {}
    for r in records:
        call = calls.get(r.key)
        if call is None:
            call = calls[r.key] = Call(r.key)
        if r.what == BEGIN:
            call.begins.append(r)
        elif r.what == END:
            call.ends.append(r)
        elif r.what == SUBMIT:
            call.submit = r
        elif r.what == OUTCOME:
            call.outcome = r
            call.outcomes += 1
        elif r.what == WRONG:
            call.wrong += 1
    return calls


class Judge:
    """`deaths`: times at which processes were killed; `outages`: (from, to, ...) in which a node was away."""

    def __init__(self, calls, deaths, outages):
        self.calls, self.deaths, self.outages = calls, sorted(deaths), outages
        self.lost, self.duplicated, self.wrong = [], [], []
        self.errors = collections.Counter()
        for call in calls.values():
            self.look_at_runs(call)
            if call.submit:
                self.look_at_outcome(call)

    def died_between(self, begin, end):
        return sum(begin <= t <= end for t in self.deaths)

    def was_away(self, begin, end):
        return any(begin <= to and since <= end for since, to in self.outages)

    def look_at_runs(self, call):
        """Nothing runs twice under one attempt, nor again once its caller has the value."""
        seen = set()
        for run in call.begins:
            if run.attempt in seen and call.kind not in CALLS:  # the attempt of a call is the actor's incarnation
                self.duplicated.append((call, f"attempt {run.attempt} ran twice"))
            seen.add(run.attempt)
        if call.kind in CALLS and len(call.begins) > 1 + (call.submit.retries if call.submit else 0):
            self.duplicated.append((call, f"ran {len(call.begins)} times"))
        if call.submit and call.kind not in CALLS and len(call.begins) > 1 + call.submit.retries:
            self.duplicated.append((call, f"ran {len(call.begins)} times"))
        accepted = call.outcome
        for run in call.begins if accepted and accepted.code == 0 else ():
            if run.time > accepted.time and run.attempt > accepted.attempt:
                self.duplicated.append((call, f"attempt {run.attempt} ran after {accepted.attempt} was accepted"))

    def look_at_outcome(self, call):
        if call.wrong:
            self.wrong.append((call, "a wrong value, or out of order"))
        if call.outcomes > 1:
            self.duplicated.append((call, f"{call.outcomes} outcomes"))
        if not call.outcome:
            self.lost.append((call, "no outcome"))
            return
        code, since, to = call.outcome.code, call.submit.time, call.outcome.time
        if code == 0:
            if not call.begins:
                self.wrong.append((call, "a value, but it never ran"))
            return
        self.errors[f"{KINDS[call.kind]}: {code}"] += 1
        if call.outcome.outcome == NOT_DONE and call.begins and code in (*DEATHS, ECONN):
            self.wrong.append((call, f"error {code} says not done, but it ran"))
        if not self.allows(call, code, since, to):
            self.lost.append((call, f"error {code}"))

    def allows(self, call, code, since, to):
        """Whether the failures that were made explain this error."""
        if code in DEATHS:
            wanted = 1 if call.kind in CALLS else call.submit.retries + 1
            return self.died_between(since - 1_000_000_000, to) >= wanted
        if code in (EOBJ_LOST, EUNSCHEDULABLE):
            return self.was_away(since, to)
        return code == ETASK and self.died_between(since, to) > 0  # a parent whose child could not be saved


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0


def recoveries(calls, kills):
    """Milliseconds from a kill to the outcome of what it interrupted, by kind of victim. kills: (kind, time, pids)."""
    open_runs = collections.defaultdict(list)
    for call in calls.values():
        ends = {(r.pid, r.attempt): r.time for r in call.ends}
        for run in call.begins:
            open_runs[run.pid].append((run.time, ends.get((run.pid, run.attempt), 1 << 63), call))
    named = sorted((c.submit.time, c.outcome.time) for c in calls.values()
                   if c.kind == NAMED and c.submit and c.outcome and c.outcome.code == 0)
    found = collections.defaultdict(list)
    for kind, time, pids in kills:
        if kind == "head":
            found[kind] += [(to - time) / 1e6 for since, to in named if since >= time][:1]
            continue
        for pid in pids:
            for since, to, call in open_runs[pid]:
                if since <= time < to and call.outcome and call.outcome.code == 0 and call.outcome.time > time:
                    found[kind].append((call.outcome.time - time) / 1e6)
    return found
