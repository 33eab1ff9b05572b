# SPDX-License-Identifier: Apache-2.0
#
# survive.py - a training loop that goes on in the processes that live when a rank has died.
#
#   init()      joins the ranks of `manta run --restart-rank` or `python -m manta_torch` as torch's default group. In a spare it waits for a place.
#   survive()   runs steps. After a death the survivors join the next generation with the replacement, agree which step is the last
#               that anybody has completed, and all take its state from one survivor's memory.
#
# A step is complete once its optimizer has stepped; up to there nothing of what it changes is lost: buffers, the random state and
# `others` are noted before each step, and put back where it failed.
#
# Thread: the program's main one.
import datetime
import io
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from . import coll
from .backend import ProcessGroupManta
from .ranks import ENDINGS, Ranks

CALL_S = 1800
IDLE_S = 0.5  # who waits longer for a place is a spare, or others are still on their way
_ranks = None


def init():
    """Makes torch's default group of all ranks. Blocks until each has a process; in a spare, until one has died."""
    global _ranks
    if _ranks:
        raise coll.BadArgument("manta_torch.init was called before in this process")
    _ranks = Ranks()
    told = _ranks.next(IDLE_S)
    if told is None or told["generation"] == 1:
        _rehearse()
    _Given.told = told = told or _ranks.next()
    rank, size = told["rank"], told["size"]
    local = {"LOCAL_RANK": told.get("local_rank", rank), "LOCAL_WORLD_SIZE": told.get("local_size", size)}
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), **{name: str(value) for name, value in local.items()})
    dist.init_process_group("manta_survive", store=dist.HashStore(), rank=rank, world_size=size)


def _rehearse():
    """What is first used in a recovery is slow then: torch sets up much at the first use. So all of it is used once by those who wait, or
    begin; not by a replacement, for whom the others wait."""
    with torch.random.fork_rng(devices=[]):
        dist.init_process_group("manta", store=dist.HashStore(), rank=0, world_size=1)
        try:
            model = torch.nn.Linear(1, 1)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            state = State(model, optimizer, {})
            DistributedDataParallel(model)(torch.ones(1, 1)).sum().backward()
            optimizer.step()
            state.take(state.pack(), with_random=False)
            dist.all_gather_into_tensor(torch.zeros(1), torch.zeros(1))
            dist.broadcast(torch.zeros(1), 0)
            dist.barrier()
        finally:
            dist.destroy_process_group()


class _Given:
    """The place that init() has got, for the group that torch makes of it."""

    told = None


def _create(store, rank, size, timeout):
    if _Given.told is None:
        raise coll.Unsupported("a further group, where ranks are replaced: only the default one goes on after a death")
    told, _Given.told = _Given.told, None
    while True:
        try:
            _ranks.enter(told)
            return ProcessGroupManta(store, rank, size, datetime.timedelta(seconds=CALL_S), "", (None, _ranks.member))
        except ENDINGS:  # while they met
            told = _ranks.next()


def register():
    if "manta_survive" not in dist.Backend.backend_list:
        dist.Backend.register_backend("manta_survive", _create, devices=["cpu"])


# ---- what a step changes ----


class State:
    """Model, optimizer and `others` (name -> object with state_dict and load_state_dict), and which step they are of."""

    def __init__(self, model, optimizer, others):
        self.model, self.optimizer, self.others = model, optimizer, others
        self.completed, self.noted, self.has_stepped = 0, None, False
        optimizer.register_step_post_hook(self._stepped)

    def _stepped(self, *_):
        self.has_stepped = True

    def _small(self):
        return {
            "buffers": {name: buffer.detach().clone() for name, buffer in self.model.named_buffers()},
            "random": torch.get_rng_state(),
            "others": {name: self._copy(other.state_dict()) for name, other in self.others.items()},
        }

    @staticmethod
    def _copy(state):
        into = io.BytesIO()
        torch.save(state, into)
        return into.getvalue()

    def _small_put(self, small, with_random):
        with torch.no_grad():
            for name, buffer in self.model.named_buffers():
                buffer.copy_(small["buffers"][name])
        for name, other in self.others.items():
            other.load_state_dict(torch.load(io.BytesIO(small["others"][name]), weights_only=True))
        if with_random:
            torch.set_rng_state(small["random"])

    def begin(self):
        self.noted, self.has_stepped = self._small(), False

    def end(self):
        self.completed += 1

    def undo(self):
        """After a step that failed: what it was before, or complete where the optimizer has stepped."""
        if self.has_stepped:
            self.end()
        elif self.noted:
            self._small_put(self.noted, True)
        self.noted, self.has_stepped = None, False
        self.optimizer.zero_grad(set_to_none=True)

    def pack(self):
        into = io.BytesIO()
        whole = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "small": self._small()}
        torch.save({**whole, "completed": self.completed}, into)
        return torch.frombuffer(bytearray(into.getvalue()), dtype=torch.uint8)

    def take(self, packed, with_random):
        whole = torch.load(io.BytesIO(packed.numpy().tobytes()), weights_only=True)
        self.model.load_state_dict(whole["model"])
        self.optimizer.load_state_dict(whole["optimizer"])
        self._small_put(whole["small"], with_random)
        self.completed = whole["completed"]


def _agree(state, is_new):
    """All take the last step that anybody has completed, from the lowest rank that has it."""
    rank, size = dist.get_rank(), dist.get_world_size()
    steps = torch.zeros(size, dtype=torch.int64)
    dist.all_gather_into_tensor(steps, torch.tensor([-1 if is_new else state.completed]))
    source = int(steps.argmax())
    if int(steps[source]) < 0:
        source = 0  # all begin: with the weights of rank 0
    is_behind = is_new or int(steps[rank]) < int(steps[source])
    if not bool((steps < steps[source]).any()) and int(steps[source]) >= 0:
        return
    packed = state.pack() if rank == source else None
    length = torch.tensor([packed.numel() if packed is not None else 0])
    dist.broadcast(length, source)
    packed = packed if rank == source else torch.empty(int(length), dtype=torch.uint8)
    dist.broadcast(packed, source)
    if rank != source and is_behind:
        state.take(packed, with_random=False)


def _is_ending(error):
    """Whether it says that the group's generation is over, and not that the step itself is wrong."""
    failure = dist.distributed_c10d._get_default_group().failure
    return isinstance(failure, ENDINGS)


def _go_on():
    told = _ranks.next()
    dist.distributed_c10d._get_default_group().regroup(lambda: _ranks.enter(told))


def survive(step, model, optimizer, steps, others=None, wrap=DistributedDataParallel):
    """Calls step(wrap(model), number) for each number below `steps`, through deaths of ranks. Gives the last wrapped model.

    `others` are what else a step changes: a sampler, a schedule, each with state_dict and load_state_dict. Every rank has the whole
    state, as in data parallelism (no FSDP). optimizer.step() is the step's last call that may fail, and called once in it.
    An exception of the step's own goes through, and ends this process; its supervisor starts another one."""
    if not _ranks:
        raise coll.BadArgument("manta_torch.init comes first")
    state, is_new, parallel = State(model, optimizer, others or {}), True, None
    while True:
        try:
            _agree(state, is_new)
            is_new, parallel = False, wrap(model)
            while state.completed < steps:
                state.begin()
                step(parallel, state.completed)
                state.end()
            dist.barrier()  # nobody is missing who could still need this rank's state
            return parallel
        except RuntimeError as error:
            if not _is_ending(error):
                raise
        state.undo()
        while True:
            try:
                _go_on()
                break
            except ENDINGS:  # another one died while they met
                pass
            except coll.NoGeneration:
                if state.completed < steps or parallel is None:
                    raise
                return parallel  # who has finished was through the last barrier, so all have completed all steps
