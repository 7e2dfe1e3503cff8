"""The memory of a run on a card beside its plan; exits 1 where they disagree (standard library only).

  memory.py WORK RANKS COMMAND..    a run of a million steps, with --metrics WORK/memory.jsonl; reads WORK/manifest.json,
                                    what its program's --describe prints

- The runtime's account of a rank names the arena and the memory of sums over ranks; both are the manifest's bytes, in the
  pages of 2 MiB that the driver maps.
- The account's sum is what nvidia-smi sees more of while one rank runs, within SLACK: it counts what the driver keeps for
  itself differently. Of several ranks, whose accounts see each other, both are printed.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

MIB = 1 << 20
PAGE = 2 * MIB
SLACK = 256 * MIB
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}


def used():
    """Bytes of all cards that are in use, or None without nvidia-smi."""
    if not shutil.which("nvidia-smi"):
        return None
    said = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], check=True,
                          capture_output=True, text=True).stdout
    return sum(int(line) for line in said.split()) * MIB


def mapped(size):
    return (size + PAGE - 1) // PAGE * PAGE


def observe(work, command):
    """(the runtime's account by name, used bytes before, used bytes after two steps)."""
    metrics, said = work / "memory.jsonl", work / "memory.txt"
    metrics.unlink(missing_ok=True)
    before = used()
    with said.open("w") as errors:
        run = subprocess.Popen(command, stdout=errors, stderr=errors)
        try:
            deadline = time.monotonic() + 30
            while run.poll() is None and not (metrics.exists() and metrics.read_text().count("\n") >= 2):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.2)
            stopped = run.poll()
            during = used()
        finally:
            run.terminate()
            try:
                run.wait(20)
            except subprocess.TimeoutExpired:
                run.kill()
                run.wait()
    text = said.read_text()
    if stopped is not None or not re.search(r"error: interrupted at step ([2-9]|\d\d+)\b", text):
        sys.exit(f"expected a run that is interrupted after 2 steps, got exit {run.returncode}:\n{text}")
    line = re.search(r"memory of the device: (.*)", text)
    if not line:
        sys.exit(f"expected the runtime's account of the device's memory, got\n{text}")
    print(line[0])
    account = {name: float(number) * UNITS[unit]
               for name, number, unit in re.findall(r"([a-z ]+?) ([\d.]+)(B|KiB|MiB|GiB)(?:, |$)", line[1])}
    return account, before, during


def main(work, ranks, *command):
    work = pathlib.Path(work)
    manifest = json.loads((work / "manifest.json").read_text())
    planned = {"arena": mapped(manifest["arena"]["bytes"]),
               "sums over ranks": sum(map(mapped, manifest["reduction_bytes"].values()))}
    account, before, during = observe(work, command)
    wrong = False
    for name, size in planned.items():
        off = account.get(name, 0) - size
        print(f"{name}: planned {size / MIB:.2f} MiB, taken {account.get(name, 0) / MIB:.2f} MiB, off by {off / MIB:.2f} MiB")
        # The account is printed in hundredths of its unit.
        wrong |= abs(off) > max(0.01 * MIB, 0.005 * size)
    if before is None:
        print("no nvidia-smi: the account is compared with the plan alone")
        return wrong
    total, change = sum(account.values()), during - before
    print(f"all: planned {sum(planned.values()) / MIB:.0f} MiB, the account's sum {total / MIB:.0f} MiB, by nvidia-smi "
          f"{before / MIB:.0f} MiB before, {change / MIB:.0f} MiB more; off by {(change - total) / MIB:.0f} MiB")
    return wrong or (ranks == "1" and abs(change - total) > SLACK)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
