"""Lesson 06, the axis that vanished: means, deviations and a loss that lies."""

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

SETUP = "import numpy as np"


# -- center-rows -----------------------------------------------------------------------------------------------


def center_rows(x):
    return x - x.mean(axis=1, keepdims=True)


def drops_the_axis(x):
    return x - x.mean(axis=1)


def centers_the_columns(x):
    return x - x.mean(axis=0)


def one_mean_for_all(x):
    return x - x.mean()


def centers_in_place(x):
    x -= x.mean(axis=1, keepdims=True)
    return x


def fills_like_x(x):
    out = np.empty_like(x)
    out[...] = x - x.mean(axis=1, keepdims=True)
    return out


CENTER_ROWS = Exercise(
    id="broadcasting/center-rows",
    kind="function",
    task="Return x with each row's own mean subtracted, x unchanged.",
    names=("center_rows",),
    setup=SETUP,
    reference=center_rows,
    cases=(
        Case("two rows of two, the square trap", lambda rng: (np.array([[0.0, 2.0], [10.0, 20.0]]),)),
        Case("three rows of five", lambda rng: (rng.normal(10, 3, (3, 5)),)),
        Case("whole numbers, int64", lambda rng: (rng.permutation(12).reshape(3, 4),)),
        Case("float32 in, float32 out", lambda rng: (rng.normal(0, 1, (4, 3)).astype(np.float32),)),
        Case("a transposed view", lambda rng: (rng.normal(0, 1, (2, 6)).T,)),
    ),
    misconceptions=(
        Misconception(
            id="drops-the-reduced-axis",
            specimen=drops_the_axis,
            says="Your means have shape (rows,), which lines up with the columns. A square table hides it: "
            "row means leave from columns.",
            next="Keep the reduced axis as a 1, so that the means stand in a column.",
        ),
        Misconception(
            id="centers-the-columns",
            specimen=centers_the_columns,
            says="Your columns have mean zero, your rows do not: the axis you name is the one that disappears.",
            next="To get one mean per row, let the column axis disappear.",
        ),
        Misconception(
            id="one-mean-for-all",
            specimen=one_mean_for_all,
            says="You subtract one mean, of the whole table. Each row must lose its own.",
            next="Ask mean for one number per row; look at the shape it returns.",
        ),
        Misconception(
            id="changes-the-input",
            specimen=centers_in_place,
            says="Your rows are centred, but so is the caller's array: `-=` writes into x, and x is not yours.",
            next="Build a new array from x instead.",
        ),
        Misconception(
            id="keeps-an-integer-dtype",
            specimen=fills_like_x,
            says="You store the result in an array with x's dtype. For whole numbers the fractions are cut off.",
            next="Return what the subtraction gives; its dtype is already right.",
        ),
    ),
    hints=(
        "Print x.mean(axis=1).shape and line it up with x.shape from the right. Which axis does it meet?",
        "Reductions take keepdims=True: the reduced axis stays, with size 1.",
    ),
    core=True,
    level=2,
    minutes=5,
    source="https://numpy.org/doc/stable/reference/generated/numpy.mean.html (read 2026-11)",
)


# -- standardize -----------------------------------------------------------------------------------------------


def standardize(x):
    constant = x.max(axis=0) == x.min(axis=0)  # asked of the values: the deviation of six times 0.1 is not exactly 0
    scaled = (x - x.mean(axis=0)) / np.where(constant, 1, x.std(axis=0))
    return np.where(constant, 0.0, scaled)


def one_scale_for_all(x):
    return (x - x.mean()) / x.std()


def each_sample_alone(x):
    spread = x.std(axis=1, keepdims=True)
    return (x - x.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)


def divides_by_zero(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def sample_deviation(x):
    spread = x.std(axis=0, ddof=1)
    return (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)


def trusts_a_zero_deviation(x):
    spread = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)


def scales_without_centring(x):
    spread = x.std(axis=0)
    return x / np.where(spread > 0, spread, 1)


def adds_epsilon(x):
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-8)


def divides_by_variance(x):
    spread = x.var(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)


def with_constants(features, values):
    """Return a case's `make`: six samples, of which the last features are constant, one for each of `values`."""

    def make(rng):
        x = rng.normal(50, 10, (6, features))
        x[:, features - len(values) :] = values
        return (x,)

    return make


STANDARDIZE = Exercise(
    id="broadcasting/standardize",
    kind="function",
    task="Scale every feature to mean 0 and standard deviation 1, x unchanged; a constant feature becomes 0.",
    names=("standardize",),
    setup=SETUP,
    reference=standardize,
    cases=(
        Case("six samples, three features", lambda rng: (rng.normal((0, 50, -3), (1, 10, 0.1), (6, 3)),)),
        Case("two of four features never change", with_constants(4, (7.0, 0.0))),
        Case("a feature that is 0.1 every time", with_constants(3, (0.1,))),
        Case("a feature in metres that varies by nanometres", lambda rng: (5e-7 + 1e-9 * rng.normal(0, 1, (5, 1)),)),
        Case("pixels as uint8", lambda rng: (rng.permutation(20).astype(np.uint8).reshape(5, 4),)),
    ),
    misconceptions=(
        Misconception(
            id="one-scale-for-all",
            specimen=one_scale_for_all,
            says="You use one mean and one deviation for the whole table, so a feature in large units "
            "drowns the others.",
            next="Reduce over the samples only; expect one number per feature.",
        ),
        Misconception(
            id="standardizes-samples",
            specimen=each_sample_alone,
            says="You scale each row by itself. Rows are samples here, and their features have different units.",
            next="Let axis 0 disappear: mean and deviation then have shape (features,).",
        ),
        Misconception(
            id="divides-by-zero",
            specimen=divides_by_zero,
            says="A feature that never changes has deviation 0, and 0 / 0 is NaN. One such column poisons "
            "every later sum.",
            next="Find the features that never change, and divide those by 1.",
        ),
        Misconception(
            id="trusts-a-zero-deviation",
            specimen=trusts_a_zero_deviation,
            says="Six times 0.1 has a mean that is not quite 0.1, and a deviation of about 1e-17 instead of 0. You "
            "divide one rounding error by another and get 1.",
            next="Ask the values whether they change, not their deviation: compare the largest with the smallest.",
        ),
        Misconception(
            id="scales-without-centring",
            specimen=scales_without_centring,
            says="Your features have deviation 1, but each keeps a mean of its own.",
            next="Subtract the mean of each feature before you divide.",
        ),
        Misconception(
            id="divides-by-n-minus-one",
            specimen=sample_deviation,
            says="You divide by n - 1 (ddof=1). Here the samples are the whole table, and the result must "
            "have deviation exactly 1.",
            next="Use NumPy's default, ddof=0. pandas has the other default, which is where the two part.",
        ),
        Misconception(
            id="divides-by-variance",
            specimen=divides_by_variance,
            says="You divide by the variance, which is in squared units. The result then has deviation 1 only "
            "where it had it before.",
            next="The root of the variance has the unit of the feature.",
        ),
        Misconception(
            id="adds-an-epsilon",
            specimen=adds_epsilon,
            says="You add 1e-8 to every deviation. Where a feature varies by less than that, as nanometres given in "
            "metres do, next to nothing is left of it.",
            next="Change only the features that never change.",
        ),
    ),
    hints=(
        "Means of shape (features,) already line up with the last axis of x: no keepdims is needed for axis 0.",
        "np.where(condition, a, b) chooses element by element, and broadcasts.",
        "A deviation is computed with rounding: for 0.1 every time it is tiny and not 0. The values themselves are "
        "exact.",
    ),
    core=False,
    level=2,
    minutes=6,
    source="https://scikit-learn.org/stable/modules/generated/sklearn.preprocessing.StandardScaler.html (read 2026-11)",
)


# -- silent-mse ------------------------------------------------------------------------------------------------


def mean_squared_error(predictions, targets):
    if predictions.size != targets.size:
        raise ValueError(f"{predictions.size} predictions for {targets.size} targets")
    return float(np.mean((predictions.ravel() - targets.ravel()) ** 2))


def still_every_pair(predictions, targets):
    difference = np.subtract(predictions, targets)
    return float(np.square(difference).mean())


def flattens_one_side(predictions, targets):
    return float(np.mean((predictions.squeeze() - targets) ** 2))


def targets_become_a_column(predictions, targets):
    return float(np.mean((predictions - targets[:, None]) ** 2))


def flattens_without_counting(predictions, targets):
    return float(np.mean((predictions.ravel() - targets.ravel()) ** 2))


def refuses_a_column(predictions, targets):
    if predictions.shape != targets.shape:
        raise ValueError(f"{predictions.shape} and {targets.shape}")
    return float(np.mean((predictions - targets) ** 2))


def adds_the_squares_up(predictions, targets):
    return float(np.sum((predictions.ravel() - targets.ravel()) ** 2))


def takes_the_root(predictions, targets):
    return float(np.sqrt(np.mean((predictions.ravel() - targets.ravel()) ** 2)))


def keeps_the_diagonal(predictions, targets):
    if predictions.size != targets.size:
        raise ValueError(f"{predictions.size} predictions for {targets.size} targets")
    table = predictions.reshape(-1, 1) - targets.reshape(1, -1)
    return float(np.mean(np.diag(table) ** 2))


def scores(n, predicted, wanted):
    """Return a case's `make`: n predictions and n targets of these shapes."""
    return lambda rng: (rng.normal(5, 2, n).reshape(predicted), rng.normal(5, 2, n).reshape(wanted))


SILENT_MSE = Exercise(
    id="broadcasting/silent-mse",
    kind="debug",
    task="Repair a mean squared error that compares every prediction with every target; inputs unchanged.",
    names=("mean_squared_error",),
    setup=SETUP,
    reference=mean_squared_error,
    cases=(
        Case(
            "perfect predictions 1, 2, 3 as a column",
            lambda rng: (np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 3.0])),
        ),
        Case("predictions (5, 1), targets (5,)", scores(5, (5, 1), (5,))),
        Case("predictions (5,), targets (5,)", scores(5, (5,), (5,))),
        Case("predictions (4,), targets (4, 1)", scores(4, (4,), (4, 1))),
        Case("predictions (4, 1), targets (4, 1)", scores(4, (4, 1), (4, 1))),
        Case("a single sample", scores(1, (1, 1), (1,))),
        Case(
            "1 prediction for 5 targets",
            lambda rng: (rng.normal(5, 2, (1, 1)), rng.normal(5, 2, 5)),
            raises="ValueError",
        ),
        Case(
            "4 predictions for 5 targets",
            lambda rng: (rng.normal(5, 2, (4, 1)), rng.normal(5, 2, 5)),
            raises="ValueError",
        ),
        Case("1,000 samples within 200,000 bytes", scores(1000, (1000, 1), (1000,))),
    ),
    probe=Probe("call", {"max_allocated": 200_000}),
    misconceptions=(
        Misconception(
            id="one-for-all",
            specimen=flattens_without_counting,
            says="One prediction for five targets passes: a single element stretches without a word, and "
            "the score looks plausible.",
            next="Compare the two sizes first and raise ValueError when they differ.",
        ),
        # Before the next one, which it equals wherever it is wrong.
        Misconception(
            id="flattens-one-side",
            specimen=flattens_one_side,
            says="You change the shape of the predictions only. When the targets are the column, all pairs are back.",
            next="Give both arrays the same one axis before you subtract.",
        ),
        Misconception(
            id="still-every-pair",
            specimen=still_every_pair,
            says="A column against a vector still gives a square table: each prediction meets every target, "
            "so perfect scores 4/3.",
            next="Print (predictions - targets).shape inside your function.",
        ),
        Misconception(
            id="always-adds-an-axis",
            specimen=targets_become_a_column,
            says="You turn the targets into a column whatever the predictions look like. For two plain "
            "vectors that creates the very table.",
            next="Bring both to one known shape, instead of repairing the one case you saw.",
        ),
        Misconception(
            id="refuses-a-column",
            specimen=refuses_a_column,
            says="You refuse (n, 1) against (n,), which this contract calls the same n samples. Only a "
            "different number of samples is an error.",
            next="Compare sizes, not shapes, then flatten.",
        ),
        Misconception(
            id="keeps-the-diagonal",
            specimen=keeps_the_diagonal,
            says="You pick the diagonal out of a table of all pairs: a thousand samples cost 8,000,000 bytes.",
            next="Arrange that only matching samples meet; the table never needs to exist.",
        ),
        Misconception(
            id="adds-the-squares-up",
            specimen=adds_the_squares_up,
            says="You return the sum of the squared differences. It grows with the number of samples; the mean does "
            "not.",
            next="Divide by n, or let NumPy take the mean.",
        ),
        Misconception(
            id="takes-the-root",
            specimen=takes_the_root,
            says="That is the root of the mean squared error. The task asks for the mean squared error itself.",
            next="Leave the last step out.",
        ),
    ),
    hints=(
        "Line (n, 1) and (n,) up from the right: what shape does their difference have?",
        "Two guards are needed: the same number of samples, and the same single axis.",
    ),
    core=True,
    level=2,
    minutes=6,
    source="https://github.com/pytorch/pytorch/pull/18349 (read 2026-11)",
)
