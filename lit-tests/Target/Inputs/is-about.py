"""is-about.py A B RESERVED: fails unless A is within 5 % of B, without what is reserved in both."""
import sys

a, b, reserved = map(int, sys.argv[1:])
if not abs(a - b) <= 0.05 * (b - reserved):
    sys.exit(f"expected about {b - reserved}, got {a - reserved}")
