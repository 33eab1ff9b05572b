# SPDX-License-Identifier: Apache-2.0
#
# backend.py - the torch.distributed backend `manta`: CPU tensors, in place, through the public collectives.
#
# Owns: of each group a member, its lane, and for messages a group of two in each direction, made when it is first used.
import weakref

import torch
import torch.distributed as dist

from . import coll, meet
from .lane import Lane, Work

KINDS = {
    torch.float32: coll.F32, torch.float64: coll.F64, torch.bfloat16: coll.BF16, torch.float16: coll.F16,
    torch.int32: coll.I32, torch.int64: coll.I64, torch.uint8: coll.U8,
}  # fmt: skip
WIDER = {torch.int8: torch.int32, torch.int16: torch.int32, torch.bool: torch.uint8}  # for sums; cutting gives the same
OPS = {"SUM": coll.SUM, "AVG": coll.MEAN, "MAX": coll.MAX, "MIN": coll.MIN}
GATHERED = {"PRODUCT": torch.mul, "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}


def check(tensors):
    for tensor in tensors:
        if tensor.device.type != "cpu" or tensor.layout != torch.strided:
            raise coll.Unsupported(f"a {tensor.layout} tensor on {tensor.device}: the backend manta moves dense CPU tensors")


def memory(tensor):
    """Address, elements and type for a call that only moves data; the tensor is contiguous."""
    kind = KINDS.get(tensor.dtype)
    if kind is None:
        return tensor.data_ptr(), tensor.numel() * tensor.element_size(), coll.U8
    return tensor.data_ptr(), tensor.numel(), kind


def op_name(op):
    return str(getattr(op, "op", op)).rpartition(".")[2]


class Sum:
    """A tensor as the collectives can reduce it, and its way back."""

    def __init__(self, tensor, op):
        self.name = op_name(op)
        plain = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        wide = WIDER.get(plain.dtype)
        self.data = (plain.to(wide) if wide else plain).contiguous()
        if self.name not in OPS and self.name not in GATHERED:
            raise coll.Unsupported(f"the reduction {self.name}")
        if self.data.dtype not in KINDS or (tensor.is_complex() and self.name not in ("SUM", "AVG")):
            raise coll.Unsupported(f"the reduction {self.name} of {tensor.dtype}")
        if tensor.dtype == torch.bool and self.name in ("SUM", "AVG"):
            raise coll.Unsupported(f"the reduction {self.name} of {tensor.dtype}: MAX says whether any is true")

    def give(self, tensor):
        plain = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        if self.data.data_ptr() != plain.data_ptr():
            plain.copy_(self.data)

    def reduce_gathered(self, parts):
        """The reductions that the library has not: `parts` is everybody's tensor, in the order of ranks."""
        result = parts[0].clone()
        for part in parts[1:]:
            GATHERED[self.name](result, part, out=result)
        self.data.copy_(result)


class ProcessGroupManta(dist.ProcessGroup):
    def __init__(self, store, rank, size, timeout, name="", joined=None):
        super().__init__(rank, size)
        self._rank_, self._size_, self._store_, self._name_ = rank, size, store, name
        self._seconds_ = timeout.total_seconds() if timeout else 1800
        self._group_, self._member_ = joined or meet.join(store, rank, size, name or "torch", self._seconds_)
        self.failure = None  # the first error of the generation
        self._lane_ = Lane("manta collectives", self._failed_)
        self._messages_ = {}  # (from, to) -> lane, and a list with the member, once it has joined

    # ---- what torch asks of a group ----

    def size(self):
        return self._size_

    def rank(self):
        return self._rank_

    def getBackendName(self):
        return "manta"

    def name(self):
        return "manta"

    def _set_group_name(self, name):
        self._name_ = name

    @property
    def group_name(self):
        return self._name_

    pg_name = group_name

    def _set_group_desc(self, text):
        self._description_ = text

    @property
    def group_desc(self):
        return getattr(self, "_description_", "undefined")

    def _get_backend(self, device):
        return self

    def _set_sequence_number_for_group(self):
        pass

    supports_splitting = supports_coalescing = False

    def _start_coalescing(self, device):
        pass

    def _end_coalescing(self, device):
        return self.start(lambda: None, [])

    def abort(self):
        self._member_.abort()
        for _, members in self._messages_.values():
            for member in members:
                member.abort()

    def shutdown(self):
        """Leaves, after what was started. Others that still need this rank are told."""
        lanes = [(self._lane_, [self._member_])] + list(self._messages_.values())
        self._messages_ = {}
        for lane, members in lanes:
            lane.close()
            for member in members:
                member.leave()

    # ---- running calls ----

    def _failed_(self, error):
        self.failure = self.failure or error

    def start(self, call, tensors, is_awaited=False):
        return self._lane_.start(call, tensors, is_awaited)

    def _awaited_(self, opts):
        return not getattr(opts, "asyncOp", True)

    def regroup(self, enter):
        """Goes on in a later generation of the same size, which enter() joins, as the member that it gives; nothing of the last one is
        under way."""

        def call():
            self._member_ = enter()

        self._lane_.start(call, [], is_awaited=True).wait()
        self.failure = None

    # ---- reductions ----

    def _reduce_(self, member, data, call):
        """`data` is a Sum; call(kind, op) reduces it by the library where that can."""
        if data.name in OPS:
            call(KINDS[data.data.dtype], OPS[data.name])
            return
        parts = data.data.new_empty((self._size_, *data.data.shape))
        member.all_gather(data.data.data_ptr(), parts.data_ptr(), data.data.numel(), KINDS[data.data.dtype])
        data.reduce_gathered(parts)

    def allreduce(self, tensors, opts=None):
        check(tensors)
        member, op = self._member_, getattr(opts, "reduceOp", dist.ReduceOp.SUM)

        def call():
            for tensor in tensors:
                s = Sum(tensor, op)
                at, count = s.data.data_ptr(), s.data.numel()
                self._reduce_(member, s, lambda kind, how: member.all_reduce(at, at, count, kind, how))
                s.give(tensor)

        return self.start(call, tensors, self._awaited_(opts))

    allreduce_coalesced = allreduce

    def reduce(self, tensors, opts):
        check(tensors)
        member, root, op = self._member_, opts.rootRank, opts.reduceOp

        def call():
            for tensor in tensors:
                s = Sum(tensor, op)
                at, count = s.data.data_ptr(), s.data.numel()
                out = at if self._rank_ == root else None
                if s.name in GATHERED and self._rank_ != root:
                    s.data = s.data.clone()
                self._reduce_(member, s, lambda kind, how: member.reduce(at, out, count, kind, how, root))
                if self._rank_ == root:
                    s.give(tensor)

        return self.start(call, tensors, self._awaited_(opts))

    def _reduce_scatter_(self, output, flat, op):
        """`flat` has a part for each rank, one after the other."""
        member, s = self._member_, Sum(flat, op)
        if s.name in GATHERED:
            self._reduce_(member, s, None)
            output.copy_(s.data.view(self._size_, -1)[self._rank_].view(output.shape))
            return
        is_in_place = output.is_contiguous() and output.dtype == s.data.dtype
        out = output if is_in_place else torch.empty(s.data.numel() // self._size_, dtype=s.data.dtype)
        member.reduce_scatter(s.data.data_ptr(), out.data_ptr(), out.numel(), KINDS[s.data.dtype], OPS[s.name])
        plain = torch.view_as_real(output) if output.is_complex() else output
        if not is_in_place:
            plain.copy_(out.view(plain.shape))

    def reduce_scatter_single(self, output, flat, opts=None):
        check([output, flat])
        op = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
        self._sized_(flat, output.numel() * self._size_, "input")
        return self.start(lambda: self._reduce_scatter_(output, flat, op), [output], self._awaited_(opts))

    def reduce_scatter(self, outputs, inputs, opts=None):
        op = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
        for output, parts in zip(outputs, inputs, strict=True):
            check([output, *parts])
            self._parts_(parts, [output] * self._size_)

        def call():
            for output, parts in zip(outputs, inputs, strict=True):
                self._reduce_scatter_(output, torch.cat([part.reshape(-1) for part in parts]), op)

        return self.start(call, outputs, self._awaited_(opts))

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        works = [self.reduce_scatter_single(output, flat, opts) for output, flat in zip(outputs, inputs, strict=True)]
        return works[-1] if works else self.start(lambda: None, [])

    # ---- moving ----

    def _sized_(self, tensor, elements, what):
        if tensor.numel() != elements:
            raise coll.BadArgument(f"the {what} has {tensor.numel()} elements, and {self._size_} ranks need {elements}")

    def _parts_(self, parts, like):
        if len(parts) != self._size_:
            raise coll.BadArgument(f"{len(parts)} tensors for {self._size_} ranks")
        for part, other in zip(parts, like, strict=True):
            if part.numel() != other.numel() or part.dtype != other.dtype:
                raise coll.BadArgument(f"tensors of {part.numel()} {part.dtype} and {other.numel()} {other.dtype} in one call")

    def broadcast(self, tensors, opts):
        check(tensors)
        member, root = self._member_, opts.rootRank

        def call():
            for tensor in tensors:
                whole = tensor.contiguous()
                member.broadcast(*memory(whole), root)
                if whole is not tensor and self._rank_ != root:
                    tensor.copy_(whole)

        return self.start(call, tensors, self._awaited_(opts))

    def _gather_(self, flat, tensor):
        """`flat`, contiguous, gets everybody's tensor."""
        at, count, kind = memory(tensor.contiguous())
        self._member_.all_gather(at, flat.data_ptr(), count, kind)

    def all_gather_single(self, output, tensor, opts=None):
        check([output, tensor])
        self._sized_(output, tensor.numel() * self._size_, "output")

        def call():
            flat, whole = output.contiguous(), tensor.contiguous()
            self._gather_(flat, whole)
            if flat is not output:
                output.copy_(flat)

        return self.start(call, [output], self._awaited_(opts))

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        works = [self.all_gather_single(output, tensor, opts) for output, tensor in zip(outputs, inputs, strict=True)]
        return works[-1] if works else self.start(lambda: None, [])

    def _gather_apart_(self, parts, tensor):
        whole = tensor.contiguous()
        flat = whole.new_empty((self._size_, *whole.shape))
        self._gather_(flat, whole)
        for part, came in zip(parts, flat, strict=True):
            part.copy_(came.view(part.shape))

    def allgather(self, outputs, inputs, opts=None):
        for parts, tensor in zip(outputs, inputs, strict=True):
            check([tensor, *parts])
            self._parts_(parts, [tensor] * self._size_)

        def call():
            for parts, tensor in zip(outputs, inputs, strict=True):
                self._gather_apart_(parts, tensor)

        return self.start(call, outputs[0], self._awaited_(opts))

    def allgather_coalesced(self, outputs, inputs, opts=None):
        """`outputs` has a list of tensors for each rank."""
        return self.allgather([list(parts) for parts in zip(*outputs, strict=True)], inputs, opts)

    def gather(self, outputs, inputs, opts):
        tensor, is_root = inputs[0], self._rank_ == opts.rootRank
        check([tensor])
        if is_root:
            self._parts_(outputs[0], [tensor] * self._size_)

        def call():
            self._gather_apart_(outputs[0] if is_root else [torch.empty_like(tensor)] * self._size_, tensor)

        return self.start(call, outputs[0] if is_root else [], self._awaited_(opts))

    def gather_single(self, output, tensor, opts):
        return self.gather([list(output.view(self._size_, -1))] if self._rank_ == opts.rootRank else [], [tensor], opts)

    def scatter(self, outputs, inputs, opts):
        output, root = outputs[0], opts.rootRank
        check([output])
        if self._rank_ == root:
            self._parts_(inputs[0], [output] * self._size_)

        def call():
            flat = output.new_empty((self._size_, output.numel()))
            if self._rank_ == root:
                torch.stack([part.reshape(-1) for part in inputs[0]], out=flat)
            self._member_.broadcast(*memory(flat), root)
            output.copy_(flat[self._rank_].view(output.shape))

        return self.start(call, outputs, self._awaited_(opts))

    # ---- all to all ----

    def _exchange_(self, outputs, inputs):
        """A flat tensor for each rank and from each, of any sizes. They travel at the size of the largest."""
        member = self._member_
        most = torch.tensor([max(part.numel() for part in [*inputs, *outputs])])
        member.all_reduce(most.data_ptr(), most.data_ptr(), 1, coll.I64, coll.MAX)
        there = inputs[0].new_zeros((self._size_, int(most)))
        here = torch.empty_like(there)
        for row, part in zip(there, inputs, strict=True):
            row[: part.numel()].copy_(part)
        _, count, kind = memory(there[0])
        member.all_to_all(there.data_ptr(), here.data_ptr(), count, kind)
        for row, part in zip(here, outputs, strict=True):
            part.copy_(row[: part.numel()])

    def alltoall(self, outputs, inputs, opts=None):
        check([*outputs, *inputs])
        if len(outputs) != self._size_ or len(inputs) != self._size_:
            raise coll.BadArgument(f"{len(inputs)} tensors to {len(outputs)}, and there are {self._size_} ranks")

        def call():
            flat = [torch.empty(output.numel(), dtype=output.dtype) for output in outputs]
            self._exchange_(flat, [part.reshape(-1) for part in inputs])
            for output, came in zip(outputs, flat, strict=True):
                output.copy_(came.view(output.shape))

        return self.start(call, outputs, self._awaited_(opts))

    def all_to_all_single(self, output, tensor, output_sizes=None, input_sizes=None, opts=None):
        check([output, tensor])
        rows = self._size_
        for what, data, sizes in (("output", output, output_sizes), ("input", tensor, input_sizes)):
            if sizes and (len(sizes) != rows or sum(sizes) != data.shape[0]):
                raise coll.BadArgument(f"the {what} has {data.shape[0]} rows, its split sizes for {rows} ranks are {list(sizes)}")
            if not sizes and data.shape[0] % rows:
                raise coll.BadArgument(f"the {what} has {data.shape[0]} rows for {rows} ranks")

        def call():
            if not output_sizes and not input_sizes and output.is_contiguous():
                at, count, kind = memory(whole := tensor.contiguous())
                self._member_.all_to_all(at, output.data_ptr(), count // rows, kind)
                del whole
                return
            into = list(tensor.split(list(input_sizes) if input_sizes else tensor.shape[0] // rows or 1))
            out = list(output.split(list(output_sizes) if output_sizes else output.shape[0] // rows or 1))
            flat = [torch.empty(part.numel(), dtype=part.dtype) for part in out]
            self._exchange_(flat, [part.reshape(-1) for part in into])
            for part, came in zip(out, flat, strict=True):
                part.copy_(came.view(part.shape))

        return self.start(call, [output], self._awaited_(opts))

    def barrier(self, opts=None):
        return self.start(self._member_.barrier, [], self._awaited_(opts))

    # ---- messages: a group of two for each direction of each pair, so that no order of sends and receives can lock ----

    def _lane_of_(self, source, to):
        lane = self._messages_.get((source, to))
        if not lane:
            lane = self._messages_[(source, to)] = (Lane(f"manta {source} to {to}", self._failed_), [])
        return lane

    def _two_(self, members, source, to):
        if not members:
            store = dist.PrefixStore(f"manta/{source}/{to}", self._store_)
            _, member = meet.join(store, int(self._rank_ == to), 2, f"{source} to {to}", self._seconds_)
            members.append(member)
        return members[0]

    def _message_(self, tensors, source, to, tag, is_send):
        (tensor,) = tensors
        check([tensor])
        lane, members = self._lane_of_(source, to)

        def call():
            two, whole, label = self._two_(members, source, to), tensor.contiguous(), torch.tensor([tag])
            if is_send:
                two.send(label.data_ptr(), 1, coll.I64, 1)
                two.send(*memory(whole), 1)
                return
            two.receive(label.data_ptr(), 1, coll.I64, 0)
            if int(label) != tag:
                two.abort()
                raise coll.BadArgument(f"rank {source} sent tag {int(label)}, rank {to} expected tag {tag}: messages come in order")
            two.receive(*memory(whole), 0)
            if whole is not tensor:
                tensor.copy_(whole)

        return lane.start(call, tensors)

    def send(self, tensors, to, tag=0):
        return self._message_(tensors, self._rank_, to, tag, True)

    def recv(self, tensors, source, tag=0):
        return self._message_(tensors, source, self._rank_, tag, False)

    def recv_anysource(self, tensors, tag=0):
        raise coll.Unsupported("a receive from any rank: name the one it comes from")

    # As earlier releases of torch call them.
    _allgather_base, _reduce_scatter_base, alltoall_base = all_gather_single, reduce_scatter_single, all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    recv_anysource_ = recvAnysource = recv_anysource


_groups = weakref.WeakSet()


def create(store, rank, size, timeout):
    group = ProcessGroupManta(store, rank, size, timeout)
    _groups.add(group)
    return group


def register():
    if "manta" not in dist.Backend.backend_list:
        dist.Backend.register_backend("manta", create, devices=["cpu"])


__all__ = ["ProcessGroupManta", "Work", "register"]
