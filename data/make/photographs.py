"""Write the four pictures, byte for byte as their packages publish them.

python data/make/photographs.py OUT [--wheels FOLDER]
"""

from wheels import arguments, read_member, store, wheel_of

MEMBERS = {
    "cell.png": ("scikit-image", "0.26.0", "skimage/data/cell.png"),
    "retina.jpg": ("scikit-image", "0.26.0", "skimage/data/retina.jpg"),
    "china.jpg": ("scikit-learn", "1.9.0", "sklearn/datasets/images/china.jpg"),
    "flower.jpg": ("scikit-learn", "1.9.0", "sklearn/datasets/images/flower.jpg"),
}


def main():
    args = arguments(__doc__)
    for name, (package, version, member) in MEMBERS.items():
        store(args.out, name, read_member(wheel_of(package, version, args.wheels), member))


if __name__ == "__main__":
    main()
