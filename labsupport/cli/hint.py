"""lab hint ID: the next hint."""

from labsupport import catalog
from labsupport.journal import Journal
from labsupport.live import give_hint
from labsupport.places import command


def add_arguments(parser):
    parser.add_argument("exercise", help="an exercise id, for example strides/address-of")


def run(args):
    print(give_hint(catalog.find_exercise(args.exercise), Journal(), typed=command()))
    return 0
