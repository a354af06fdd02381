"""Worker processes: a crash or a hang costs the form it happened in, and no other."""

import json
import os
import pathlib
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future

from . import cases

WORKER = pathlib.Path(__file__).with_name("worker.py")
# Seconds without a word: no sample takes as long, even cold on a busy machine.
SILENCE = 300
# Jobs after which a worker is replaced, so that compiled programs do not pile up.
JOBS = 100


class Ended(Exception):
    """The worker is gone."""


class Worker:
    """One process, and the pipe to it."""

    def __init__(self):
        self.said = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            env=dict(os.environ, OMP_NUM_THREADS="1"),
        )
        self.buffer = b""
        self.jobs = 0

    def send(self, job):
        self.jobs += 1
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise Ended(self.end()) from None

    def read(self):
        """The next message. Raises `Ended`, having killed a silent process."""
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], SILENCE)
            if not ready:
                self.process.kill()
                raise Ended(f"no word in {SILENCE} s; {self.end()}")
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                raise Ended(self.end())
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(text)

    def end(self):
        """Waits for the end and tells of it."""
        code = self.process.wait()
        self.said.seek(0)
        last = self.said.read().decode(errors="replace").strip()[-400:]
        how = signal.Signals(-code).name if code < 0 else f"code {code}"
        return f"the process ended with {how}: {last}"

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.said.close()


def run(worker, job):
    """Runs a job; returns what came of each form, and the worker to go on with."""
    results, left = {}, dict(job["forms"])
    while left:
        if worker is None or worker.jobs >= JOBS:
            if worker:
                worker.stop()
            worker = Worker()
        form = next(iter(left))
        try:
            worker.send(dict(job, forms=left))
            while "done" not in (message := worker.read()):
                form = message.get("begins", form)
                if "ends" in message:
                    results[message.pop("ends")] = message
                    left.pop(form)
            break
        except Ended as ended:
            told = [{"sample": "", "error": f"crash: {ended}"}]
            results[form] = {"checks": 1, "failed": 1, "told": told}
            left.pop(form, None)
            worker.stop()
            worker = None
    return results, worker


class Pool:
    """Runs the jobs of cases in their order, a few ahead of who asks for the results."""

    def __init__(self, processes):
        self.jobs = queue.SimpleQueue()
        self.results = {}
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self._work, daemon=True) for _ in range(processes)]

    def submit(self, case, until_failure):
        """Asks for a case; the forms in `until_failure` take all samples until one fails."""
        forms = dict(case.amounts) | dict.fromkeys(until_failure)
        job = {
            "op": case.op,
            "dtype": case.dtype,
            "forms": {form: forms[form] for form in cases.FORMS if forms.get(form, 0) != 0},
            "until_failure": sorted(until_failure),
        }
        self.results[case] = Future()
        self.jobs.put((job, self.results[case]))

    def start(self):
        for thread in self.threads:
            thread.start()

    def result(self, case):
        """What came of each form of a case."""
        return self.results[case].result()

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def _work(self):
        worker = None
        while not self.stopped.is_set():
            try:
                job, future = self.jobs.get_nowait()
            except queue.Empty:
                break
            try:
                results, worker = run(worker, job)
                future.set_result(results)
            except Exception as error:
                future.set_exception(error)
                worker = None
        if worker:
            worker.stop()
