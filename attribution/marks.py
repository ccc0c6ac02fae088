"""Marks: what a signature may say of a line besides its class, by names that later stages know."""

from __future__ import annotations

#: Marks a signature may set: facts that later stages need by name, whatever the emitter.
MARKS: dict[str, str] = {
    "job_start": "a new job begins in this file (append mode): cut here",
    "attempt_start": "a new attempt of the same job begins: cut here",
    "launcher_restart": "torchrun or another launcher restarts its workers inside one attempt",
    "completed": "the program says that the run finished",
    "job_cancelled": "the scheduler says that the job or step was cancelled",
    "time_limit": "the scheduler ended the job at its time limit",
    "preempted": "the scheduler preempted the job",
    "node_fail": "the scheduler declared a node failed",
    "sigterm_received": "the program or launcher says that it received SIGTERM or SIGINT from outside",
    "rank_exit": "a rank, task or process ended with a code or signal (fields rank|task, exit_code|signal, node)",
    "traceback": "head of a Python traceback",
    "exception": "final line of a Python traceback",
    "chained_cause": "the exception above caused the one below",
    "chained_context": "the exception below came while the one above was handled",
    "handled": "the trouble named was retried, ignored or handled by the program itself",
    "step": "progress line with a step",
    "checkpoint_save": "a checkpoint began to be written",
    "checkpoint_saved": "a checkpoint was written",
    "checkpoint_loaded": "a checkpoint was loaded (field step where known)",
    "phase_init": "initialisation began",
    "phase_load": "loading of data or checkpoint began",
    "phase_train": "training began",
    "phase_eval": "evaluation began",
    "phase_save": "saving began",
    "rank_node": "tells the node of a rank (fields rank, node; maybe gpu, pci, pid)",
    "collective_timeout": "a watchdog gave up on a collective (fields rank, seq, op, timeout_ms, last_enqueued, last_completed)",
    "stack_dump": "the program dumps stacks of living threads (py-spy, faulthandler)",
    "oom_kill": "somebody killed a process for memory",
    "survivable": "runs that go on print it as well: where nothing ended it proves no failure",
    "rank_head": "a launcher repeats the words of one rank: the next trouble is that rank's",
    "stuck_process": "a process did not end when it was told to (field pid)",
    "summary": "a launcher's summary of what it saw (a witness, not the judge)",
}
