#!/usr/bin/env python3
"""The commands of docs/ci.md's jobs do what the page says, and fail where a model got worse.
Usage: ci_jobs.py NIBBLE SOURCE_DIR"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

nibble, source = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
jobs = re.findall(r"```yaml\n(.*?)```", (source / "docs/ci.md").read_text(), re.S)
failures = 0


def check(what, good):
    global failures
    failures += not good
    print("ok  " if good else "FAIL", what)


def shell(folder, command):
    path = f"{nibble.parent}:{os.environ['PATH']}"
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, env=os.environ | {"PATH": path})


check("there are two jobs", len(jobs) == 2)
for job in jobs:
    commands = [line.strip().removeprefix("- ") for line in job.splitlines() if line.strip().removeprefix("- ").startswith("nibble ")]
    check(f"a job of {len(commands)} commands", len(commands) >= 3)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file, to in (("digits_cnn.onnx", "model.onnx"), ("heldout.npz", "samples.npz"), ("labels.npy", "labels.npy")):
            shutil.copy(source / "testdata/digits" / file, folder / to)
        measure = "nibble diff model.onnx small.onnx --data samples.npz --labels labels.npy"
        accept = f"{commands[0]} && {measure} --layers --report accepted.json"
        check("the accepted report", shell(folder, accept).returncode == 0)
        for command in commands:
            done = shell(folder, command)
            check(f"{command}: {done.returncode} {done.stderr.strip()}", done.returncode == 0)
        cases = xml.etree.ElementTree.parse(folder / "junit.xml").getroot().findall(".//testcase")
        check("JUnit has the gate and the output", len(cases) >= 2)
        check("the page is there", (folder / "report.html").read_text().startswith("<!DOCTYPE html>"))
        worse = shell(folder, "nibble quantize model.onnx -o small.onnx --weights int4 --group-size tensor")
        check("a worse model", worse.returncode == 0)
        judged = [c for c in commands if "--baseline" in c]
        for command in judged:
            done = shell(folder, command)
            check(f"fails where it got worse: {done.stderr.strip()[:160]}", done.returncode == 1 and "baseline" in done.stderr)
sys.exit(failures > 0)
