"""What a rank of a distributed job needs, and those who watch one: its calls, who waits for whom, what was sent.

`recorder.serve(path)` in a rank keeps an account of its calls and answers from outside; `recorder.ask(path)` reads both
from another process, also while the rank is blocked or after it died. `waiting.explain` says who waits for whom.

Measured with torch 2.13.0 (CPU wheel, gloo), each held by a test in tests/torchrun:

- The flight recorder is on by default. It has every collective of gloo, those of DDP's reducer included, but neither
  send and receive nor `monitored_barrier`; reduce-scatter appears as all_reduce, an object collective as two
  collectives, and its JSON names no line. The account (`ledger`) has those: what the program called, where, with whom.
- torch's worker server answers `fr_trace_json` in about a millisecond while its process is blocked in C++, also with
  the interpreter's lock held; its `dump_traceback` needs that lock.
- TORCH_DISTRIBUTED_DEBUG=DETAIL makes a second group per group, whose entries do not count as the program's, takes the
  groups' names away from the recorder, and keeps a waiting collective out of it until every rank is there.
  **With it, constructing DistributedDataParallel ends in SIGSEGV** (plain `torchrun` too); INFO and OFF are sound. The
  account makes DETAIL unnecessary: a mismatch is found from both ranks' calls.
"""
