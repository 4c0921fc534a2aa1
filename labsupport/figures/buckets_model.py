"""DDP's buckets as numbers: what a recorded backward pass tells, and what another bucket size would have done.

A run is a dict: `rank`, `world`, `shift` (its start after the first rank's, in s), `ended`, `computed` (when the last
gradient was ready), `ready`: [{name, bytes, at}], `buckets`: [{index, bytes, parameters, first, full, start, end,
exposed, last}]: `first` and `full`: when its first and last gradient were ready, `last`: which that was, `exposed`: how
long it was still being reduced after all computing had ended. Times are seconds since the run's own start.
"""

from labsupport.errors import LabError
from labsupport.figures.words import repr_label

__all__ = ["busy", "estimate", "merged", "runs_of", "simulated"]


def runs_of(recorded):
    """Return the runs in what `record_buckets` gave: one dict, a list with one for each rank, or a dict by rank.

    Raises:
        LabError: it is something else, or no gradient was ready in it.
    """
    if isinstance(recorded, dict) and "ready" not in recorded:
        recorded = list(recorded.values())
    seen = [recorded] if isinstance(recorded, dict) else recorded
    step = "pass what `with record_buckets(model) as seen:` filled"
    if not isinstance(seen, list | tuple) or not all(isinstance(s, dict) and "ready" in s for s in seen) or not seen:
        raise LabError(f"{repr_label(recorded, 40)} is no recorded backward pass", next_step=step)
    if not all(s["ready"] for s in seen):
        why = "nothing was ready inside the block" if seen[0] else "the block has not ended"
        raise LabError("no gradient was recorded", why=why, next_step="call loss.backward() inside the block")
    first = min(s.get("began", 0) for s in seen)
    return [_run(s, s.get("began", 0) - first) for s in sorted(seen, key=lambda s: s.get("rank", 0))]


def _run(seen, shift):
    ready = list(seen["ready"])
    computed = max(g["at"] for g in ready)
    return {
        "rank": seen.get("rank", 0), "world": seen.get("world", 1), "shift": shift, "computed": computed,
        "ended": seen.get("ended", computed), "ready": ready,
        "buckets": [_bucket(b, ready, computed) for b in seen.get("buckets", ())],
        "machine": seen.get("machine", ""), "date": seen.get("date", ""),
    }  # fmt: skip


def _bucket(bucket, ready, computed):
    names = set(bucket["parameters"])
    own = [g for g in ready if g["name"] in names] or [{"name": "?", "at": bucket["start"]}]
    return {
        **{key: bucket[key] for key in ("index", "bytes", "parameters", "start", "end")},
        "first": own[0]["at"], "full": own[-1]["at"], "last": own[-1]["name"],
        "exposed": max(0.0, bucket["end"] - max(bucket["start"], computed)),
    }  # fmt: skip


def busy(run):
    """Return (communicating, exposed): seconds in which at least one bucket is reduced, and those after computing."""
    total, until = 0.0, 0.0
    for bucket in sorted(run["buckets"], key=lambda b: b["start"]):
        total += max(0.0, bucket["end"] - max(bucket["start"], until))
        until = max(until, bucket["end"])
    return total, max(0.0, until - run["computed"]) if run["buckets"] else 0.0


def merged(run, most):
    """Return the run with neighbouring buckets taken together, so that there are at most `most`; "0–4" names five."""
    size = -(-len(run["buckets"]) // most)
    if size <= 1:
        return run
    groups = [run["buckets"][k : k + size] for k in range(0, len(run["buckets"]), size)]
    return {**run, "buckets": [_together(group, run["computed"]) if len(group) > 1 else group[0] for group in groups]}


def _together(group, computed):
    start, end = min(b["start"] for b in group), max(b["end"] for b in group)
    return {
        "index": f"{group[0]['index']}–{group[-1]['index']}", "bytes": sum(b["bytes"] for b in group),
        "parameters": [name for b in group for name in b["parameters"]], "start": start, "end": end,
        "first": group[0]["first"], "full": group[-1]["full"], "last": group[-1]["last"],
        "exposed": max(0.0, end - max(start, computed)),
    }  # fmt: skip


def estimate(run):
    """Return (latency_s, bytes_per_s) so that the run's own buckets would have taken the time they took in all.

    A fifth of the smallest time is taken for latency: a guess, to be replaced where something better is known.
    """
    total, _ = busy(run)
    size = sum(b["bytes"] for b in run["buckets"])
    if not size or total <= 0:
        return 1e-4, 1e9
    latency = 0.2 * min(b["end"] - b["start"] for b in run["buckets"])
    moving = max(total - latency * len(run["buckets"]), total / 2)
    return latency, size / moving


def simulated(run, cap_bytes, latency_s, bytes_per_s):
    """Return a run with the same gradients, but another bucket size.

    As in DDP, gradients fill a bucket in the order in which they become ready; it is closed once it holds at least
    `cap_bytes`. Buckets are reduced one after another, each in `latency_s` plus its bytes by `bytes_per_s`.
    """
    buckets, held, free = [], [], 0.0
    for k, gradient in enumerate(run["ready"]):
        held.append(gradient)
        size = sum(g["bytes"] for g in held)
        if size < cap_bytes and k < len(run["ready"]) - 1:
            continue
        start = max(free, gradient["at"])
        free = start + latency_s + size / bytes_per_s
        bucket = {"index": len(buckets), "bytes": size, "start": start, "end": free}
        bucket["parameters"] = [g["name"] for g in held]
        buckets.append(_bucket(bucket, run["ready"], run["computed"]))
        held = []
    return {**run, "shift": 0.0, "buckets": buckets, "ended": max(free, run["computed"])}
