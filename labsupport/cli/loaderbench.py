"""`lab loaderbench MODULE:FACTORY`: measure the loading of your own dataset."""

from labsupport.loaderbench.command import add_arguments, run

__all__ = ["add_arguments", "run"]
