"""Lesson 06, tables: masks and classes."""

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

RULES = "https://numpy.org/doc/stable/user/basics.broadcasting.html (read 2026-11)"
SETUP = "import numpy as np"


# -- keep-features ---------------------------------------------------------------------------------------------


def keep_features(x, keep):
    return x[:, keep]


def still_selects_rows(x, keep):
    return x[keep, :]


def multiplies_by_the_mask(x, keep):
    return x * keep


def mask_of_every_element(x, keep):
    return x[np.broadcast_to(keep, x.shape)]


def indexes_with_a_tuple(x, keep):
    return x[:, np.where(keep)]


def squeezes_the_result(x, keep):
    return x[:, keep].squeeze()


def table_and_mask(rows, keep):
    """Return a case's `make`: a table with one column per entry of `keep`."""
    return lambda rng: (rng.normal(0, 1, (rows, len(keep))), np.array(keep, dtype=bool))


def counts_and_mask(rng):
    """Return a table of whole numbers whose second column is 0 throughout, and a mask that keeps it."""
    x = 1 + rng.permutation(20).reshape(5, 4)
    x[:, 1] = 0
    return x, np.array([True, True, False, True])


KEEP_FEATURES = Exercise(
    id="broadcasting/keep-features",
    kind="debug",
    task="Repair a selection of features by a mask that selects samples instead: same samples, same dtype.",
    names=("keep_features",),
    setup=SETUP,
    reference=keep_features,
    cases=(
        Case("four samples, four features: the trap", table_and_mask(4, (1, 0, 1, 0))),
        Case("three samples, four features", table_and_mask(3, (0, 1, 1, 1))),
        Case("whole numbers; a feature that is always 0 is kept", counts_and_mask),
        Case("one feature kept", table_and_mask(3, (0, 0, 1, 0))),
        Case("one sample", table_and_mask(1, (1, 0, 1))),
        Case("nothing kept", table_and_mask(2, (0, 0, 0))),
    ),
    misconceptions=(
        Misconception(
            id="still-selects-rows",
            specimen=still_selects_rows,
            says="The mask still picks along the first axis: samples. With as many samples as features "
            "NumPy does not object.",
            next="A mask is not broadcast: put it in the position of the axis it describes.",
        ),
        Misconception(
            id="multiplies-by-the-mask",
            specimen=multiplies_by_the_mask,
            says="The unwanted features are still in your table, set to zero. The task is to leave them out.",
            next="Your result has as many columns as `x`; it should have as many as `keep` has True.",
        ),
        Misconception(
            id="mask-of-every-element",
            specimen=mask_of_every_element,
            says="Your result has a single axis: when every element is chosen for itself, NumPy cannot know that the "
            "rest forms a table.",
            next="Use the mask of length (features,) as it is, on the last axis only.",
        ),
        Misconception(
            id="indexes-with-a-tuple",
            specimen=indexes_with_a_tuple,
            says="Your result has an axis too many, in the middle: the columns were named by an index with two axes, "
            "such as a tuple around an array.",
            next="The mask is an index already.",
        ),
        Misconception(
            id="squeezes-the-result",
            specimen=squeezes_the_result,
            says="Your result has lost an axis of size 1. A table with one feature, or with one sample, is still a "
            "table with two axes.",
            next="Look at the shape you return when a single feature is kept.",
        ),
    ),
    hints=("x[mask] means x[mask, :]. Where does a colon have to go so that the mask meets the columns?",),
    core=False,
    level=1,
    minutes=3,
    source="https://numpy.org/doc/stable/user/basics.indexing.html#boolean-array-indexing (read 2026-11)",
)


# -- one-hot ---------------------------------------------------------------------------------------------------


def one_hot(labels, n_classes):
    return (labels[:, np.newaxis] == np.arange(n_classes)).astype(np.float32)


def fills_in_a_loop(labels, n_classes):
    result = np.zeros((len(labels), n_classes), dtype=np.float32)
    for i, label in enumerate(labels):
        result[i, label] = 1
    return result


def classes_down_the_rows(labels, n_classes):
    return (labels == np.arange(n_classes)[:, np.newaxis]).astype(np.float32)


def counts_classes_itself(labels, n_classes):
    return (labels[:, np.newaxis] == np.arange(labels.max() + 1)).astype(np.float32)


def writes_whole_columns(labels, n_classes):
    result = np.zeros((len(labels), n_classes), dtype=np.float32)
    result[:, labels] = 1
    return result


def stacks_the_rows(labels, n_classes):
    return np.array([np.eye(n_classes)[label] for label in labels], dtype=np.float32)


def float64_by_default(labels, n_classes):
    return np.eye(n_classes)[labels]


def counts_from_one(labels, n_classes):
    return (labels[:, np.newaxis] == np.arange(1, n_classes + 1)).astype(np.float32)


def leaves_true_and_false(labels, n_classes):
    return labels[:, np.newaxis] == np.arange(n_classes)


ONE_HOT = Exercise(
    id="broadcasting/one-hot",
    kind="function",
    task="Return one row per label, float32, 1 at the label and 0 elsewhere, without a Python loop.",
    names=("one_hot",),
    setup=SETUP,
    reference=one_hot,
    cases=(
        Case("four labels, three classes", lambda rng: (rng.permutation([0, 2, 1, 2]), 3)),
        Case("the highest class does not occur", lambda rng: (rng.permutation([0, 1, 1]), 5)),
        Case("no labels", lambda rng: (np.zeros(0, dtype=np.int64), 4)),
        Case("100 labels stored as uint8", lambda rng: (rng.permutation(100).astype(np.uint8) % np.uint8(10), 10)),
    ),
    probe=Probe("call", {"max_steps": 30}),
    misconceptions=(
        Misconception(
            id="fills-in-a-loop",
            specimen=fills_in_a_loop,
            says="Python writes the ones one by one: 100 labels, 100 turns of a loop.",
            next="Compare a column of labels with a row of classes; one comparison does all pairs.",
        ),
        Misconception(
            id="classes-down-the-rows",
            specimen=classes_down_the_rows,
            says="Your table has one row per class. The samples must run down, the classes across.",
            next="Give the new axis to the labels, not to the classes.",
        ),
        Misconception(
            id="counts-classes-itself",
            specimen=counts_classes_itself,
            says="You take the number of classes from the largest label seen. A batch without the last "
            "class gets too few columns.",
            next="Use n_classes: the number of columns must not depend on the batch.",
        ),
        Misconception(
            id="writes-whole-columns",
            specimen=writes_whole_columns,
            says="result[:, labels] writes every row of those columns. A colon means all rows, not the row that "
            "belongs to the label.",
            next="Compare instead of writing, or name the row of each label too.",
        ),
        Misconception(
            id="stacks-the-rows",
            specimen=stacks_the_rows,
            says="Without labels your result is (0,): it has lost the axis of the classes, as an array made from an "
            "empty list does.",
            next="Let broadcasting make the table: zero labels then give (0, n_classes).",
        ),
        Misconception(
            id="float64-by-default",
            specimen=float64_by_default,
            says="Your ones are float64, the default of np.eye, np.zeros and np.ones: twice the bytes the "
            "contract asks for.",
            next="Name the dtype when you create or convert the result.",
        ),
        Misconception(
            id="counts-from-one",
            specimen=counts_from_one,
            says="Your columns stand for the classes 1 to n_classes. Labels begin at 0: a 0 gets no column, and the "
            "last column stays empty.",
            next="Column j belongs to label j.",
        ),
        Misconception(
            id="leaves-true-and-false",
            specimen=leaves_true_and_false,
            says="Your table holds True and False in the right places; the contract asks for 1 and 0 as float32, "
            "which a network can multiply by.",
            next="Convert the result at the end.",
        ),
    ),
    hints=(
        "A comparison broadcasts like a sum. Which two arrays give a (samples, classes) table of True and False?",
        "labels[:, np.newaxis] has shape (samples, 1); np.arange(n_classes) has shape (classes,).",
    ),
    core=False,
    level=2,
    minutes=5,
    source=RULES,
)
