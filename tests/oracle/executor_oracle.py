"""Our executor against ONNX Runtime on float models: relative RMS of every output."""
import itertools

import numpy as np

from common import DIGIT_NETS, Oracle, answers, feeds_for, session, worst

LIMIT = 1e-5
SEEDS = range(6)
DYNAMIC = ("bert_mlm_random", "ch_PP-OCRv4_det_infer", "ch_PP-OCRv4_rec_infer", "ch_ppocr_mobile_v2.0_cls_infer",
           "t5_encoder_random", "t5_decoder_random", "gpt2_kv_random", "llm_attention24_random")
BATCHED = ("super_resolution", "silero_vad_v5", *DIGIT_NETS)  # only their number of samples is free


def shapes_of(name):
    return [4, 8, 23] if name in DYNAMIC else [1, 2, 5] if name in BATCHED else [8]


def feeds_of(model, seed, shape):
    if model.stem not in BATCHED:
        return feeds_for(model, seed, shape)
    feeds = feeds_for(model, seed)
    axis = {"state": 1}
    return {name: np.concatenate([value * np.float32(1 / (i + 1)) for i in range(shape)], axis.get(name, 0)) if value.ndim else value
            for name, value in feeds.items()}


def main():
    oracle = Oracle()
    for model in oracle.models():
        reference = session(model)
        errors = []
        for seed, dynamic in itertools.product(SEEDS, shapes_of(model.stem)):
            feeds = feeds_of(model, seed, dynamic)
            error = worst(answers(reference, feeds), oracle.outputs(model, feeds))
            errors.append(error)
            oracle.check(f"{model.stem}, seed {seed}, {dynamic}", error <= LIMIT, f"relative RMS {error:.2e} is above {LIMIT}")
        print(f"{model.stem}: largest relative RMS of {len(errors)} inputs {max(errors):.1e}")
    oracle.finish()


main()
