"""Programs in processes of their own that need not load torch and Lightning, which takes longer than most of them run.

One process loads both and does nothing else; a program runs in a fork of it, with its own arguments, folder,
environment, modules of omegamax and state. What a test says of starting up, or of what is imported, needs a real start.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path


class WarmProcesses:
    """Runs programs as ``subprocess.run`` does, in forks of a process that has torch and Lightning loaded."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # a fork has none of the threads of what it came from
        self.server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def close(self) -> None:
        self.server.communicate(timeout=60)  # the end of what it is asked for

    def run(
        self,
        arguments: Sequence[object],
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 600,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program: ``file.py``, ``-m module`` or ``-c code``, and its arguments."""
        return self.run_together([(arguments, env)], cwd, timeout)[0]

    def run_together(
        self,
        programs: Sequence[tuple[Sequence[object], Mapping[str, str] | None]],
        cwd: str | os.PathLike[str] | None = None,
        timeout: float = 600,
    ) -> list[subprocess.CompletedProcess[str]]:
        """Run programs, each with its environment (None: this one), at the same time; all end before this returns."""
        assert self.server.stdin is not None and self.server.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            asked = [
                {
                    "arguments": [str(argument) for argument in arguments],
                    "environment": {**(os.environ if env is None else env), "OMP_NUM_THREADS": "1"},
                    "cwd": str(cwd or Path.cwd()),
                    "files": [f"{folder}/{i}.out", f"{folder}/{i}.err"],
                }
                for i, (arguments, env) in enumerate(programs)
            ]
            self.server.stdin.write(json.dumps({"programs": asked, "timeout": timeout}) + "\n")
            self.server.stdin.flush()
            codes = json.loads(self.server.stdout.readline())
            shown = [[Path(file).read_text(encoding="utf-8") for file in each["files"]] for each in asked]
        if None in codes:
            raise subprocess.TimeoutExpired([str(arguments) for arguments, _ in programs], timeout, *shown[0])
        return [
            subprocess.CompletedProcess(each["arguments"], code, *texts)
            for each, code, texts in zip(asked, codes, shown, strict=True)
        ]


def execute(arguments: Sequence[str]) -> None:
    """Run a program in this process as the interpreter does when it is given these arguments."""
    first, *rest = arguments
    if first == "-c":
        code, *more = rest
        sys.argv = ["-c", *more]
        sys.path[0] = ""
        main = sys.modules["__main__"] = types.ModuleType("__main__")  # where the code's definitions belong
        exec(compile(code, "<string>", "exec"), main.__dict__)
    elif first == "-m":
        module, *more = rest
        sys.argv = [module, *more]
        sys.path[0] = os.getcwd()
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *rest]
        sys.path[0] = str(Path(first).resolve().parent)
        runpy.run_path(first, run_name="__main__")


def fork(program: dict) -> int:
    """Start a program; the id of its process."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    os.setsid()  # what it starts in turn ends with it
    for descriptor, file in zip((1, 2), program["files"], strict=True):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(program["cwd"])
    os.environ.clear()
    os.environ.update(program["environment"])
    # An uncaught error or SystemExit ends this process as it ends any other, with its message and status.
    execute(program["arguments"])
    sys.exit(0)


def wait(children: list[int], timeout: float) -> list[int | None]:
    """The statuses of the children, None for all where some took too long and were killed."""
    codes: dict[int, int] = {}
    end = time.monotonic() + timeout
    while len(codes) < len(children) and time.monotonic() < end:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child:
            codes[child] = os.waitstatus_to_exitcode(status)
        else:
            time.sleep(0.01)
    late = [child for child in children if child not in codes]
    for child in late:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return [None if late else codes[child] for child in children]


def serve() -> None:
    """Load what takes long; then run what each line of the standard input asks for and print the statuses."""
    import lightning.pytorch.cli  # noqa: F401
    import torchmetrics  # noqa: F401

    for line in sys.stdin:
        asked = json.loads(line)
        children = [fork(program) for program in asked["programs"]]
        print(json.dumps(wait(children, asked["timeout"])), flush=True)


if __name__ == "__main__":
    serve()
