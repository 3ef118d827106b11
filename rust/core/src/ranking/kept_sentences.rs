//! Kept sentences: the probabilities that a pruner gives the sentences of a text, by the rule of its layout, and which
//! of them it keeps.

use std::ops::Range;

use super::probability::{logit, score};
use crate::encoder::model::PrunerLayout;
use crate::text::page::ByteSpan;
use crate::tokens::{PrunerTokens, SentenceIds};

/// Spans of likely tokens are joined over gaps of this number of characters, and dropped if they have fewer than that.
const GAP_CHARS: usize = 20;
const SPAN_CHARS: usize = 30;

/// Without a likely sentence, the tagger keeps the best one with at least this probability.
const LEAST_BEST: f32 = 0.05;

/// Probabilities of 0 and 1 have finite logits, so that they are not those of text that was not read.
const MAX_LOGIT: f32 = 60.0;

/// The probability of each sentence from the logits of its tokens; 0 for one without tokens. `query` is the number of the
/// query's ids.
pub(crate) fn probabilities(
    pruner: &PrunerTokens,
    text: &str,
    sentences: &SentenceIds,
    logits: &[f32],
    query: usize,
    threshold: f32,
) -> Vec<f32> {
    let mean_score = |logits: &[f32]| mean(logits.iter().map(|logit| score(*logit)));
    match pruner.layout() {
        PrunerLayout::OpenProvence => {
            let longest = pruner.longest_part(query);
            let of_parts = |range: Range<usize>| mean(logits[range].chunks(longest).map(mean_score));
            sentences.ranges().map(of_parts).collect()
        }
        PrunerLayout::Provence => sentences.ranges().map(|range| mean_score(&logits[range])).collect(),
        // Its layer is linear, so that the mean of its values is the value of the mean state.
        PrunerLayout::SentenceTagger => {
            let of_mean =
                |range: Range<usize>| if range.is_empty() { 0.0 } else { score(mean(logits[range].iter().copied())) };
            sentences.ranges().map(of_mean).collect()
        }
        PrunerLayout::TokenClassifier => {
            let tokens: Vec<f32> = logits.iter().map(|logit| score(*logit)).collect();
            let are_in = in_spans(text, sentences.spans(), &tokens, threshold);
            let of_sentence = |range: Range<usize>| {
                let likely = range.clone().filter(|token| are_in[*token]).map(|token| tokens[token]);
                let unlikely = || mean(tokens[range.clone()].iter().copied()).min(threshold.next_down()).max(0.0);
                likely.reduce(f32::max).unwrap_or_else(unlikely)
            };
            sentences.ranges().map(of_sentence).collect()
        }
    }
}

/// The probability from which sentences of a text with these probabilities are kept.
pub(crate) fn least_kept(pruner: &PrunerTokens, probabilities: impl Iterator<Item = f32>, own: Option<f32>) -> f32 {
    let threshold = own.unwrap_or(pruner.threshold());
    let best = probabilities.fold(0.0, f32::max);
    let is_best_kept = own.is_none() && pruner.layout() == PrunerLayout::SentenceTagger && best >= LEAST_BEST;
    if best < threshold && is_best_kept { best } else { threshold }
}

/// The logit of a kept sentence.
pub(crate) fn logit_of(probability: f32) -> f32 {
    logit(probability).clamp(-MAX_LOGIT, MAX_LOGIT)
}

/// 0 without values.
fn mean(values: impl Iterator<Item = f32>) -> f32 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + f64::from(value), count + 1));
    #[expect(clippy::cast_possible_truncation, reason = "values are single precision to begin with")]
    let mean = (sum / f64::from(count.max(1))) as f32;
    mean
}

/// Which tokens reach a threshold and are in a span of such tokens that is long enough.
fn in_spans(text: &str, spans: &[ByteSpan], probabilities: &[f32], threshold: f32) -> Vec<bool> {
    let chars = |start: usize, end: usize, most: usize| {
        text.get(start..end).unwrap_or_default().chars().take(most.saturating_add(1)).count()
    };
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for token in (0..spans.len()).filter(|token| probabilities[*token] >= threshold) {
        let is_near = |run: &&mut Vec<usize>| {
            let end = run.last().map_or(0, |last| spans[*last].end);
            chars(end, spans[token].start, GAP_CHARS) <= GAP_CHARS
        };
        match runs.last_mut().filter(is_near) {
            Some(run) => run.push(token),
            None => runs.push(vec![token]),
        }
    }
    let mut are_in = vec![false; spans.len()];
    for run in runs {
        let (first, last) = (spans[run[0]], spans[run[run.len() - 1]]);
        if chars(first.start, last.end, SPAN_CHARS) >= SPAN_CHARS {
            for token in run {
                are_in[token] = true;
            }
        }
    }
    are_in
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_spans_are_dropped_and_near_ones_joined() {
        let text = "one of those words was said there, and another long one of them at the very end";
        let words: Vec<ByteSpan> = text
            .split(' ')
            .map(|word| {
                let start = word.as_ptr() as usize - text.as_ptr() as usize;
                ByteSpan { start, end: start + word.len() }
            })
            .collect();
        let likely = |numbers: &[usize]| -> Vec<usize> {
            let probabilities: Vec<f32> =
                (0..words.len()).map(|word| if numbers.contains(&word) { 0.2 } else { 0.1 }).collect();
            let are_in = in_spans(text, &words, &probabilities, 0.2);
            (0..words.len()).filter(|word| are_in[*word]).collect()
        };
        assert_eq!(likely(&[0, 1, 2]), [] as [usize; 0], "17 characters");
        assert_eq!(likely(&[0, 2, 6]), [0, 2, 6], "over a gap of 15 characters");
        assert_eq!(likely(&[0, 9]), [] as [usize; 0], "over a gap of 40 characters");
        assert_eq!(likely(&[0, 1, 9, 11, 13, 16]), [9, 11, 13, 16], "32 characters");
    }
}
