"""Write altitude.h5: the file as pvlib publishes it, byte for byte.

python data/make/altitude.py OUT [--wheels FOLDER]
"""

from wheels import arguments, read_member, store, wheel_of


def main():
    args = arguments(__doc__)
    wheel = wheel_of("pvlib", "0.16.1", args.wheels)
    store(args.out, "altitude.h5", read_member(wheel, "pvlib/data/Altitude.h5"))


if __name__ == "__main__":
    main()
