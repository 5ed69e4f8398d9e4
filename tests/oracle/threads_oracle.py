"""The same bytes for 1, 2 and 8 threads: what is quantized, and what the executor answers."""
from common import Oracle, feeds_for

import numpy as np


def main():
    oracle = Oracle()
    for model in oracle.models():
        feeds = feeds_for(model, 9)
        for options in (["--weights", "int4"], ["--weights", "int8", "--group-size", "tensor"], ["--emit", "nbits", "--scheme", "asymmetric"]):
            seen = set()
            for threads in (1, 2, 8):
                out = oracle.folder / "out.onnx"
                oracle.json("quantize", model, "-o", out, "--threads", threads, *options)
                seen.add(out.read_bytes())
            oracle.check(f"{model.stem} {' '.join(options)}: one file", len(seen) == 1)
        answers = [oracle.outputs(model, feeds, "--threads", threads) for threads in (1, 2, 8)]
        same = all(np.array_equal(answers[0][n], a[n]) for a in answers for n in answers[0])
        oracle.check(f"{model.stem}: one answer", same)
        print(f"{model.stem}: done")
    oracle.finish()


main()
