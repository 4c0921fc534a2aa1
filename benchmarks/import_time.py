"""Milliseconds that `import labsupport` costs, beside a Python that imports nothing (limit 150 ms, nothing heavy)."""

import statistics
import subprocess
import sys
import time

ROUNDS = 15
LIMIT_MS = 150
HEAVY = ("torch", "matplotlib", "numpy", "IPython")
COMMANDS = {
    "python -c 'pass'": "pass",
    "import labsupport": "import labsupport",
    "from labsupport import lesson": "from labsupport import lesson",
}


def run_ms(code):
    """Return the milliseconds a fresh interpreter takes for `code`, start and end included."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
    return (time.perf_counter() - began) * 1000


def main():
    """Print the medians side by side; return 1 when the import is over its limit or loads something heavy."""
    # Rounds, not blocks: whatever else the machine does meanwhile falls on every command alike.
    rounds = [{name: run_ms(code) for name, code in COMMANDS.items()} for _ in range(ROUNDS)]
    medians = {name: statistics.median(times[name] for times in rounds) for name in COMMANDS}
    bare = medians["python -c 'pass'"]
    for name, median in medians.items():
        print(f"{name:32} {median:7.1f} ms  ({median - bare:+.1f})")
    loaded = f"import labsupport, sys; print(*[n for n in {HEAVY!r} if n in sys.modules])"
    heavy = subprocess.check_output([sys.executable, "-P", "-c", loaded], text=True).split()
    print(f"heavy packages loaded: {', '.join(heavy) or 'none'}; limit {LIMIT_MS} ms; median of {ROUNDS} rounds")
    return 1 if heavy or medians["import labsupport"] - bare > LIMIT_MS else 0


if __name__ == "__main__":
    sys.exit(main())
