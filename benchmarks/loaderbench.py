"""Three real sweeps side by side: photographs that are decoded, numbers that are in memory, a step that computes.

    python benchmarks/loaderbench.py [--seconds 30] [--repeat 5]

The first should be given workers, the second none, and of the third it should be said that the loader is not the
bottleneck. Times depend on the machine: on one that is busy with other work, or has one core, the first may differ.
"""

import argparse
import sys
import time

from labsupport.loaderbench import bench
from labsupport.loading import DecodedPhotos, Photos, Tiny


def computing(batch):
    """Keep a core busy for 40 ms, as a step of a model on the CPU does."""
    until = time.perf_counter() + 0.040
    while time.perf_counter() < until:
        pass


CASES = {
    "slow decode": (lambda: Photos(512, side=256), None, {"batch_size": 8}, "change"),
    "tiny, in memory": (lambda: Tiny(20_000), None, {"batch_size": 64}, "keep"),
    "compute-bound": (lambda: DecodedPhotos(512), computing, {"batch_size": 16}, "not the bottleneck"),
}


def main():
    """Print the reports and a table of all three; return 1 when one is not what its data ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30, help="roughly how long each of the three may take")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of every setting")
    args = parser.parse_args()
    reports = {}
    for name, (make, step, options, _) in CASES.items():
        reports[name] = bench(make(), step=step, seconds=args.seconds, repeat=args.repeat, **options)
        print(f"== {name}\n{reports[name].text()}\n", flush=True)
    return _told(reports)


def _told(reports):
    settings = list(dict.fromkeys(one.workers for report in reports.values() for one in report.samples))
    print(f"{'milliseconds per batch, median':<34}" + "".join(f"{name:>20}" for name in reports))
    for workers in sorted(settings):
        print(f"{f'{workers} workers':<34}" + "".join(f"{_plain(report, workers):>20}" for report in reports.values()))
    print(f"{'verdict':<34}" + "".join(f"{report.decision.verdict:>20}" for report in reports.values()))
    expected = [expected for *_, expected in CASES.values()]
    print(f"{'expected':<34}" + "".join(f"{one:>20}" for one in expected))
    return int([report.decision.verdict for report in reports.values()] != expected)


def _plain(report, workers):
    """Return the median of the first setting with so many workers."""
    for setting, samples in report.samples.items():
        if setting.workers == workers:
            times = sorted(sample.step_s for sample in samples)
            return f"{1000 * times[len(times) // 2]:.3g}"
    return "-"


if __name__ == "__main__":  # spawned workers import this file again
    sys.exit(main())
