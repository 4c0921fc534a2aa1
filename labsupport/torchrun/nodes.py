"""Several nodes on one machine: an agent for each, under one process that keeps their store and sees them end."""

import os
import signal
import struct
import traceback

from labsupport.torchrun.node import Node

__all__ = ["exit_code", "supervise"]


def supervise(plan, events, rank_options):
    """Run one agent per node and return the job's exit code.

    This process listens for the rendezvous, so that any node may be lost, the first one too.
    """
    from labsupport.torchrun import meeting
    from labsupport.torchrun.forking import end_with_parent

    told, tells = os.pipe()
    agents = {_fork_agent(number, told, tells, plan, events, rank_options): number for number in range(plan.max_nodes)}
    os.close(told)
    end_with_parent()
    store = meeting.listen()
    os.write(tells, struct.pack("H", store.port) * plan.max_nodes)
    os.close(tells)
    codes = {}
    while agents:
        pid, status = os.wait()
        if pid not in agents:
            continue  # something that a rank of a lost node had started
        number, code = agents.pop(pid), os.waitstatus_to_exitcode(status)
        codes[number] = code
        events.write("node ended", node=number, code=code)
        if code < 0 and len(agents) + list(codes.values()).count(0) < plan.min_nodes:
            for other in agents:  # they would wait for a node that cannot come
                os.kill(other, signal.SIGKILL)
    return exit_code(codes.values(), plan.min_nodes)


def exit_code(codes, min_nodes):
    """Return a job's exit code from those of its agents: a lost node is no failure while enough others succeed."""
    codes = list(codes)
    failed = [code for code in codes if code > 0]
    if not failed and codes.count(0) >= min_nodes:
        return 0
    return failed[0] if failed else 128 - min(codes)


def _fork_agent(number, told, tells, plan, events, rank_options):
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.close(tells)
        (port,) = struct.unpack("H", os.read(told, 2))
        os.close(told)
        events.write("node", node=number, pid=os.getpid())
        code = Node(number, plan, events, rank_options).run(port)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
