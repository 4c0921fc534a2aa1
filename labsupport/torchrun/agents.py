"""When not a rank failed but who started it: the agent, or the helper that made the agent."""

from labsupport.torchrun.telling import Told
from labsupport.torchrun.view import ending_in_words

__all__ = ["agent_report", "failed_agent"]

_HELPER = "the helper, the process that makes all ranks of this notebook,"


def agent_report(job, now):
    """Return a `Told` when the agent or the helper has ended before any rank failed by itself, else None.

    Args:
        job: the `job.Job`.
        now: its last snapshot.
    """
    if any(e["event"] == "rank ended" and e["code"] and not e.get("asked") for e in now.events):
        return None
    if said := failed_agent(now.events) or _last_words(job, now):
        return Told(
            f"the job ended with exit code {now.code}: {said}", [("why", "torchrun's agent gave up; no rank failed")]
        )
    if who := _killed(job, now):
        return Told(f"{who}, and its ranks with it", [("try", "Run the cell again: what is gone is started anew.")])
    return None


def failed_agent(events):
    """Return the sentence in which an agent said why it failed, or ""."""
    notes = [event["text"] for event in events if event["event"] == "note"]
    told = next((text for text in notes if text.startswith("the agent of node ") and " failed: " in text), "")
    return told.removesuffix(": ")


def _last_words(job, now):
    """Return the last line of the agent's log when it ended by an exception of its own."""
    if now.code != 70:
        return ""
    try:
        said = (job.folder / "agent.log").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    _, found, trace = said[-20_000:].rpartition("Traceback (most recent call last):")
    lines = [line for line in trace.splitlines() if line and not line.startswith(" ")]
    return lines[-1][:300] if found and lines else ""


def _killed(job, now):
    """Return who was killed, as a clause, or ""."""
    if getattr(getattr(job, "_handle", None), "lost", False):
        return f"{_HELPER} was killed"
    if (now.code or 0) < 0 and not any(event["event"] == "ended" for event in now.events):
        return f"torchrun's agent was {ending_in_words(now.code)}"
    wanted = {event["what"].partition("@")[0] for event in now.events if event["event"] == "kill"}
    for event in now.events:
        if event["event"] == "node ended" and event["code"] < 0 and f"node={event['node']}" not in wanted:
            return f"the agent of node {event['node']} was {ending_in_words(event['code'])}"
    return ""
