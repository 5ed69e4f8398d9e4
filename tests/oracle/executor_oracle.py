"""Our executor against ONNX Runtime on float models: relative RMS of every output.

The limit is 1e-5. Where exponentials or long sums compound it is 1e-4, with the reason.
"""
from common import Oracle, answers, feeds_for, session, worst

LOOSER = {}  # model -> (limit, reason); none is needed


def shapes_of(name):
    return [4, 8, 23] if name in ("bert_mlm_random",) else [8]


def main():
    oracle = Oracle()
    for model in oracle.models():
        limit, _ = LOOSER.get(model.stem, (1e-5, ""))
        reference = session(model)
        for dynamic in shapes_of(model.stem):
            feeds = feeds_for(model, 3, dynamic)
            if model.stem in ("super_resolution", "digits_cnn", "digits_vit"):  # dynamic batch
                feeds = {name: value.repeat(3, 0) * [[[[1]]], [[[0.5]]], [[[2]]]] for name, value in feeds.items()}
                feeds = {name: value.astype("float32") for name, value in feeds.items()}
            expected = answers(reference, feeds)
            got = oracle.outputs(model, feeds)
            error = worst(expected, got)
            print(f"{model.stem} ({dynamic}): relative RMS {error:.1e}")
            oracle.check(f"{model.stem} at {dynamic}", error <= limit, f"relative RMS {error:.2e} is above {limit}")
    oracle.finish()


main()
