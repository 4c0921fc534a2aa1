"""What a cell and its line ask for, as the `Request` of a job."""

from labsupport.torchrun.nouns import Request

__all__ = ["request_of"]


def request_of(options, program, cell, shell):
    """Return the `Request` of a cell's `program`; what it pushes is taken from the shell's names now."""
    pushed = None
    if options.push:
        from labsupport.torchrun.pushing import pack_names

        pushed = pack_names(options.push, shell.user_ns, cell=cell, history=list(shell.user_ns.get("In", [])))
    return Request(
        source=program,
        flags=options.flags,
        arguments=options.arguments,
        mode="cold" if options.cold else "auto",
        env=dict(options.env),
        returns=options.returns,
        pushed=pushed,
        kills=options.kills,
        trace=options.trace,
        timeout_s=options.timeout_s,
        keep=options.keep,
    )
