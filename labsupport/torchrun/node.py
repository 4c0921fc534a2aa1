"""torchrun's own elastic agent, with ranks that are forked.

torchrun starts each rank by `Popen`. Here a fork takes the place of that call and of nothing else: who watches the
ranks, ends them, counts restarts and gives out their numbers is the code that torchrun runs.
"""

import os
import traceback

__all__ = ["Node"]


class Node:
    """One elastic agent and the ranks it starts.

    Args:
        number: of the node, from 0.
        plan: the `planning.Plan` of the job.
        events: the job's `Events`.
        rank_options: what all `bootstrap.Place` of the job have in common.
        starter: what makes ranks; None: `forking.Forks`.
    """

    def __init__(self, number, plan, events, rank_options, starter=None):
        from labsupport.torchrun.forking import Forks

        self.number, self.plan, self.events, self.rank_options = number, plan, events, rank_options
        self.starter = starter or Forks()
        self.job = rank_options["job"]
        self.attempt = 0

    def run(self, port=None):
        """Run the agent until its ranks have ended for good; returns the exit code.

        Args:
            port: where the store of all nodes listens; None when this is the only one.
        """
        from torch.distributed.elastic.multiprocessing import SignalException, api
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.launcher.api import elastic_launch

        if self.plan.devices is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = self.plan.devices[self.number]
        config = self.plan.config(port, self._logs())
        api.get_subprocess_handler = self._start_rank
        try:
            elastic_launch(config, "cell.py")()
        except ChildFailedError as failed:
            first = min(failed.failures.values(), key=lambda failure: failure.timestamp)
            return first.exitcode if first.exitcode > 0 else 128 - first.exitcode
        except SignalException as told:
            self.events.write("note", text=f"the agent of node {self.number} was ended by {told.sigval.name}")
            return 128 + told.sigval
        except Exception as error:
            traceback.print_exc()
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            self.events.write("note", text=f"the agent of node {self.number} failed: {said}")
            return 70
        return 0

    def _logs(self):
        """Return the object that torch asks, each time it starts ranks, where they write: it is the first to know."""
        from torch.distributed.elastic.multiprocessing import LogsDest, LogsSpecs

        node = self

        class JobFolder(LogsSpecs):
            def reify(self, envs):
                node.begin_attempt(envs)
                none = dict.fromkeys(envs, "")
                return LogsDest(none, none, {}, {}, {r: env["TORCHELASTIC_ERROR_FILE"] for r, env in envs.items()})

            @property
            def root_log_dir(self):
                return str(node.job)

        return JobFolder()

    def begin_attempt(self, envs):
        """Make the folders of the ranks about to start; nothing that an earlier attempt started is alive after this."""
        from labsupport.ranks.bootstrap import attempt_folder

        self.starter.before_attempt(len(envs))
        attempt = max(int(env["TORCHELASTIC_RESTART_COUNT"]) for env in envs.values())
        while any(attempt_folder(self.job, attempt, env["RANK"]).exists() for env in envs.values()):
            attempt += 1  # the agent does not count a restart that follows a change of members
        self.attempt = attempt
        for env in envs.values():
            own = attempt_folder(self.job, attempt, env["RANK"])
            own.mkdir(parents=True, mode=0o700)
            env["TORCHELASTIC_ERROR_FILE"] = str(own / "elastic_error.json")
        ranks = sorted(int(env["RANK"]) for env in envs.values())
        world = int(next(iter(envs.values()))["WORLD_SIZE"])
        event = "restart" if attempt else "started"
        self.events.write(event, node=self.number, attempt=attempt, ranks=ranks, world=world)

    def _start_rank(self, env, local_rank_id, **_):
        """Take the place of torch's `get_subprocess_handler`."""
        from labsupport.ranks import bootstrap

        folder = bootstrap.attempt_folder(self.job, self.attempt, env["RANK"])
        where = {"node": self.number, "agent": os.getpid(), "attempt": self.attempt}
        place = bootstrap.Place(folder=folder, environ=env, **where, **self.rank_options)
        return self.starter.rank(place, self.events, self.plan.grace_s)
