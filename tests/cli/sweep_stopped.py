#!/usr/bin/env python3
"""A sweep stopped by a signal and started again ends with the same bytes, and so do shards merged; and the engines'
scripts of docs/sweep.md do what they say.

Usage: sweep_stopped.py NIBBLE SOURCE. Only the standard library is used.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

NIBBLE, SOURCE = (pathlib.Path(w).resolve() for w in sys.argv[1:3])
DIGITS = SOURCE / "testdata" / "digits"
SWEEP = [str(NIBBLE), "sweep", str(DIGITS / "digits_vit.onnx"), "--data", str(DIGITS / "heldout.npz"),
         "--labels", str(DIGITS / "labels.npy"), "--group-size", "32,128,channel", "-q"]
ENDINGS = ("json", "html", "md", "xml")


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def call(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    check(done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def reports(results, *more):
    """The bytes of the report in every format, and of the results."""
    for ending in ENDINGS:
        call([*SWEEP, "--results", str(results), "--report", f"{results}.{ending}", *more])
    return [results.read_bytes(), *(pathlib.Path(f"{results}.{e}").read_bytes() for e in ENDINGS)]


def stopped(results, number, lines):
    """Starts the sweep and ends it by a signal when the file has as many lines; whether it came to that."""
    process = subprocess.Popen([*SWEEP, "--results", str(results)], stderr=subprocess.PIPE)
    while process.poll() is None:
        if results.exists() and results.read_bytes().count(b"\n") >= lines:
            process.send_signal(number)
            break
        time.sleep(0.002)
    process.communicate()
    return process.returncode == -number


def test_stopped(folder):
    whole = reports(folder / "whole.jsonl", "--threads", "1")
    check(whole == reports(folder / "again.jsonl", "--threads", "2"), "the number of threads changes the report")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        results = folder / f"stopped{number}.jsonl"
        hit = [stopped(results, number, lines) for lines in (1, 3, 7)]
        check(any(hit), f"no sweep was stopped by {number.name}")
        check(whole == reports(results), f"after {number.name} the resumed sweep differs")
        print(f"{number.name}: stopped {sum(hit)} times, resumed to the same bytes")
    left = sorted(p.name for p in folder.iterdir() if p.name.startswith("."))
    check(not left, f"temporary files are left: {left}")


def test_shards(folder):
    shards = [folder / f"shard{i}.jsonl" for i in range(1, 6)]
    for i, shard in enumerate(shards, 1):
        call([*SWEEP, "--results", str(shard), "--shard", f"{i}/5"])
    for ending in ENDINGS:
        merged = folder / f"merged.{ending}"
        call([str(NIBBLE), "report", "merge", *map(str, reversed(shards)), "--report", str(merged), "-q"])
        check(merged.read_bytes() == (folder / f"whole.jsonl.{ending}").read_bytes(), f"merged .{ending} differs")
    print("5 shards merge to the same bytes")


# What each engine's environment holds for the shards of an array of three.
ENGINES = {
    "slurm": [{"SLURM_ARRAY_TASK_ID": str(i), "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_COUNT": "3"} for i in range(3)],
    "kubernetes": [{"JOB_COMPLETION_INDEX": str(i)} for i in range(3)],
    "gitlab": [{"CI_NODE_INDEX": str(i), "CI_NODE_TOTAL": "3"} for i in (1, 2, 3)],
    "github": [{"NIBBLE_SHARD": f"{i}/3"} for i in (1, 2, 3)],
}
OWN = re.compile("SLURM_|JOB_COMPLETION|CI_NODE|NIBBLE_SHARD")


def commands(engine):
    """The `nibble` lines of an engine's snippets: those that sweep, and those that merge."""
    text = (SOURCE / "docs" / "sweep.md").read_text()
    part = re.search(rf"<!-- {engine} -->(.*?)<!-- end -->", text, re.S).group(1)
    lines = [m.group(1).strip() for m in re.finditer(r'(nibble (?:sweep|report) (?:"[^"\n]*"|[^"\n])*)', part.replace("\\\n", " "))]
    return [c for c in lines if c.startswith("nibble sweep")], [c for c in lines if c.startswith("nibble report")]


def test_engines(folder):
    environment = {k: v for k, v in os.environ.items() if not OWN.match(k)}
    environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"
    (folder / "bin").mkdir()
    (folder / "bin" / "nibble").symlink_to(NIBBLE)
    for engine, shards in ENGINES.items():
        place = folder / engine
        (place / "results").mkdir(parents=True)
        for name, file in (("model.onnx", "digits_vit.onnx"), ("samples.npz", "heldout.npz"), ("labels.npy", "labels.npy")):
            (place / name).symlink_to(DIGITS / file)
        sweeps, merges = commands(engine)
        check(len(sweeps) == 1 and len(merges) == 1, f"{engine}: {len(sweeps)} sweeps, {len(merges)} merges in docs/sweep.md")
        for variables in shards:
            call(["sh", "-c", sweeps[0]], cwd=place, env={**environment, **variables})
        call(["sh", "-c", merges[0]], cwd=place, env=environment)
        check((place / "sweep.html").exists(), f"{engine}: no report")
        print(f"{engine}: 3 shards, merged")


with tempfile.TemporaryDirectory() as name:
    test_stopped(pathlib.Path(name))
    test_shards(pathlib.Path(name))
    test_engines(pathlib.Path(name))
