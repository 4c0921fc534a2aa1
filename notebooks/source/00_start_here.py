# %% [markdown]
# # Take one lap through a lesson
# Everything a lesson can ask of you, once, on small questions.
#
# **15 minutes (core), any laptop.** You will be able to
# run a lesson, answer and check its three kinds of exercise, and get help or undo.
# You need: Python functions and slicing. Not here: anything hard.

# %% [markdown]
# ## Run
# Click into the next cell and press Shift+Enter: it runs, and the selection moves on. Go from top to bottom,
# because a cell may use what an earlier one made.

# %%
from labsupport import lesson, progress

lab = lesson("start_here")
lab.machine()

# %% [markdown]
# That is the machine the course found. Every lesson runs without an accelerator; where one would help, it says so.
#
# Now some data: handwritten digits, each 8 by 8 pixels. They come with the course; nothing is downloaded.

# %%
digits = lab.data("digits")
digits.shape, digits.dtype

# %% [markdown]
# ## Predict
# The course asks before it shows. A model is to see all of these images, in order, in batches of 64.
# How many batches is that?
#
# Put a number in place of `...` and run the cell, then run the check below it. The check keeps no list of answers:
# it cuts the images into batches and counts.

# %%
# exercise: start-here/predict-batches
n_batches = ...

# %%
lab.check("predict-batches")

# %% [markdown]
# A check begins with its result. `not yet`: nothing is filled in. `passed`. `wrong`: with a reason, about *your*
# answer. `crashed`: your code raised an error, and the line is shown. A wrong prediction costs nothing, so guess.
#
# ## See
# Figures are there to be operated. This one shows how a corner of the first digit lies in memory: click a value of
# the grid and find the byte it is read from, change a stride and look again. The lesson on strides explains it.

# %%
lab.show("strides", digits[0, :3, :6])

# %% [markdown]
# ## Four words, kept apart
# These words are often swapped. In this course each means one thing:
#
# | word | what it means here |
# | --- | --- |
# | **batch** | the samples that one step works on together; made for the step, stored nowhere |
# | **block** | a rectangular part of an array in memory: some rows, some columns |
# | **chunk** | the smallest part of a *stored* array that is read, written and compressed as a whole |
# | **shard** | a part that can live elsewhere: one file holding many chunks, one process's share of a model |

# %%
batch = digits[:64]  # (image, row, column)
block = digits[0, 2:6, 3:5]  # (row, column)
batch.shape, block.shape

# %% [markdown]
# ## Your turn: `batch_shape`
# A task that asks for code comes with a contract:
#
# - **in**: `samples`, an array whose first axis counts samples; `batch_rows`, from 1 to `len(samples)`
# - **out**: the shape of one batch of `batch_rows` samples, a tuple of whole numbers
# - **done when** it is right for any number of axes
#
# Replace the `raise` line, run the cell, and check.


# %%
# exercise: start-here/return-shape
def batch_shape(samples, batch_rows):
    """Return the shape of one batch of `batch_rows` samples, as a tuple."""
    raise NotImplementedError


# %%
lab.check("return-shape")

# %% [markdown]
# Stuck? Add a cell (press Esc, then B) and run `lab.hint("return-shape")`; each run gives one more hint.
# `lab.solution("return-shape")` opens once you have passed, or once you have tried and read the hints.
#
# ## Mend
# Sometimes the code is given, it runs, and it is wrong. The function below uses only full batches. For our digits:

# %%
images_used = len(digits) // 64 * 64
len(digits) - images_used  # images that are in no batch

# %% [markdown]
# Five digits are never seen, and nothing says so. Change the function so that the samples left over come as a
# shorter last batch.
#
# - **in**: `samples`, as above, possibly none; `batch_rows`, at least 1
# - **out**: a list of batches, in order; all but the last have `batch_rows` samples
# - **done when** every sample is in exactly one batch, and no batch is empty


# %%
# exercise: start-here/mend-batches
def batches(samples, batch_rows):
    """Return the list of consecutive batches of `samples`, the last one possibly shorter."""
    n_batches = len(samples) // batch_rows
    return [samples[i * batch_rows : (i + 1) * batch_rows] for i in range(n_batches)]


# %%
lab.check("mend-batches")

# %% [markdown]
# ## Once more, with fresh numbers
# Some exercises have a drill. Run the cell to get a question, put your answer in place of `...`, run it again.
# The questions never end, and they do not count towards your progress.

# %%
lab.drill("predict-batches", ...)

# %% [markdown]
# ## Undo and update
# Your copy of each lesson lies in `work/`, and it is yours: write in it, add cells. These commands run in a terminal
# in the course's folder; File, New, Terminal opens one there. On Windows, write `py lab` for `./lab`.
#
# - `./lab reset start-here/mend-batches` brings one exercise back as shipped and keeps your version as a backup
# - `./lab update` brings in a newer release of the course; your answers and added cells stay
# - `./lab doctor` looks at the machine and says what to do if something is missing

# %% [markdown]
# ## What is recorded
# Each check, hint, solution and drill answer adds a line to `work/.lab/journal.jsonl`, on this machine: when, which
# exercise, what came out. Your code is not in it, and nothing is sent anywhere. Progress is counted from that file.

# %%
progress()

# %% [markdown]
# ## Close
# You can now run a lesson, predict, answer, mend, ask for a hint and start over.
#
# Production code makes the last batch a setting. PyTorch's `DataLoader` keeps the short one unless you pass
# `drop_last=True`; then every step has the same shape and, when samples are shuffled, each epoch leaves out others.
# Its `BatchSampler` counts `(len(self.sampler) + self.batch_size - 1) // self.batch_size`: a division that rounds up.
#
# Sources: PyTorch 2.13.0, the [documentation of `DataLoader`](https://docs.pytorch.org/docs/stable/data.html), for
# `drop_last`, and the source of `BatchSampler.__len__`, for the count (read 2026-11). The digits: `data/README.md`.
#
# Next: [strides](05_strides.ipynb), or back to the [overview](home.ipynb).
