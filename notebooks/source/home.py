# %% [markdown]
# # Welcome to the ML engineering lab
#
# A course in notebooks: you predict, run, answer and get told what is wrong with *your* answer. Figures are drawn from
# your own arrays, and costs are counted, not guessed.
#
# First time here? **[Take one lap through a lesson](00_start_here.ipynb)**; it needs a quarter of an hour.

# %% [markdown]
# ## Open today
#
# | | lesson | about | core |
# | --- | --- | --- | --- |
# | 00 | [start_here](00_start_here.ipynb) | how a lesson works | 15 minutes |
# | 05 | [strides](05_strides.ipynb) | memory, views and copies | 55 minutes |
# | 06 | [broadcasting](06_broadcasting.ipynb) | aligned shapes without copies | 55 minutes |
# | 09 | [autograd](09_autograd.ipynb) | graphs, gradients, saved tensors | 60 minutes |
# | 12 | [loading](12_loading.ipynb) | keep the device fed | 60 minutes |
# | 13 | [chunks](13_chunks.ipynb) | HDF5 and Zarr from the inside | 60 minutes |
# | 15 | [collectives](15_collectives.ipynb) | messages between ranks | 60 minutes |
# | 16 | [ddp](16_ddp.ipynb) | data parallel with torchrun cells | 60 minutes |

# %% [markdown]
# ## Where you are
#
# Run the next cell (click into it, then Shift+Enter). It reads your journal and says what is done.

# %%
from labsupport import progress

progress()

# %% [markdown]
# ## Planned
#
# These lessons are not written yet.
#
# | part | planned lessons |
# | --- | --- |
# | Python that holds up | 01 objects · 02 streams · 03 resources · 04 interfaces |
# | Arrays | 07 vectorizing |
# | Tensors and training | 08 tensors · 10 training |
# | Data | 11 datasets · 14 stores |
# | Many processes | 17 sharding |
# | Running it for real | 18 checkpoints · 19 tracking · 20 tuning · 21 serving · 22 capstone |

# %% [markdown]
# ## Good to know
#
# - Your work stays in `work/`; updating the course never overwrites an answer.
# - In a terminal in the course's folder, `./lab lessons` says the same as the cell above, `./lab doctor` looks at the
#   machine, `./lab --help` lists the rest. On Windows, write `py lab` for `./lab`.
# - Where the data come from, and their licences: `data/README.md` in the course's folder.
