"""What the measured models are fed with."""
import numpy as np

# Dims of a sample where the model leaves them open, after the batch.
OPEN_DIMS = {"ch_PP-OCRv4_det_infer": (3, 640, 640), "ch_PP-OCRv4_rec_infer": (3, 48, 320), "bert_mlm_random": (128,)}


def feeds_of(session, path, batch, random, open_dims=OPEN_DIMS):
    """One sample: small integers fit any table, and silero's window and sampling rate are the ones it is made for."""
    if path.stem == "silero_vad_v5":
        return {"input": random.standard_normal((1, 512), dtype=np.float32), "state": np.zeros((2, 1, 128), np.float32),
                "sr": np.array(16000)}
    feeds = {}
    for spec in session.get_inputs():
        dims = open_dims.get(path.stem) or [d if isinstance(d, int) else 1 for d in spec.shape[1:]]
        if spec.type == "tensor(int64)":
            feeds[spec.name] = random.integers(0, 2, (batch, *dims))
        else:
            feeds[spec.name] = random.standard_normal((batch, *dims), dtype=np.float32)
    return feeds
