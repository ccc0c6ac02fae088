"""The contract on a newer Slurm (24.11 of Debian trixie), in a chroot: ``python -m tests.slurm.newer FOLDER`` (root).

Not part of the suite, because building the chroot takes a minute or two of downloads. FOLDER is made by debootstrap if it
is not there; it stays, so that a second run takes seconds. Its Slurm gives JSON of the newer shape by
``scontrol --json``, which 22.05 does not have.
"""

from __future__ import annotations

import pwd
import shutil
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE), str(HERE.parent / "schedulers")]

from contract import Contract  # noqa: E402
from play import Play  # noqa: E402
from test_contract import RealBench  # noqa: E402

from attribution.schedulers.runner import CommandRunner, ReadRunner  # noqa: E402
from attribution.schedulers.slurm import SlurmActor, SlurmObserver  # noqa: E402
from demo.lab import CORE, USERS, Lab  # noqa: E402

_DROPPED = ("MpiDefault=none\n", "SwitchType=switch/none\n")


@contextmanager
def mounted(source: Path, target: Path) -> Iterator[None]:
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", source, target], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", target], check=True)


def build(folder: Path) -> None:
    """A minimal trixie with Slurm; nothing in it may start a daemon by itself."""
    if (folder / "usr/sbin/slurmctld").exists():
        return
    subprocess.run(["debootstrap", "--variant=minbase", "trixie", folder], check=True)
    policy = folder / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    packages = " ".join(CORE)
    script = (
        f"apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends {packages}"
    )
    subprocess.run(["chroot", folder, "sh", "-c", script], check=True)


@dataclass(slots=True, kw_only=True)
class NewerLab(Lab):
    """The lab with daemons and clients of the chroot; its folder is seen at the same path inside."""

    chroot: Path

    def _config(self) -> None:
        Lab._config(self)
        conf = self.root / "etc" / "slurm.conf"
        text = conf.read_text().replace("CredType=cred/munge", "CredType=auth/munge")
        for line in _DROPPED:
            text = text.replace(line, "")
        conf.write_text(text)
        (self.root / "etc" / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        entries = [pwd.getpwnam(user) for user in ("munge", *USERS)]
        passwd = self.chroot / "etc" / "passwd"
        kept = [line for line in passwd.read_text().splitlines() if line.split(":")[0] not in ("munge", *USERS)]
        kept += [f"{e.pw_name}:x:{e.pw_uid}:{e.pw_gid}::/tmp:/bin/sh" for e in entries]
        passwd.write_text("\n".join(kept) + "\n")
        (self.chroot / "etc" / "hosts").write_text(f"127.0.0.1 localhost\n127.0.0.1 {socket.gethostname()}\n")

    def _inside(self, user: str | None) -> list[str]:
        return ["chroot", *([f"--userspec={user}"] if user else []), str(self.chroot)]

    def _start(self, name: str, args: list[str], user: str | None = None) -> None:
        Lab._start(self, name, [*self._inside(user), *args])

    def run(self, *args: str, user: str | None = None, timeout_s: float = 30.0) -> subprocess.CompletedProcess[str]:
        there = ["sh", "-c", f'cd {self.root}/jobs && exec "$@"', "sh"]
        return Lab.run(self, *self._inside(user), *there, *args, timeout_s=timeout_s)

    def clients(self) -> str:
        """A folder of programs that run the chroot's clients."""
        folder = self.root / "bin"
        folder.mkdir(exist_ok=True)
        for name in ("squeue", "sinfo", "scontrol", "scancel", "sacct"):
            env = f"env SLURM_CONF={self.root}/etc/slurm.conf SLURM_TIME_FORMAT=%s"
            (folder / name).write_text(f'#!/bin/sh\nexec chroot {self.chroot} {env} {name} "$@"\n')
            (folder / name).chmod(0o755)
        return str(folder)


def contract(lab: NewerLab) -> int:
    """Every test of the contract; how many failed."""
    bin_dir, failed = lab.clients(), 0
    for name in sorted(name for name in dir(Contract) if name.startswith("test_")):
        play = Play(lab=lab, folder=lab.root / "ledger", bin_dir=bin_dir)
        play.observer = SlurmObserver(runner=ReadRunner(bin_dir=bin_dir))
        bench = RealBench(play)
        bench.actor = SlurmActor(runner=CommandRunner(bin_dir=bin_dir))
        try:
            getattr(Contract(), name)(bench)
            print("ok    ", name, flush=True)
        except Exception:
            failed += 1
            print("FAILED", name, flush=True)
            traceback.print_exc()
        lab.run("scancel", f"--user={USERS[0]}")
        time.sleep(1)
    return failed


def main() -> int:
    if len(sys.argv) != 2 or shutil.which("debootstrap") is None:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1]).resolve()
    build(folder)
    lab = NewerLab(chroot=folder)
    with ExitStack() as stack:
        for name in ("proc", "dev"):
            stack.enter_context(mounted(Path("/", name), folder / name))
        stack.enter_context(mounted(lab.root, folder / lab.root.relative_to("/")))
        stack.enter_context(lab)
        print(lab.run("sinfo", "-V").stdout.strip())
        failed = contract(lab)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
