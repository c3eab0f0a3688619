"""``python -m isocapsnet`` is the command line."""

from isocapsnet.cli import main

if __name__ == "__main__":
    main(prog_name="isocapsnet")
