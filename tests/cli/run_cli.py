#!/usr/bin/env python3
"""Runs the command lines of a .cli file and compares what they print and return with what the file says.

Usage: run_cli.py NIBBLE TESTDATA FILE.cli [--rebase]

  # text        a comment
  $ command     run by sh; `nibble` is the executable. Commands of one file share a fresh folder, which holds copies
                of the models and arrays of TESTDATA/digits and of all of tests/cli/models
  > text        a line of standard output
  ! text        a line of standard error
  >~ regex      a line that matches as a whole (also !~)
  > ...         any number of lines (also ! ...)
  = 2           the exit code, if it is not 0

--rebase rewrites the expectations of commands that differ. Only the standard library is used.
"""
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


class Command:
    def __init__(self, text):
        self.text = text
        self.expected = []  # lines as they are in the file
        self.after = []     # comments and blank lines that follow


def read(path):
    """Leading lines, then the commands."""
    head, commands = [], []
    for line in path.read_text().splitlines():
        if line.startswith("$ "):
            commands.append(Command(line[2:]))
        elif not commands:
            head.append(line)
        elif line[:1] in ("#", ""):
            commands[-1].after.append(line)
        elif line[:1] in ">!=":
            if commands[-1].after:
                sys.exit(f"{path}: expectation after a comment: {line}")
            commands[-1].expected.append(line)
        else:
            sys.exit(f"{path}: not understood: {line}")
    return head, commands


def matches(wanted, got):
    """Whether lines match expectations, of which some are regular expressions or stand for any lines."""
    if not wanted:
        return not got
    kind, text = wanted[0]
    if kind == "any":
        return any(matches(wanted[1:], got[i:]) for i in range(len(got) + 1))
    if not got:
        return False
    fits = re.fullmatch(text, got[0]) if kind == "regex" else text == got[0]
    return bool(fits) and matches(wanted[1:], got[1:])


def wanted_lines(expected, mark):
    out = []
    for line in expected:
        if line.startswith(mark + "~ "):
            out.append(("regex", line[3:]))
        elif line in (mark + " ...", mark):
            out.append(("any", "") if line.endswith("...") else ("line", ""))
        elif line.startswith(mark + " "):
            out.append(("line", line[2:]))
    return out


def run(command, folder, environment):
    """Lines as the file would have them, and whether they are what it has."""
    done = subprocess.run(["sh", "-c", command.text], cwd=folder, env=environment, capture_output=True, text=True,
                          errors="replace", timeout=300)
    out, err = done.stdout.splitlines(), done.stderr.splitlines()
    lines = [f"> {line}".rstrip() for line in out] + [f"! {line}".rstrip() for line in err]
    if done.returncode != 0:
        lines.append(f"= {done.returncode}")
    code = [int(line[2:]) for line in command.expected if line.startswith("= ")]
    right = (done.returncode == (code[0] if code else 0)
             and matches(wanted_lines(command.expected, ">"), [line.rstrip() for line in out])
             and matches(wanted_lines(command.expected, "!"), [line.rstrip() for line in err]))
    return lines, right


def prepare(folder, testdata):
    for pattern in ("*.onnx", "*.npz", "*.npy"):
        for file in sorted((testdata / "digits").glob(pattern)):
            shutil.copy(file, folder)
    shutil.copytree(pathlib.Path(__file__).parent / "models", folder, dirs_exist_ok=True)


def main():
    words = [w for w in sys.argv[1:] if w != "--rebase"]
    rebase = len(words) < len(sys.argv) - 1
    if len(words) != 3:
        sys.exit(__doc__)
    nibble, testdata, path = (pathlib.Path(w).resolve() for w in words)
    head, commands = read(path)
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "work"
        tools = pathlib.Path(name) / "bin"
        folder.mkdir()
        tools.mkdir()
        (tools / "nibble").symlink_to(nibble)
        prepare(folder, testdata)
        environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "LC_ALL": "C"}
        for command in commands:
            lines, right = run(command, folder, environment)
            if right:
                continue
            failed += 1
            if rebase:
                command.expected = lines
            else:
                print(f"$ {command.text}")
                print("\n".join(difflib.unified_diff(command.expected, lines, "expected", "got", lineterm="")))
    if rebase:
        rows = head[:]
        for command in commands:
            rows += [f"$ {command.text}", *command.expected, *command.after]
        path.write_text("\n".join(rows) + "\n")
        print(f"{path.name}: {failed} of {len(commands)} commands rewritten")
        return
    print(f"{path.name}: {len(commands)} commands, {failed} differ")
    sys.exit(failed > 0 or not commands)


main()
