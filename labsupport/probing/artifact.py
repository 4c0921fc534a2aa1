"""The probe of answers that write a file, a store or a folder: called here, looked at in a clean process."""

from labsupport.probing import files, inspecting

__all__ = ["run"]


def run(subject, inputs, options, limits):
    """Return what an inspector sees of what the answer wrote.

    Options: those of `files.run`, and "inspect": "module:function" in `labsupport.probing.inspectors`, called as
    `function(folder, *inputs)` in a process that never ran the answer.
    """
    made = files.run(subject, inputs, options, limits)
    if made.raised or made.over:
        return made
    return inspecting.merged(made, inspecting.away(made.value, inputs, options, limits.call_s))
