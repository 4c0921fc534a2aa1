"""The words after %%torchrun, and the cell as a program of its own."""

import argparse
import subprocess
import sys

import pytest

from labsupport.errors import LabError, UsageError
from labsupport.torchrun import checking, options, script
from labsupport.torchrun.options import Options, parse, torchrun_flags


def test_flags_are_sorted_into_ours_and_torchruns():
    found = parse("--nproc 4 --max-restarts=1 --return losses,weight --kill rank=2@step=12 --env A=b=c --timeout 30")
    assert found.flags == ("--nproc-per-node", "4", "--max-restarts", "1")
    assert found.returns == ("losses", "weight")
    assert found.kills == ("rank=2@step=12",)
    assert found.env == (("A", "b=c"),)
    assert found.timeout_s == 30.0


def test_nothing_is_a_job_of_one_rank_as_in_torchrun():
    assert parse("") == Options()


def test_underscores_become_hyphens():
    assert parse("--nproc_per_node 2").flags == ("--nproc-per-node", "2")


def test_arguments_of_the_program_follow_two_hyphens():
    found = parse("--nproc 2 -- --lr 0.1 'two words' --nproc 9")
    assert found.flags == ("--nproc-per-node", "2")
    assert found.arguments == ("--lr", "0.1", "two words", "--nproc", "9")


def test_flags_that_can_be_repeated():
    assert parse("--kill rank=1 --kill node=1@step=3").kills == ("rank=1@step=10", "node=1@step=3")
    assert parse("--return a --return b@all").returns == ("a", "b@all")
    with pytest.raises(UsageError, match="--save is given twice"):
        parse("--save a.py --save b.py")


@pytest.mark.parametrize(
    "line, said",
    [
        ("--nprc 4", "write --nproc"),
        ("--frobnicate", "--help"),
        ("--bogus", "--help lists the flags"),
        ("--verbose", "--help lists the flags"),
        ("--retrun a", "write --return"),
        ("--max 3", "torchrun itself calls this ambiguous: --max-restarts, --max_restarts"),
        ("--max 3", "write --max-restarts"),
        ("--col", "write --cold"),
        ("train.py", "-- train.py"),
        ("--save", "write --save FILE"),
        ("--cold=yes", "takes no value"),
        ("-m package.module", "the cell"),
        ("--no-python", "the cell"),
        ("-r3", "write -r 3"),
        ("--env THREE", "NAME=VALUE"),
        ("--timeout soon", "seconds above 0"),
        ("--timeout 0", "seconds above 0"),
        ("--timeout nan", "seconds above 0"),
        ("--return a.b", "names of variables"),
        ("--push 1+1", "names of the notebook"),
        ("--kill everybody", "write for example --kill rank=2@step=12"),
        ("--save 'a", "quotation mark"),
    ],
)
def test_a_mistake_is_told_with_what_to_write(line, said):
    with pytest.raises(UsageError) as caught:
        parse(line)
    assert said in str(caught.value)


def test_an_abbreviation_that_torchrun_takes_is_taken():
    assert parse("--standal").flags == ("--standalone",)


def test_our_reading_of_torchruns_flags_is_torchruns():
    """What is read from its source without importing torch is what its parser holds."""
    from torch.distributed.run import get_args_parser

    actions = [a for a in get_args_parser()._actions if a.option_strings]
    truth = {name: None if a.nargs == 0 else "VALUE" for a in actions for name in a.option_strings}
    truth.pop("--help")
    assert torchrun_flags() == truth
    usual = {name: truth[name] for name in options._USUAL}
    assert usual == options._USUAL


def test_no_flag_of_ours_is_one_of_torchruns():
    assert not set(options.OWN) & set(torchrun_flags())


def test_torchrun_calls_our_alias_ambiguous_by_itself():
    """The reason for `--nproc`; should this fail, a newer argparse takes it, and the alias still does no harm."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--nproc-per-node", "--nproc_per_node")
    if sys.version_info < (3, 12):
        with pytest.raises((argparse.ArgumentError, SystemExit)):
            parser.parse_args(["--nproc", "2"])


def test_reading_the_flags_loads_no_torch():
    program = (
        "import sys; from labsupport.torchrun.options import parse; parse('--nproc 2'); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_help_names_every_flag():
    text = options.help_text()
    assert all(name in text for name in options.OWN)
    assert "--max-restarts" in text


# -- the program ---------------------------------------------------------------------------------------------------


def test_lines_of_the_program_are_the_lines_of_the_cell():
    assert script.as_script("--nproc 2", "a = 1\nb = 2\n").splitlines()[1:] == ["a = 1", "b = 2"]
    assert script.as_script("", "a = 1") == "# %%torchrun\na = 1\n"


def test_save_writes_the_program_and_writes_it_again(tmp_path):
    path = script.save(tmp_path / "train.py", "a = 1\n")
    assert path.read_text(encoding="utf-8").startswith("a = 1\n")
    script.save(path, "a = 2\n")
    assert path.read_text(encoding="utf-8").startswith("a = 2\n")
    assert [file.name for file in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.parametrize("change", ["mine = 1\n", "\nmore = 2\n", ""])
def test_save_leaves_alone_what_it_did_not_write(tmp_path, change):
    path = tmp_path / "train.py"
    if change == "mine = 1\n":
        path.write_text(change, encoding="utf-8")
    else:
        script.save(path, "a = 1\n")
        with path.open("a", encoding="utf-8") as file:
            file.write(change or "# one more line\n")
    before = path.read_bytes()
    with pytest.raises(LabError, match="was not written by"):
        script.save(path, "a = 2\n")
    assert path.read_bytes() == before


def test_save_says_why_it_cannot(tmp_path):
    with pytest.raises(LabError, match="cannot be written"):
        script.save(tmp_path / "no" / "folder" / "train.py", "a = 1\n")


def test_the_shell_command_of_one_node():
    assert script.shell_command(parse("--nproc 4 --env A='b c' -- --lr 0.1")) == (
        "A='b c' torchrun --standalone --nproc-per-node 4 train.py --lr 0.1"
    )


def test_the_shell_command_with_restarts_sets_what_gloo_needs():
    command = script.shell_command(parse("--nproc 2 --max-restarts 1"))
    assert command.startswith("TORCH_GLOO_LAZY_INIT=1 torchrun ")


def test_the_shell_command_of_two_nodes_is_two_commands():
    lines = script.shell_command(parse("--nnodes 2 --nproc 2")).splitlines()
    assert len(lines) == 2
    assert lines[0] == lines[1] + " &"
    assert "--rdzv-backend c10d --rdzv-endpoint 127.0.0.1:29500 --local-addr 127.0.0.1" in lines[1]


def test_flags_without_a_counterpart_are_named():
    assert script.unsaved_flags(parse("--nproc 2 --return a --kill rank=1 --may-fail --timeout 3")) == [
        "--return", "--kill", "--may-fail", "--timeout",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line, said",
    [
        ("--return a@9", "there is no rank 9"),
        ("--nproc 4 --return a@4", "ranks are 0 to 3"),
        ("--kill rank=9", "there is no rank 9"),
        ("--nnodes 2 --nproc 2 --kill node=2", "there is no node 2"),
        ("--max-restarts -1", "below 0"),
    ],
)
def test_what_there_will_not_be_is_refused_before_a_rank_starts(line, said):
    options = parse(line)
    with pytest.raises(UsageError) as caught:
        checking.check_numbers(options, *checking.asked_world(options))
    assert said in str(caught.value)


def test_what_there_will_be_is_taken():
    options = parse("--nnodes 1:2 --nproc 2 --return a@3,b@all --kill rank=3 --kill node=1 --max-restarts 1")
    checking.check_numbers(options, *checking.asked_world(options))
    assert checking.asked_world(parse("--nproc auto")) is None


def test_what_forked_ranks_do_not_take_is_told():
    line = "--env PYTHONHASHSEED=1 --env LD_PRELOAD=x --env MINE=1 --local-ranks-filter 0"
    told = " ".join(checking.idle_words(parse(line)))
    assert "PYTHONHASHSEED, LD_PRELOAD are read" in told and "MINE" not in told and "--local-ranks-filter" in told
    assert checking.idle_words(parse(line + " --cold")) == []
