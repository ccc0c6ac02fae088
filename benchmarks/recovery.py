"""``recovery`` as a module, so that benchmarks run the checkout that they stand in."""

from attribution.cli import main

if __name__ == "__main__":
    main()
