"""Tiers: which layers each of them has, and what a machine allows. Loads nothing that only one system has."""

from dataclasses import dataclass, field

__all__ = ["ABSENT", "LAYERS", "NO_GROUP", "TierReport", "missing"]

_COMMON = (
    "death signal", "session", "user", "no dumps", "streams", "descriptors", "environment", "limits", "capabilities",
    "no new privileges", "landlock", "seccomp",
)  # fmt: skip
LAYERS = {
    "A": ("process namespace", "mounts", "network", "interprocess", "host name", "files", *_COMMON),
    "B": _COMMON,
    "C": (),
}
NO_GROUP = "none: memory is limited per process"
ABSENT = "absent from this kernel"


@dataclass(frozen=True)
class TierReport:
    """Which tier the machine allows, found out by building it.

    Args:
        tier: "A", "B" or "C".
        layers: {layer: "ok" or what happened} of the tier.
        reasons: why the tiers above this one cannot be had, in words with the system's own error.
        notes: what else is worth knowing (whose right to make namespaces, whether memory is counted in a group).
    """

    tier: str
    layers: dict = field(default_factory=dict)
    reasons: tuple = ()
    notes: dict = field(default_factory=dict)

    def __str__(self):
        name = {"A": "caged", "B": "fenced", "C": "open"}[self.tier]
        why = f" because {'; '.join(self.reasons)}" if self.reasons and self.tier != "A" else ""
        return f"tier {self.tier} ({name}){why}"


def missing(tier, told):
    """Return {layer: what happened} of the layers that `tier` needs and `told` does not call ok."""
    found = {name: told.get(name, "said nothing") for name in LAYERS[tier] if told.get(name) != "ok"}
    if tier == "A" and found.get("landlock") == ABSENT:
        # In a cage Landlock is the second lock on files; the first, a file system of its own, was tried and holds.
        del found["landlock"]
    if tier != "C" and told.get("memory group", NO_GROUP) not in ("ok", NO_GROUP):
        found["memory group"] = told["memory group"]
    return found
