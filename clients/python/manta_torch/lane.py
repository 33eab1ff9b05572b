# SPDX-License-Identifier: Apache-2.0
#
# lane.py - calls that run one after the other beside the program, and what torch waits for meanwhile.
#
# Owns: a thread, from the first call on that the program does not wait for. Thread: any.
import queue
import threading

import torch
import torch.distributed as dist

from .coll import MantaError


class Work(dist._Work):
    """A call that was started. wait() raises the MantaError; who waits for the future in C++ gets its text."""

    def __init__(self, tensors):
        super().__init__()
        self._tensors, self._error, self._done = tensors, None, threading.Event()
        self._begun = torch.futures.Future()
        # A future of torch's takes an error that C++ sees as one from a callback alone.
        self._future = self._begun.then(self._value)

    def _value(self, _begun):
        if self._error:
            raise self._error
        return self._tensors

    def finish(self, error=None):
        self._error = error
        self._begun.set_result(None)
        self._done.set()

    def wait(self, timeout=None):
        seconds = timeout.total_seconds() if timeout else 0
        if not self._done.wait(seconds if seconds > 0 else None):
            raise MantaError(f"the call is not done within {seconds} s; it goes on", 40, "ETIMEDOUT")
        if self._error:
            raise self._error
        return True

    def get_future(self):
        return self._future

    def result(self):
        self.wait()
        return self._tensors

    def is_completed(self):
        return self._done.is_set()

    def is_success(self):
        return self._done.is_set() and self._error is None

    def exception(self):
        return self._error

    def synchronize(self):
        self.wait()


class Lane:
    def __init__(self, name, on_error=lambda error: None):
        self._name, self._on_error = name, on_error
        self._lock, self._queue, self._thread, self._pending = threading.Lock(), queue.SimpleQueue(), None, 0

    def start(self, call, tensors, is_awaited=False):
        """Runs call() after all that was started before. Where the caller waits anyway and nothing is under way: here."""
        work = Work(tensors)
        with self._lock:
            if is_awaited and self._pending == 0:
                self._run(call, work)
                return work
            self._pending += 1
            self._queue.put((call, work))
            if not self._thread:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
        return work

    def close(self):
        """Ends the thread after what was started."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._queue.put(None)
        if thread and thread is not threading.current_thread():
            thread.join()

    def _run(self, call, work):
        error = None
        try:
            with torch.no_grad():
                call()
        except Exception as caught:  # it is the waiter's, whatever it is
            error = caught
            self._on_error(caught)
        work.finish(error)

    def _serve(self):
        while True:
            job = self._queue.get()
            if job is None:
                return
            self._run(*job)
            with self._lock:
                self._pending -= 1
            del job
