"""A real Slurm of several nodes on one machine, in a private folder, up in seconds and gone without a trace.

Needs root and Debian's packages (`install` gets them). Every daemon is a child of this process, is stopped by its own
process id, and listens on loopback only. Debian builds Slurm with multiple-slurmd support, so one machine carries many
node names. Used by tests/slurm and by demo/run.py.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CORE = ("slurmctld", "slurmd", "slurm-client", "munge")
ACCOUNTING = ("slurmdbd", "slurm-wlm-mysql-plugin", "mariadb-server", "slurmrestd")
USERS = ("rcvalice", "rcvbob")

_SLURM_CONF = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmctldParameters=
SlurmUser=slurm
AuthType=auth/munge
AuthInfo=socket={root}/run/munge/munge.socket,cred_expire={cred_expire}
CredType=cred/munge
StateSaveLocation={root}/state/ctld
SlurmdSpoolDir={root}/state/slurmd/%n
SlurmctldPidFile={root}/run/slurm/slurmctld.pid
SlurmdPidFile={root}/run/slurmd-%n.pid
SlurmctldLogFile={root}/log/slurm/slurmctld.log
SlurmdLogFile={root}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
MpiDefault=none
SwitchType=switch/none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
Prolog={root}/etc/prolog.sh
Epilog={root}/etc/epilog.sh
ReturnToService=2
JobRequeue=1
MinJobAge=300
FirstJobId=4101
KillWait=2
SlurmdTimeout=10
SlurmctldTimeout=10
BatchStartTimeout=10
MessageTimeout={message_timeout}
InactiveLimit=0
CompleteWait=0
{accounting}
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=60 State=UP PriorityTier=10 DefMemPerCPU=100
PartitionName=low Nodes=ALL MaxTime=INFINITE DefaultTime=60 State=UP PriorityTier=1 PreemptMode=REQUEUE DefMemPerCPU=100
PartitionName=high Nodes=ALL MaxTime=INFINITE DefaultTime=60 State=UP PriorityTier=100 PreemptMode=OFF DefMemPerCPU=100
"""
_NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 Sockets=1 CoresPerSocket=16 "
    "ThreadsPerCore=1 RealMemory=64000 State=UNKNOWN"
)
_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd_port}
AccountingStoragePass={root}/run/munge/munge.socket
AccountingStoreFlags=job_comment
"""
_DBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={root}/run/munge/munge.socket
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={dbd_port}
SlurmUser=slurm
LogFile={root}/log/slurm/slurmdbd.log
PidFile={root}/run/slurm/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={db_port}
StorageUser=slurm
StoragePass=lab
StorageLoc=slurm_acct_db
"""
#: A flag file makes the prolog of one node fail, or the epilog slow.
_PROLOG = '#!/bin/sh\n[ ! -e "{root}/flags/prolog-$SLURMD_NODENAME" ]\n'
_EPILOG = '#!/bin/sh\n[ ! -e "{root}/flags/epilog-slow" ] || sleep 5\nexit 0\n'


class LabError(RuntimeError):
    """The lab cannot be brought up."""


def missing(packages: Sequence[str] = CORE) -> tuple[str, ...]:
    """Packages whose main program is not installed."""
    programs = {
        "slurm-client": "sbatch",
        "munge": "munged",
        "mariadb-server": "mariadbd",
        "slurm-wlm-mysql-plugin": None,
    }
    found = []
    for package in packages:
        program = programs.get(package, package)
        if program is None:
            hit = any(Path("/usr/lib").glob("*/slurm*/accounting_storage_mysql.so"))
        else:
            hit = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is not None
        if not hit:
            found.append(package)
    return tuple(found)


def install(packages: Sequence[str]) -> None:
    """Get Debian packages; none of them may start a daemon. Raises LabError when that fails."""
    if shutil.which("apt-get") is None:
        raise LabError(f"install {' '.join(packages)} by hand: there is no apt-get here")
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        for args in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
            done = subprocess.run(["apt-get", *args], env=env, capture_output=True, text=True, timeout=600, check=False)
            if done.returncode:
                raise LabError(f"apt-get {args[0]}: {done.stderr[-400:]}")
    finally:
        if ours:
            policy.unlink()


def ensure(packages: Sequence[str] = CORE) -> None:
    """Install what is missing. Raises LabError when that is not possible here."""
    lacking = missing(packages)
    if lacking and os.geteuid() != 0:
        raise LabError(f"not root, and {' '.join(lacking)} missing")
    if lacking:
        install(lacking)
    if os.geteuid() != 0:
        raise LabError("a private Slurm needs root")


def wait_until(what: str, check: Callable[[], object], timeout_s: float = 20.0, every_s: float = 0.05) -> None:
    """Poll until `check` holds. Raises LabError naming `what` otherwise."""
    end = time.monotonic() + timeout_s
    while not check():
        if time.monotonic() > end:
            raise LabError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(every_s)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(count):
            sock = stack.enter_context(socket.socket())
            sock.bind(("127.0.0.1", 0))
            ports.append(sock.getsockname()[1])
        return ports


@dataclass(slots=True, kw_only=True)
class Lab:
    """One private cluster. `root` is made here and removed by `down`."""

    nodes: int = 4
    accounting: bool = False
    cred_expire_s: int = 5
    message_timeout_s: int = 10
    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="recovery-lab-")))
    _children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False)
    _made_users: list[str] = field(default_factory=list, init=False)

    @property
    def names(self) -> list[str]:
        """Node names."""
        return [f"gpu-{number:03d}" for number in range(1, self.nodes + 1)]

    @property
    def env(self) -> dict[str, str]:
        """Environment of a client of this cluster."""
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        return {"PATH": path, "SLURM_CONF": f"{self.root}/etc/slurm.conf", "LC_ALL": "C", "HOME": "/tmp"}

    def up(self) -> Lab:
        """Start everything and wait until all nodes are idle."""
        ensure((*CORE, *ACCOUNTING) if self.accounting else CORE)
        self._users()
        self._folders()
        self._config()
        self._start("munged", ["munged", "-F", "--num-threads=10", *self._munge_options()], user="munge")
        socket_path = f"{self.root}/run/munge/munge.socket"
        wait_until("munged", lambda: self._quiet("munge", "-n", f"--socket={socket_path}"))
        if self.accounting:
            self._database()
        self.start_controller()
        for name in self.names:
            self.start_node(name)
        wait_until("nodes idle", lambda: self.node_states().count("idle") == self.nodes)
        return self

    def down(self) -> None:
        """Cancel jobs, stop the daemons in order, remove the folder and the users made."""
        if "slurmctld" in self._children and self._children["slurmctld"].poll() is None:
            self._quiet("scancel", *[f"--user={user}" for user in USERS[:1]])
            self._quiet("scancel", f"--user={USERS[1]}")
            with contextlib.suppress(LabError):
                wait_until("steps gone", lambda: not list(self.root.glob("state/slurmd/*/job*")), 8.0)
        if "slurmrestd" in self._children:
            self._children["slurmrestd"].kill()  # 22.05 does not go by itself; it holds no state
        order = [
            "slurmrestd",
            *(f"slurmd-{name}" for name in self.names),
            "slurmctld",
            "slurmdbd",
            "mariadbd",
            "munged",
        ]
        for name in order:
            self.stop(name)
        for user in self._made_users:
            subprocess.run(["userdel", user], capture_output=True, check=False)
        shutil.rmtree(self.root, ignore_errors=True)

    def __enter__(self) -> Lab:
        try:
            return self.up()
        except BaseException:
            self.down()
            raise

    def __exit__(self, *exc: object) -> None:
        self.down()

    def start_controller(self) -> None:
        """Start slurmctld and wait for its ping."""
        self._start("slurmctld", ["slurmctld", "-D", "-f", f"{self.root}/etc/slurm.conf"])
        wait_until("slurmctld", lambda: "is UP" in self.run("scontrol", "ping").stdout)

    def start_node(self, name: str) -> None:
        """Start the slurmd of one node."""
        self._start(f"slurmd-{name}", ["slurmd", "-D", "-N", name, "-f", f"{self.root}/etc/slurm.conf"])

    def start_rest(self) -> str:
        """Start slurmrestd as an ordinary user (it refuses root); its address. Root and that user may connect."""
        path = self.root / "jobs" / "rest.sock"
        args = ["slurmrestd", "-a", "rest_auth/local", "-s", "openapi/v0.0.38", f"unix:{path}"]
        self._start("slurmrestd", args, user=USERS[0])
        wait_until("slurmrestd", path.exists)
        return f"unix:{path}"

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Signal one daemon, by its own process id, and wait for it when it is killed."""
        child = self._children[name]
        child.send_signal(number)
        if number == signal.SIGKILL:
            child.wait(10)

    def stop(self, name: str) -> None:
        """Stop one daemon."""
        child = self._children.pop(name, None)
        if child is None or child.poll() is not None:
            return
        child.send_signal(signal.SIGCONT)
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(10)

    def _start(self, name: str, args: list[str], user: str | None = None) -> None:
        with (self.root / "log" / f"{name}.out").open("ab") as out:
            entry = pwd.getpwnam(user) if user else None
            self._children[name] = subprocess.Popen(
                args,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self.env,
                cwd="/",
                start_new_session=True,
                user=entry.pw_uid if entry else None,
                group=entry.pw_gid if entry else None,
                extra_groups=[] if entry else None,
            )

    def _database(self) -> None:
        state = self.root / "state" / "mysql"
        options = ["--no-defaults", f"--datadir={state}", "--user=mysql"]
        args = ["mariadb-install-db", *options, "--skip-test-db"]
        done = subprocess.run(args, env=self.env, capture_output=True, timeout=120, check=False)
        if done.returncode:
            raise LabError(f"mariadb-install-db: {done.stderr[-400:]!r}")
        sock = f"{self.root}/run/mysql/mysqld.sock"
        network = [f"--socket={sock}", f"--port={self._ports['db']}", "--bind-address=127.0.0.1"]
        self._start("mariadbd", ["mariadbd", *options, *network, f"--pid-file={self.root}/run/mysql/mysqld.pid"])
        grant = (
            "CREATE DATABASE slurm_acct_db; CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'lab';"
            "CREATE USER slurm@localhost IDENTIFIED BY 'lab'; GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1';"
            "GRANT ALL ON slurm_acct_db.* TO slurm@localhost;"
        )
        wait_until("mariadbd", lambda: self._quiet("mariadb", "--no-defaults", f"--socket={sock}", "-e", grant), 30)
        # slurmdbd reads its configuration beside SLURM_CONF
        self._start("slurmdbd", ["slurmdbd", "-D"])
        wait_until("slurmdbd", lambda: self._quiet("sacctmgr", "-i", "add", "cluster", "lab"), 30, 0.2)

    def _users(self) -> None:
        for user in USERS:
            try:
                pwd.getpwnam(user)
            except KeyError:
                subprocess.run(["useradd", "-M", "-s", "/bin/sh", user], check=True, capture_output=True)
                self._made_users.append(user)

    def _folders(self) -> None:
        self.root.chmod(0o755)
        owners = {
            "etc": None,
            "flags": None,
            "log": None,
            "log/slurm": "slurm",
            "run": None,
            "run/slurm": "slurm",
            "run/munge": "munge",
            "run/mysql": "mysql" if self.accounting else None,
            "state": None,
            "state/ctld": "slurm",
            "state/munge": "munge",
            "state/mysql": "mysql" if self.accounting else None,
            "state/slurmd": None,
            "log/munge": "munge",
            "jobs": USERS[0],
            "jobs-bob": USERS[1],
        }
        for name, owner in owners.items():
            path = self.root / name
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o755)
            if owner:
                shutil.chown(path, owner)
        for name in self.names:
            (self.root / "state" / "slurmd" / name).mkdir(exist_ok=True)
        key = self.root / "etc" / "munge.key"
        key.write_bytes(os.urandom(128))
        shutil.chown(key, "munge")
        key.chmod(0o400)

    def _munge_options(self) -> list[str]:
        return [
            f"--key-file={self.root}/etc/munge.key",
            f"--socket={self.root}/run/munge/munge.socket",
            f"--pid-file={self.root}/run/munge/munged.pid",
            f"--log-file={self.root}/log/munge/munged.log",
            f"--seed-file={self.root}/state/munge/munged.seed",
        ]

    _ports: dict[str, int] = field(default_factory=dict, init=False)

    def _config(self) -> None:
        ports = _free_ports(3 + self.nodes)
        self._ports = dict(zip(("ctld", "dbd", "db"), ports[:3], strict=True))
        host = socket.gethostname().partition(".")[0]
        etc, root = self.root / "etc", str(self.root)
        nodes = "\n".join(
            _NODE.format(name=name, host=host, port=port) for name, port in zip(self.names, ports[3:], strict=True)
        )
        accounting = _ACCOUNTING.format(dbd_port=self._ports["dbd"], root=root) if self.accounting else ""
        text = _SLURM_CONF.format(
            host=host,
            root=root,
            ctld_port=self._ports["ctld"],
            cred_expire=self.cred_expire_s,
            message_timeout=self.message_timeout_s,
            accounting=accounting,
            nodes=nodes,
        )
        # an empty value is a parse error that looks like a daemon that does not come up
        (etc / "slurm.conf").write_text(text.replace("SlurmctldParameters=\n", ""))
        constrain = "".join(f"Constrain{what}=no\n" for what in ("RAMSpace", "Cores", "Devices"))
        (etc / "cgroup.conf").write_text(f"CgroupPlugin=cgroup/v1\n{constrain}")
        for name, body in (("prolog.sh", _PROLOG), ("epilog.sh", _EPILOG)):
            (etc / name).write_text(body.format(root=root))
            (etc / name).chmod(0o755)
        if self.accounting:
            dbd = etc / "slurmdbd.conf"
            dbd.write_text(
                _DBD_CONF.format(host=host, root=root, dbd_port=self._ports["dbd"], db_port=self._ports["db"])
            )
            shutil.chown(dbd, "slurm")
            dbd.chmod(0o600)

    def run(self, *args: str, user: str | None = None, timeout_s: float = 30.0) -> subprocess.CompletedProcess[str]:
        """A client program, as root or as one of the users."""
        entry = pwd.getpwnam(user) if user else None
        return subprocess.run(
            args,
            env=self.env,
            cwd=self.root / ("jobs-bob" if user == USERS[1] else "jobs"),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            user=entry.pw_uid if entry else None,
            group=entry.pw_gid if entry else None,
            extra_groups=[] if entry else None,
        )

    def _quiet(self, *args: str) -> bool:
        try:
            return self.run(*args).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def node_states(self) -> list[str]:
        """State of each node as sinfo prints it."""
        done = self.run("sinfo", "-h", "-N", "-p", "main", "-o", "%T")
        return done.stdout.split()

    def submit(self, script: str, *options: str, user: str = USERS[0]) -> str:
        """Submit a batch script; the job id. Raises LabError with sbatch's words."""
        args = ["sbatch", "--parsable", "--open-mode=append", *options, "--wrap", script]
        done = self.run(*args, user=user)
        if done.returncode:
            raise LabError(done.stderr.strip())
        return done.stdout.strip().partition(";")[0]
