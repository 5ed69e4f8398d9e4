"""docs/models.md says what is measured: the rows of some models are made anew. Sizes, coverage and bits are the same;
SQNR, which went through the executor, is the same to 0.1 dB."""
import sys

from common import Oracle

CHECKED = ["digits_vit", "mnist", "bert_mlm_random", "dtln_model_1", "gpt2_kv_random", "silero_vad_v5"]


def cells(row):
    return [c.strip() for c in row.strip("|").split("|")]


def main():
    oracle = Oracle()
    if not oracle.shared.is_dir():
        print("NOT RUN: the folder of real models is absent")
        sys.exit(77)
    sys.path.insert(0, str(oracle.source / "docs"))
    from models_table import rows_of
    told = {}
    for line in (oracle.source / "docs" / "models.md").read_text().splitlines():
        if line.startswith("| "):
            told.setdefault(cells(line)[0], []).append(cells(line))
    for model in oracle.models():
        if model.stem not in CHECKED:
            oracle.check(f"{model.stem}: has its rows", len(told.get(model.stem, [])) == 4)
            continue
        for row, old in zip(map(cells, rows_of(oracle.nibble, model)), told.get(model.stem, [[]] * 4)):
            same = len(old) == len(row) and old[:7] + old[8:] == row[:7] + row[8:] and abs(float(old[7]) - float(row[7])) <= 0.1001
            oracle.check(" ".join(row[:3]), same, f"docs/models.md is stale (run ./dev table): {old} where {row} is measured")
    oracle.finish()


main()
