#!/usr/bin/env python3
"""The worked example of README.md is what docs/demo.sh prints. Usage: readme_demo.py NIBBLE SOURCE_DIR"""
import difflib
import pathlib
import subprocess
import sys

nibble, source = sys.argv[1], pathlib.Path(sys.argv[2])
printed = subprocess.run(["bash", source / "docs/demo.sh", nibble], check=True, capture_output=True, text=True).stdout
shown = (source / "README.md").read_text().split("## A worked example", 1)[1].split("```\n")[1]
difference = list(difflib.unified_diff(shown.strip().splitlines(), printed.strip().splitlines(), "README.md",
                                       "docs/demo.sh", lineterm=""))
print("\n".join(difference) if difference else "the same")
sys.exit(bool(difference))
