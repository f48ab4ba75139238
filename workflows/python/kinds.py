"""A step of kinds.json, in Python: draws birds on a picture that comes in a slot, in the memory of that slot, and hands it on."""

from monohull import slots

BIRDS = {1: 30, 2: 34, 3: 27}


def main():
    picture = slots.get("sea", writable=True)
    width = next(at for at, byte in enumerate(picture) if byte == ord("\n")) + 1
    for line, column in BIRDS.items():
        at = line * width + column
        picture[at:at + 2] = b"vv"
    print(f"{len(BIRDS)} birds in {len(picture) // width} lines")
    # The view is the slot's memory, so the next step gets that.
    slots.put("birds", picture)


main()
