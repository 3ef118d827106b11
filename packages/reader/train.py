"""Train a reader: layers over token states that say which candidate, and which of its sentences, answers the query.

    python packages/reader/train.py .make/reader/examples.xz --shape mid --minutes 10 --out .make/reader/mid

Shapes, by where query and passage meet (bench/notes/reader.md has what each gained):

- ``maxsim``: six weights on the best cosines between final token states; nothing else is trained. The baseline.
- ``top``: two layers over the final states of query and passage, which the model computed apart.
- ``mid``: the model's last two layers, over states of its fourth.
- ``whole``: all six layers read query and passage together: the upper bound.

The score of a candidate is the product's log-odds and a correction that starts at zero. Losses: the share of the right
candidates among a question's (listwise), whether a candidate answers, and whether each sentence does. Training stops after
``--minutes``, writes a checkpoint, and goes on from it when called again. It needs torch, numpy and safetensors, and takes a GPU
if there is one.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import math
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

CLS, SEP, PAD = 101, 102, 0
MAX_QUERY, MAX_PASSAGE = 48, 200
HIDDEN, HEADS, LAYERS = 384, 12, 6
# Layers that each side takes alone, and layers that read both.
SHAPES = {"maxsim": (LAYERS, 0), "top": (LAYERS, 2), "mid": (4, 2), "whole": (0, LAYERS)}
TRAIN, HELD, JUDGE = 0, 1, 2
CHECKPOINT_SECONDS = 120
# Pairs that are computed at a time: a core's cache holds the states of few.
PAIRS_TOGETHER = {"cpu": 16, "cuda": 1024}
WORDS, SCALE = "embeddings.word_embeddings.weight", "embeddings.word_embeddings.scale"


class Layer(nn.Module):
    """A block of BERT."""

    def __init__(self) -> None:
        """Make the weights."""
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.wide, self.narrow = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)
        self.last_norm = nn.LayerNorm(HIDDEN, eps=1e-12)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Compute [rows, tokens, HIDDEN] from the same; `mask` is true at tokens."""
        rows, tokens, _ = states.shape
        q, k, v = (
            part(states).view(rows, tokens, HEADS, -1).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        states = self.norm(states + self.output(seen.transpose(1, 2).reshape(rows, tokens, HIDDEN)))
        states = self.last_norm(states + self.narrow(functional.gelu(self.wide(states))))
        return states


PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "norm": "attention.output.LayerNorm",
    "wide": "intermediate.dense",
    "narrow": "output.dense",
    "last_norm": "output.LayerNorm",
}


def table(weight: Tensor) -> nn.Embedding:
    """A table of vectors with these weights."""
    made = nn.Embedding(*weight.shape)
    made.load_state_dict({"weight": weight})
    return made


class Embeddings(nn.Module):
    """Words and positions of MiniLM."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        """Take the weights."""
        super().__init__()
        self.words = table(weights[WORDS])
        self.positions = table(weights["embeddings.position_embeddings.weight"])
        self.kinds = table(weights["embeddings.token_type_embeddings.weight"])
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.norm.load_state_dict({name: weights[f"embeddings.LayerNorm.{name}"] for name in ("weight", "bias")})

    def forward(self, ids: Tensor, kinds: Tensor) -> Tensor:
        """States of ids; `kinds` is 1 in the passage of a pair."""
        places = torch.arange(ids.shape[1], device=ids.device)
        states: Tensor = self.norm(self.words(ids) + self.positions(places) + self.kinds(kinds))
        return states


def widened(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights in float32; what `narrowed` wrote in bytes too."""
    scale = weights.pop(SCALE, None)
    found = {name: tensor if tensor.dtype == torch.int64 else tensor.float() for name, tensor in weights.items()}
    if scale is not None:
        found[WORDS] *= scale.float()
    return found


def narrowed(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights with the words' vectors in bytes, a scale each, which halves what must travel to a lent GPU."""
    words = weights[WORDS].float()
    scale = words.abs().amax(1, keepdim=True).clamp(min=1e-6) / 127
    return {**weights, WORDS: (words / scale).round().to(torch.int8), SCALE: scale}


def layer(weights: dict[str, Tensor], number: int) -> Layer:
    """A layer of MiniLM."""
    made = Layer()
    names = {
        f"{ours}.{kind}": f"encoder.layer.{number}.{theirs}.{kind}"
        for ours, theirs in PARTS.items()
        for kind in ("weight", "bias")
    }
    made.load_state_dict({ours: weights[theirs] for ours, theirs in names.items()})
    return made


@dataclass(frozen=True, slots=True)
class Batch:
    """Candidates of several questions. Sentences are numbered over the batch; -1 belongs to none."""

    queries: Tensor
    passages: Tensor
    question: Tensor
    sentence_of_token: Tensor
    sentence_label: Tensor
    sentence_row: Tensor
    log_odds: Tensor
    right: Tensor


class Reader(nn.Module):
    """Layers that read query and passage together, and two heads."""

    def __init__(self, base: Path, shape: str) -> None:
        """Take MiniLM's weights; what each side computes alone is not trained."""
        super().__init__()
        self.alone, joint = SHAPES[shape]
        weights = widened(load_file(base))
        self.embeddings = Embeddings(weights)
        self.lower = nn.ModuleList(layer(weights, number) for number in range(self.alone))
        for part in (self.embeddings, self.lower):
            part.requires_grad_(requires_grad=False)
        self.joint = nn.ModuleList(layer(weights, number) for number in range(LAYERS - joint, LAYERS))
        self.side = nn.Embedding(2, HIDDEN)
        self.passage_head, self.sentence_head = nn.Linear(HIDDEN, 1), nn.Linear(HIDDEN, 1)
        self.maxsim = nn.Linear(6, 1)
        self.odds = nn.Parameter(torch.tensor([1.0, 0.0]))
        for head in (self.side, self.passage_head, self.sentence_head, self.maxsim):
            for weight in head.parameters():
                nn.init.zeros_(weight)

    def trained(self) -> dict[str, Tensor]:
        """The weights that training changes, which are what is kept."""
        return {name: weight for name, weight in self.named_parameters() if weight.requires_grad}

    def groups(self, rate: float) -> list[dict[str, Any]]:
        """Heads learn at thirty times the rate of layers that know something already."""
        head = ("passage_head", "sentence_head", "maxsim", "odds", "side")
        named = list(self.trained().items())
        heads = [weight for name, weight in named if name.startswith(head)]
        return [
            {"params": heads, "lr": 30 * rate},
            {"params": [weight for name, weight in named if not name.startswith(head)], "lr": rate},
        ]

    def sides(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """States of rows that are read alone, and where they have tokens."""
        mask = ids != PAD
        with torch.no_grad():
            states = self.embeddings(ids, torch.zeros_like(ids))
            for each in self.lower:
                states = each(states, mask)
        return states, mask

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The score of each candidate, and of each sentence."""
        if not self.alone:
            return self.heads(batch, *self.pairs(batch), torch.zeros_like(batch.log_odds))
        start = batch.queries.shape[1]
        (queries, query_mask), (passages, passage_mask) = self.sides(batch.queries), self.sides(batch.passages)
        queries, query_mask = queries[batch.question], query_mask[batch.question]
        states = torch.cat([queries + self.side.weight[0], passages + self.side.weight[1]], dim=1)
        mask = torch.cat([query_mask, passage_mask], dim=1)
        for each in self.joint:
            states = each(states, mask)
        correction = self.maxsim(similarities(states, mask, start)).squeeze(1)
        sums = sums_by(states[:, start:], batch.sentence_of_token, len(batch.sentence_row))
        return self.heads(batch, states[:, 0], sums, correction)

    def pairs(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """States of [CLS] and sums of each sentence's, of queries and passages as one row; rows of about one length together."""
        query_lengths, passage_lengths = (batch.queries != PAD).sum(1)[batch.question], (batch.passages != PAD).sum(1)
        # The passage's own [CLS] has no place in a pair.
        lengths = query_lengths + passage_lengths - 1
        order = lengths.argsort()
        firsts, found = [], batch.log_odds.new_zeros(len(batch.sentence_row), HIDDEN)
        size = PAIRS_TOGETHER[order.device.type]
        for at in range(0, len(order), size):
            rows = order[at : at + size]
            places = torch.arange(int(lengths[rows].max()), device=order.device)[None, :]
            in_passage = places - query_lengths[rows, None] + 1
            is_query = in_passage < 1
            from_query = batch.queries[batch.question[rows]].gather(
                1, places.clamp(max=batch.queries.shape[1] - 1).expand(len(rows), -1)
            )
            inside = in_passage.clamp(min=0, max=batch.passages.shape[1] - 1)
            mask = places < lengths[rows, None]
            ids = torch.where(is_query, from_query, batch.passages[rows].gather(1, inside)).masked_fill(~mask, PAD)
            owners = batch.sentence_of_token[rows].gather(1, inside).masked_fill(is_query | ~mask, -1)
            with torch.no_grad():
                states = self.embeddings(ids, (~is_query).long())
            for each in self.joint:
                states = each(states, mask)
            firsts.append(states[:, 0].float())
            found = found + sums_by(states.float(), owners, len(found))
        return torch.cat(firsts)[order.argsort()], found

    def heads(self, batch: Batch, first: Tensor, sums: Tensor, correction: Tensor) -> tuple[Tensor, Tensor]:
        """Scores from the state of [CLS], the sums of each sentence's states, and what is known already."""
        sentences = sums.new_zeros(0)
        if len(self.joint):
            owners = batch.sentence_of_token.flatten()
            sizes = sums.new_zeros(len(sums)).index_add(0, owners[owners >= 0], sums.new_ones(int((owners >= 0).sum())))
            sentences = self.sentence_head(sums / sizes.clamp(min=1)[:, None]).squeeze(1)
            best = torch.full_like(correction, -math.inf).scatter_reduce(
                0, batch.sentence_row, sentences.to(correction.dtype), "amax"
            )
            correction = correction + self.passage_head(first).squeeze(1) + torch.where(best.isinf(), 0, best)
        return batch.log_odds * self.odds[0] + self.odds[1] + correction.float(), sentences.float()


def sums_by(states: Tensor, owner: Tensor, count: int) -> Tensor:
    """The sum of the states of each owner's tokens."""
    kept = owner >= 0
    return states.new_zeros(count, HIDDEN).index_add(0, owner[kept], states[kept])


def similarities(states: Tensor, mask: Tensor, start: int) -> Tensor:
    """Six numbers: mean and least of the query tokens' best cosines, mean of the passage's, cosine of means, a product, length."""
    unit = functional.normalize(states.float(), dim=-1)
    query, passage = unit[:, 1:start], unit[:, start + 1 :]
    here, there = mask[:, 1:start], mask[:, start + 1 :]
    cosines = torch.einsum("rqd,rpd->rqp", query, passage).masked_fill(~there[:, None, :], -1.0)
    best = cosines.amax(2)
    count, length = here.sum(1).clamp(min=1), there.sum(1).clamp(min=1)
    back = cosines.masked_fill(~here[:, :, None], -1.0).amax(1)
    middle = functional.cosine_similarity((query * here[..., None]).sum(1), (passage * there[..., None]).sum(1), dim=-1)
    mean = (best * here).sum(1) / count
    return torch.stack(
        [
            mean,
            best.masked_fill(~here, 1.0).amin(1),
            (back * there).sum(1) / length,
            middle,
            mean * middle,
            length.float().log() / 5,
        ],
        1,
    )


class Examples:
    """The columns that examples.py writes."""

    def __init__(self, path: Path, seed: int) -> None:
        """Unpack the columns."""
        columns = np.load(io.BytesIO(lzma.decompress(path.read_bytes())))
        self.columns: dict[str, NDArray[Any]] = {name: columns[name] for name in columns.files}
        self.tokens = self.columns["tokens_low"].astype(np.int64) + (self.columns["tokens_high"].astype(np.int64) << 8)
        self.rng = np.random.default_rng(seed)

    def rows(self, name: str, owner: str, number: int) -> NDArray[Any]:
        """The rows of one owner."""
        at = self.columns[owner]
        return self.columns[name][at[number] : at[number + 1]]

    def questions(self, split: int) -> NDArray[np.int64]:
        """The numbers of a split's questions that have candidates."""
        has_candidates = np.diff(self.columns["candidate_at"]) > 0
        return np.flatnonzero((self.columns["question_split"] == split) & has_candidates)

    def candidates(self, question: int, most: int, *, is_training: bool) -> NDArray[np.int64]:
        """The candidates to read. In training at most two right ones, and for a tenth of the questions none."""
        first, end = self.columns["candidate_at"][question : question + 2]
        every = np.arange(first, end)
        if not is_training:
            return every[:most]
        right = every[self.columns["right"][every]]
        wrong = every[~self.columns["right"][every]]
        self.rng.shuffle(right)
        right = right[:0] if self.rng.random() < 0.1 else right[:2]
        kept = np.concatenate([right, wrong[: most - len(right)]])
        return kept if len(kept) else every[:1]

    def batch(self, questions: NDArray[np.int64], most: int, device: torch.device, *, is_training: bool) -> Batch:
        """Pad and number the candidates of questions."""
        rows: defaultdict[str, list[Any]] = defaultdict(list)
        for place, question in enumerate(questions):
            rows["queries"].append([CLS, *self.rows("queries", "query_at", question)[:MAX_QUERY], SEP])
            page = self.columns["question_page"][question]
            page_start = self.columns["page_at"][page]
            starts = self.rows("sentences", "sentence_at", page)
            answers = self.rows("answer_spans", "answer_at", question)
            for candidate in self.candidates(question, most, is_training=is_training):
                start, end = (int(at) for at in self.columns["candidate_spans"][candidate])
                end = max(start + 1, min(end, start + MAX_PASSAGE))
                numbers = np.searchsorted(starts, np.arange(start, end), "right")
                base = len(rows["sentence_row"])
                kinds = np.unique(numbers, return_inverse=True)[1]
                for sentence in range(kinds.max() + 1):
                    inside = np.flatnonzero(kinds == sentence) + start
                    rows["sentence_label"].append(
                        any(inside[0] < stop and inside[-1] >= begin for begin, stop in answers)
                    )
                    rows["sentence_row"].append(len(rows["passages"]))
                rows["passages"].append([CLS, *self.tokens[page_start + start : page_start + end], SEP])
                rows["sentence_of_token"].append([-1, *(kinds + base), -1])
                rows["question"].append(place)
                rows["log_odds"].append(self.columns["log_odds"][candidate])
                rows["right"].append(self.columns["right"][candidate])

        def tensor(name: str, dtype: torch.dtype = torch.int64, filler: int | None = None) -> Tensor:
            value = np.array(rows[name]) if filler is None else padded(rows[name], filler)
            return torch.as_tensor(value, dtype=dtype).to(device, non_blocking=True)

        return Batch(
            queries=tensor("queries", filler=PAD),
            passages=tensor("passages", filler=PAD),
            question=tensor("question"),
            sentence_of_token=tensor("sentence_of_token", filler=-1),
            sentence_label=tensor("sentence_label", torch.float32),
            sentence_row=tensor("sentence_row"),
            log_odds=tensor("log_odds", torch.float32),
            right=tensor("right", torch.bool),
        )

    def epoch(self, split: int, size: int) -> list[NDArray[np.int64]]:
        """Batches of questions whose passages are about equally long, in random order."""
        questions = self.questions(split)
        firsts = self.columns["candidate_spans"][self.columns["candidate_at"][questions]].astype(np.int64)
        rng = self.rng if split == TRAIN else np.random.default_rng(0)
        noise = rng.random(len(questions)) * 30
        order = questions[np.argsort(firsts[:, 1] - firsts[:, 0] + noise, kind="stable")]
        batches = [order[at : at + size] for at in range(0, len(order), size)]
        rng.shuffle(batches)
        return batches


def padded(rows: list[list[Any]], filler: int) -> NDArray[np.int64]:
    """Rows of equal length."""
    made = np.full((len(rows), max(map(len, rows))), filler, dtype=np.int64)
    for place, row in enumerate(rows):
        made[place, : len(row)] = row
    return made


def loss_of(scores: Tensor, sentences: Tensor, batch: Batch) -> Tensor:
    """Listwise over the questions that have a right and a wrong candidate, and binary for all candidates and sentences."""
    count = len(batch.queries)
    least = torch.full((count,), -1e4, device=scores.device)
    top = least.scatter_reduce(0, batch.question, scores, "amax").detach()
    parts = (scores - top[batch.question]).exp()
    every = torch.zeros_like(least).index_add(0, batch.question, parts)
    held = torch.zeros_like(least).index_add(0, batch.question, parts * batch.right)
    has_both = (held > 0) & (held < every)
    listwise = -(held[has_both] / every[has_both]).log().mean() if has_both.any() else scores.sum() * 0
    binary = functional.binary_cross_entropy_with_logits(scores, batch.right.float())
    by_sentence = (
        functional.binary_cross_entropy_with_logits(sentences, batch.sentence_label) if len(sentences) else 0.0
    )
    return listwise + 0.5 * binary + 0.5 * by_sentence


@torch.no_grad()
def judged(
    reader: Reader, examples: Examples, split: int, device: torch.device, most: int
) -> dict[str, dict[str, Any]]:
    """For each set: right first and in three, before and after; how well the best score tells unanswerable questions."""
    reader.eval()
    rows: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    names = examples.columns["sets"]
    for questions in examples.epoch(split, 16)[: -(-most // 16) if split == HELD else None]:
        batch = examples.batch(questions, 12, device, is_training=False)
        with autocast(device):
            scores, _ = reader(batch)
        for place, question in enumerate(questions):
            mine = batch.question == place
            right, before, after = (value[mine].cpu().numpy() for value in (batch.right, batch.log_odds, scores))
            answered = float(len(examples.rows("answer_spans", "answer_at", question)) > 0)
            row: list[float] = [answered]
            for values in (before, after):
                order = np.argsort(-values, kind="stable")
                row += [float(right[order[:1]].any()), float(right[order[:3]].any()), float(values.max())]
            rows[str(names[examples.columns["question_set"][question]])].append(tuple(row))
    reader.train()
    return {name: figures(np.array(values)) for name, values in sorted(rows.items())}


def figures(table: NDArray[np.float64]) -> dict[str, Any]:
    """The figures of a set's questions: answered or not; then first, in three and best score, before and after."""
    answered = table[:, 0] > 0
    found: dict[str, Any] = {"n": int(answered.sum())}
    if answered.any():
        means_of = table[answered].mean(0)
        found |= {
            "first": f"{means_of[1]:.3f} -> {means_of[4]:.3f}",
            "in three": f"{means_of[2]:.3f} -> {means_of[5]:.3f}",
        }
        if not answered.all():
            found["unanswerable, AUC"] = f"{auc(table[:, 3], answered):.3f} -> {auc(table[:, 6], answered):.3f}"
    return found


def auc(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """How often a positive's score is above a negative's."""
    above = scores[positive][:, None] - scores[~positive][None, :]
    return float((above > 0).mean() + (above == 0).mean() / 2)


def autocast(device: torch.device) -> torch.autocast:
    """The type of the arithmetic: bfloat16 where it is fast, twice as fast as float32 on a Zen 5."""
    is_fast = device.type == "cuda" or torch.cpu.get_capabilities().get("avx512_bf16", False)
    return torch.autocast(device.type, torch.bfloat16, enabled=is_fast)


def main() -> None:
    """Train until the time is over, then judge and export."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", type=Path)
    parser.add_argument("--base", type=Path, help="MiniLM's model.safetensors; default: that of pullquote-minilm")
    parser.add_argument("--shape", choices=SHAPES, default="mid")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--epochs", type=float, default=6.0)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--questions", type=int, default=32, help="of a batch")
    parser.add_argument("--candidates", type=int, default=8, help="of a question")
    parser.add_argument("--held", type=int, default=1000, help="questions of held-out pages that are judged")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--narrow-base", action="store_true", help="only write a base of 33 MB to --out, which can travel"
    )
    options = parser.parse_args()
    if options.base is None:
        import pullquote_minilm  # noqa: PLC0415 - not on a machine that only has the base's file

        options.base = pullquote_minilm.directory() / "model.safetensors"
    if options.narrow_base:
        save_file(narrowed(load_file(options.base)), options.out)
        return
    torch.manual_seed(options.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    reader = Reader(options.base, options.shape).to(device)
    examples = Examples(options.examples, options.seed)
    train(reader, examples, device, options)
    for split, name in ((HELD, "held out"), (JUDGE, "judged")):
        for row, figures in judged(reader, examples, split, device, options.held).items():
            log(options.out, {"shape": options.shape, "split": name, "set": row, **figures})
    weights = {name: weight.detach().half().contiguous().cpu() for name, weight in reader.trained().items()}
    save_file(weights, options.out / "reader.safetensors", {"shape": options.shape})


def train(reader: Reader, examples: Examples, device: torch.device, options: argparse.Namespace) -> None:
    """Take steps until all epochs are done or the time is over. Goes on from a checkpoint."""
    options.out.mkdir(parents=True, exist_ok=True)
    checkpoint = options.out / "checkpoint.pt"
    optimizer = torch.optim.AdamW(reader.groups(options.rate), weight_decay=0.01, fused=True)
    rates = [group["lr"] for group in optimizer.param_groups]
    steps = int(options.epochs * math.ceil(len(examples.questions(TRAIN)) / options.questions))
    step, started, kept, losses = 0, time.monotonic(), time.monotonic(), []
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=False)
        reader.load_state_dict(state["reader"], strict=False)
        optimizer.load_state_dict(state["optimizer"])
        step, examples.rng = state["step"], state["rng"]

    def keep() -> None:
        state = {"reader": reader.trained(), "optimizer": optimizer.state_dict(), "step": step, "rng": examples.rng}
        torch.save(state, checkpoint.with_suffix(".new"))
        checkpoint.with_suffix(".new").replace(checkpoint)

    batches: Iterator[NDArray[np.int64]] = iter(())
    while step < steps and time.monotonic() - started < 60 * options.minutes:
        questions = next(batches, None)
        if questions is None:
            batches = iter(examples.epoch(TRAIN, options.questions))
            continue
        part = min(1.0, (step + 1) / 200) * max(0.02, 1 - step / steps)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * part
        batch = examples.batch(questions, options.candidates, device, is_training=True)
        with autocast(device):
            scores, sentences = reader(batch)
        loss = loss_of(scores, sentences, batch)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
        step += 1
        if step % 20 == 0:
            log(
                options.out,
                {
                    "step": step,
                    "of": steps,
                    "loss": round(float(torch.stack(losses).mean()), 4),
                    "seconds": round(time.monotonic() - started),
                },
            )
            losses.clear()
        if time.monotonic() - kept > CHECKPOINT_SECONDS:
            keep()
            kept = time.monotonic()
    keep()


def log(out: Path, row: dict[str, Any]) -> None:
    """Print a row, and add it to the log."""
    line = json.dumps(row)
    print(line, flush=True)
    with (out / "log.jsonl").open("a") as file:
        file.write(line + "\n")


if __name__ == "__main__":
    main()
