"""The models that static INT8 is judged on, with samples to calibrate on and others to measure with."""
import numpy as np

import ocr_lines
from common import DIGIT_NETS, feeds_for, session, sqnr

MODELS = ["fr_detect", "fr_feature", "fr_pose", "version-RFB-320", "ch_PP-OCRv4_det_infer", "ch_PP-OCRv4_rec_infer",
          "ch_ppocr_mobile_v2.0_cls_infer", "bert_mlm_random"]
LENGTHS = {"bert_mlm_random": 64, "ch_PP-OCRv4_rec_infer": 20}
CALIBRATION, HELD_OUT = range(100, 112), (0, 3, 4, 5, 6, 7)


def samples_of(oracle, path):
    if path.stem in DIGIT_NETS:
        images = np.load(oracle.digits / "heldout.npz")
        name = session(path).get_inputs()[0].name
        rows = images[name]
        return [{name: rows[i:i + 1]} for i in range(20)], [{name: rows[i:i + 1]} for i in range(100, 160)]
    if path.stem == "ch_PP-OCRv4_rec_infer" and not ocr_lines.missing_fonts():
        lines = [{"x": ocr_lines.recogniser_input(ocr_lines.draw_line(*line))} for line in ocr_lines.LINES]
        return lines[:12], lines[12:]
    length = LENGTHS.get(path.stem, 8)
    return [feeds_for(path, s, length) for s in CALIBRATION], [feeds_for(path, s, length) for s in HELD_OUT]


def saved(samples, folder):
    """The samples as archives, for --calib."""
    folder.mkdir()
    for i, feeds in enumerate(samples):
        np.savez(folder / f"{i:03}.npz", **feeds)
    return folder


def answers(model, feeds, **options):
    runtime = session(model, **options)
    return [np.concatenate([np.ravel(o) for o in column]) for column in zip(*(runtime.run(None, f) for f in feeds))]


def worst(reference, candidate):
    return min(float(sqnr(r, c)) for r, c in zip(reference, candidate) if r.dtype == np.float32)
