"""That no file holds a control character or ends a script, and that pages and
JSON name what was called so."""
import sys

for path in sys.argv[1:]:
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    for c in text:
        if not (c.isprintable() or c in "\n\t"):
            sys.exit(f"{path}: expected printable text, got {c!r}")
    if not path.endswith(".txt") and "alert(2)" not in text:
        sys.exit(f"{path}: expected the module's name, got none")
    if path.endswith(".html") and "<script>alert" in text:
        sys.exit(f"{path}: expected no script of the model's, got one")
