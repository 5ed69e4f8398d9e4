"""`nibble fuse` on real models, three seeds: no pass is undone by --verify, ONNX Runtime loads what is written, and its
answers are those to the original within a relative RMS of 1e-5, or within what ONNX Runtime's own folding moves them by: it
folds only weights that are no inputs, and fr_age lists them among its inputs."""
import numpy as np

from common import Oracle, answers, feeds_for, session, worst

LIMIT = 1e-5
SEEDS = range(3)
PIPELINES = {"default": "portable", "onnxruntime": "onnxruntime-cpu"}


def fused(oracle, model, pipeline, target, samples):
    """The written model, and what --verify undid."""
    out = oracle.folder / f"{model.stem}_{pipeline}.onnx"
    report = oracle.json("fuse", model, "-o", out, "--pipeline", pipeline, "--target", target, "--verify", "--data", samples)
    undone = [f"{p['pass']}: {p['undone']}" for p in report["passes"] if p["undone"]]
    oracle.check(f"{model.stem}, {pipeline}: passes come to an end", report["settled"])
    oracle.check(f"{model.stem}, {pipeline}: no pass is undone", not undone, "; ".join(undone))
    return out, report


def own_movement(oracle, model, feeds, expected):
    """Of ONNX Runtime's answers when it may fold the weights, and nothing else has changed."""
    frozen = oracle.folder / f"{model.stem}_frozen.onnx"
    oracle.json("fuse", model, "-o", frozen, "--passes", "freeze-initializers")
    made = session(frozen)
    return max(worst(e, answers(made, f)) for e, f in zip(expected, feeds))


def main():
    oracle = Oracle()
    for model in oracle.models():
        feeds = [feeds_for(model, seed) for seed in SEEDS]
        samples = oracle.folder / model.stem
        samples.mkdir()
        for seed in SEEDS:
            np.savez(samples / f"{seed}.npz", **feeds[seed])
        reference = session(model)
        expected = [answers(reference, f) for f in feeds]
        limit = max(LIMIT, own_movement(oracle, model, feeds, expected))
        for pipeline, target in PIPELINES.items():
            out, report = fused(oracle, model, pipeline, target, samples)
            made = session(out)
            error = max(worst(e, answers(made, f)) for e, f in zip(expected, feeds))
            oracle.check(f"{model.stem}, {pipeline}: ONNX Runtime's answers", error <= limit, f"relative RMS {error:.2e} is above {limit:.2e}")
            print(f"{model.stem}, {pipeline}: {report['nodes_before']} -> {report['nodes_after']} nodes, relative RMS {error:.1e}")
    oracle.finish()


main()
