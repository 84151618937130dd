"""datasets, transformers, safetensors and pandas work against `drystone serve`.

usage: libraries.py DRYSTONE

Ends with a line `libraries: N passed, M failed`.
"""

import json
import os
import struct
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from harness import check, child, client_environment, folder_place, noise, run_child, show_logs


def run(work):
    from huggingface_hub import HfApi

    api = HfApi()
    with_datasets(api)
    with_pandas(api, work)
    with_transformers(api, work)
    with_safetensors(api)


def with_datasets(api):
    from datasets import Dataset, load_dataset, load_dataset_builder

    rows = {"text": [f"row {n} " + "ab" * (n % 50) for n in range(5000)], "n": list(range(5000)), "raw": [noise(n, 200) for n in range(5000)]}
    repo = "ann/rows"
    Dataset.from_dict(rows).push_to_hub(repo, num_shards=3, private=True)
    check("push_to_hub", len([f for f in api.list_repo_files(repo, repo_type="dataset") if f.endswith(".parquet")]) == 3)
    loaded = load_dataset(repo, split="train")
    check("load_dataset", loaded.num_rows == 5000 and loaded[4321] == {key: column[4321] for key, column in rows.items()})
    check("features from the card", load_dataset_builder(repo).info.splits["train"].num_examples == 5000)
    streamed = load_dataset(repo, split="train", streaming=True)
    some = list(streamed.skip(3000).take(5))
    check("streaming=True", [row["n"] for row in some] == list(range(3000, 3005)) and some[0]["raw"] == noise(3000, 200))
    check("all of it streams", sum(row["n"] for row in streamed) == sum(range(5000)))
    Dataset.from_dict({"n": [1, 2, 3]}).push_to_hub(repo, config_name="other", split="test")
    check("a second configuration", load_dataset(repo, "other", split="test")["n"][:] == [1, 2, 3])


def with_pandas(api, work):
    import pandas

    frame = pandas.DataFrame({"a": range(1000), "b": [f"x{n}" for n in range(1000)]})
    frame.to_parquet("hf://datasets/ann/rows/frames/f.parquet")
    frame.to_csv("hf://datasets/ann/rows/frames/f.csv", index=False)
    check("pandas writes and reads parquet", pandas.read_parquet("hf://datasets/ann/rows/frames/f.parquet").equals(frame))
    check("and CSV", pandas.read_csv("hf://datasets/ann/rows/frames/f.csv").equals(frame))
    column = pandas.read_parquet("hf://datasets/ann/rows/frames/f.parquet", columns=["a"])
    check("and one column", list(column.columns) == ["a"] and column["a"].sum() == sum(range(1000)))


def with_transformers(api, work):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoConfig, AutoTokenizer, BertConfig, PreTrainedTokenizerFast

    repo = "ann/bert"
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "dry": 1, "stone": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    BertConfig(hidden_size=96, num_attention_heads=4).save_pretrained(work / "bert")
    tokenizer.save_pretrained(work / "bert")
    api.create_repo(repo)
    api.upload_folder(folder_path=work / "bert", repo_id=repo)
    check("a configuration comes back", AutoConfig.from_pretrained(repo).hidden_size == 96)
    check("a tokenizer comes back", AutoTokenizer.from_pretrained(repo)("dry stone wall")["input_ids"] == [1, 2, 0])


def with_safetensors(api):
    header = json.dumps({"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "shape": [250, 1000], "data_offsets": [0, 1_000_000]}}).encode()
    api.upload_file(path_or_fileobj=struct.pack("<Q", len(header)) + header + noise(3, 1_000_000), path_in_repo="model.safetensors", repo_id="ann/bert")
    found = api.get_safetensors_metadata("ann/bert")
    check("the header of a safetensors file", found.files_metadata["model.safetensors"].tensors["w"].shape == [250, 1000]
          and found.parameter_count == {"F32": 250_000})


def main(drystone):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        with folder_place(drystone, folder) as place:
            run_child([__file__, "child"], client_environment(place, folder / "home"))
            show_logs(place)
    check.finish("libraries")


if __name__ == "__main__":
    if sys.argv[1] == "child":
        child(run)
    else:
        main(os.path.abspath(sys.argv[1]))
