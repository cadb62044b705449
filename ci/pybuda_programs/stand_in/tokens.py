"""Tokenizers and processors without a vocabulary: the same text gives the same tokens, an image the same pixels."""

from __future__ import annotations

import re
import zlib
from typing import Any

MASKS = ("[MASK]", "<mask>")


class Tokenizer:
    """Tokens of words by their checksum."""

    is_fast, padding_side, model_max_length = False, "right", 512
    pad_token_id, cls_token_id, sep_token_id, mask_token_id, unk_token_id = 0, 101, 102, 103, 100
    bos_token_id, eos_token_id = 1, 2
    pad_token, mask_token, eos_token, bos_token, unk_token = "[PAD]", "[MASK]", "</s>", "<s>", "[UNK]"
    cls_token, sep_token = "[CLS]", "[SEP]"
    name_or_path = "stand-in"

    def __init__(self, vocabulary: int, types: bool) -> None:
        self.vocab_size, self._types = vocabulary, types
        self.model_input_names = ["input_ids", "attention_mask"]

    def __len__(self) -> int:
        return self.vocab_size

    def _ids(self, text: str) -> list[int]:
        words = re.findall(r"\[MASK\]|<mask>|\w+|[^\w\s]", text)
        first = min(1000, self.vocab_size // 2)
        among = self.vocab_size - first
        return [103 if word in MASKS else first + zlib.crc32(word.encode()) % among for word in words]

    def encode(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        """Returns the tokens of one text, as a list or as a tensor."""
        made = self(text, text_pair, **options)["input_ids"]
        return made if options.get("return_tensors") else made[0] if made and isinstance(made[0], list) else made

    def __call__(self, text: Any = None, text_pair: Any = None, **options: Any) -> Any:
        """Returns what a tokenizer returns for a text, several, or pairs of them."""
        import torch
        from transformers import BatchEncoding

        text = options.pop("titles", None) or options.pop("questions", None) or text
        one = isinstance(text, str)
        texts = [text] if one else list(text)
        pairs = [text_pair] if isinstance(text_pair, str) else list(text_pair or [None] * len(texts))
        rows, types = [], []
        for a, b in zip(texts, pairs, strict=False):
            ids = [self.cls_token_id, *self._ids(str(a)), self.sep_token_id]
            kinds = [0] * len(ids)
            if b is not None:
                more = [*self._ids(str(b)), self.sep_token_id]
                ids, kinds = ids + more, kinds + [1] * len(more)
            rows.append(ids)
            types.append(kinds)
        longest = options.get("max_length") or max(map(len, rows))
        padding = options.get("padding")
        padded = padding == "max_length" or options.get("pad_to_max_length")
        width = longest if padded else max(map(len, rows))
        if options.get("truncation") or padded:
            rows, types = [row[:longest] for row in rows], [row[:longest] for row in types]
        masks = [[1] * len(row) for row in rows]
        if padded or padding in (True, "longest") or options.get("return_tensors"):
            rows, masks, types = ([row + [0] * (width - len(row)) for row in some] for some in (rows, masks, types))
        made: dict[str, Any] = {"input_ids": rows}
        if self._types:
            made["token_type_ids"] = types
        made["attention_mask"] = masks
        if options.get("return_tensors") == "pt":
            return BatchEncoding({name: torch.tensor(some) for name, some in made.items()})
        return BatchEncoding({name: some[0] if one else some for name, some in made.items()})

    batch_encode_plus = encode_plus = __call__

    def tokenize(self, text: str, **options: Any) -> list[str]:
        """Returns the words of a text."""
        return self.convert_ids_to_tokens(self._ids(text))

    def pad(self, encoded: Any, **options: Any) -> Any:
        """Returns them as they are: they have one length."""
        return encoded

    def decode(self, ids: Any, **options: Any) -> str:
        """Returns a word for each token."""
        return " ".join(self.convert_ids_to_tokens(ids))

    def batch_decode(self, rows: Any, **options: Any) -> list[str]:
        """Returns a text for each row."""
        return [self.decode(row) for row in rows]

    def convert_ids_to_tokens(self, ids: Any, **options: Any) -> Any:
        """Returns a word for each token."""
        ids = ids.tolist() if hasattr(ids, "tolist") else ids
        return [f"token{number}" for number in (ids if isinstance(ids, list | tuple) else [ids])]

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """Returns them as a text."""
        return " ".join(tokens)

    def convert_tokens_to_ids(self, tokens: Any) -> Any:
        """Returns the tokens of words."""
        return self._ids(tokens)[0] if isinstance(tokens, str) else [self._ids(token)[0] for token in tokens]

    def add_special_tokens(self, tokens: dict[str, str], **options: Any) -> int:
        """Takes the words of special tokens, whose numbers it has; returns how many it had to add: none."""
        vars(self).update(tokens)
        return 0

    def apply_chat_template(self, messages: list[dict[str, str]], tokenize: bool = True, **options: Any) -> Any:
        """Returns a conversation as one text, or its tokens."""
        text = "\n".join(f"{message['role']}: {message['content']}" for message in messages)
        return self.encode(text, **options) if tokenize else text

    def save_pretrained(self, *folder: Any, **options: Any) -> tuple[str, ...]:
        """Writes nothing."""
        return ()


class Processor:
    """Pixels, spectra and tokens of one configuration."""

    sampling_rate, chunk_length, hop_length, n_samples, nb_max_frames = 16_000, 30, 160, 480_000, 3_000
    """Whisper's."""

    def __init__(self, config: Any) -> None:
        vision = getattr(config, "vision_config", config)
        size = getattr(vision, "image_size", 224) or 224
        self.height = self.width = size if isinstance(size, int) else size[0]
        if getattr(config, "model_type", "") == "segformer":
            self.height = self.width = 512
        self.size = {"height": self.height, "width": self.width, "shortest_edge": self.height}
        text = getattr(config, "text_config", config)
        self.tokenizer = Tokenizer(getattr(text, "vocab_size", 30522), config.model_type in ("vilt", "bert"))
        self._config = config
        self.image_processor = self.feature_extractor = self

    def __call__(self, images: Any = None, text: Any = None, **options: Any) -> Any:
        """Returns what a processor returns for images, texts, or sound."""
        import torch
        from transformers import BatchFeature

        if isinstance(text, str | list) or (isinstance(images, str) and text is None):
            made = dict(self.tokenizer(text if text is not None else images, **options))
        else:
            images, text, made = (images if images is not None else text), None, {}
        if self._config.model_type == "whisper" and images is not None:
            generator = torch.Generator().manual_seed(0)
            return BatchFeature(
                {"input_features": torch.randn(1, self._config.num_mel_bins, 3000, generator=generator)}
            )
        if images is not None and not isinstance(images, str):
            count = len(images) if isinstance(images, list | tuple) else 1
            generator = torch.Generator().manual_seed(0)
            made["pixel_values"] = torch.randn(count, 3, self.height, self.width, generator=generator)
            if self._config.model_type == "vilt":
                made["pixel_mask"] = torch.ones(count, self.height, self.width, dtype=torch.long)
        return BatchFeature(made)

    preprocess = __call__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.tokenizer, name)
