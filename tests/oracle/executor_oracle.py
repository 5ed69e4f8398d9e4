"""Our executor against ONNX Runtime on float models: relative RMS of every output.

The limit is 1e-5. Where exponentials or long sums compound it is 1e-4, with the reason.
"""
import itertools

import numpy as np

from common import DIGIT_NETS, Oracle, answers, feeds_for, session, worst

LOOSER = {
    # stage2_delta_k is the tanh of a sum that cancels: at seed 0 the answer is 0.001 where it is 0.1 to 0.2 elsewhere.
    # Beside the same net in float64 ONNX Runtime is then 3e-5 off and our executor 7e-6.
    "fr_age": 1e-4,
}
SEEDS = range(6)
DYNAMIC = ("bert_mlm_random", "ch_PP-OCRv4_det_infer", "ch_PP-OCRv4_rec_infer", "ch_ppocr_mobile_v2.0_cls_infer",
           "t5_encoder_random", "t5_decoder_random", "gpt2_kv_random", "llm_attention24_random")


def shapes_of(name):
    return [4, 8, 23] if name in DYNAMIC else [8]


def main():
    oracle = Oracle()
    for model in oracle.models():
        limit = LOOSER.get(model.stem, 1e-5)
        reference = session(model)
        errors = []
        for seed, dynamic in itertools.product(SEEDS, shapes_of(model.stem)):
            feeds = feeds_for(model, seed, dynamic)
            if model.stem in ("super_resolution", *DIGIT_NETS):  # dynamic batch
                feeds = {name: np.concatenate([value, value * 0.5, value * 2]).astype(np.float32) for name, value in feeds.items()}
            error = worst(answers(reference, feeds), oracle.outputs(model, feeds))
            errors.append(error)
            oracle.check(f"{model.stem}, seed {seed}, {dynamic}", error <= limit, f"relative RMS {error:.2e} is above {limit}")
        print(f"{model.stem}: largest relative RMS of {len(errors)} inputs {max(errors):.1e}")
    oracle.finish()


main()
