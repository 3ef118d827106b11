//! A page with its ranked seeds, and the passages chosen from it.

use std::ops::Range;

use crate::ranking::ranked_seeds::RankedSeeds;
use crate::ranking::terms::Language;
use crate::text::page::PageText;
use crate::text::pieces::Units;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seeds<'page> {
    /// Each window is a passage; no two overlap.
    Windows(&'page [Range<usize>]),
    /// Passages grow from units to at most this number of units, unless a group is longer.
    Units(usize),
    /// Passages are runs of units with a finite logit, and of their groups.
    Kept,
}

/// A page and its ranked seeds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankedPage<'page> {
    /// The text that units are spans of.
    pub page: &'page PageText<'page>,
    /// Ranges below are ranges of these.
    pub units: &'page Units,
    pub seeds: Seeds<'page>,
    pub scores: &'page RankedSeeds,
    /// Added to every seed's logit where pages compete for a budget.
    pub title: f32,
    /// Tokens before each unit, and in the whole page; empty without a token limit.
    pub tokens_before: &'page [usize],
    /// For the words that find duplicates.
    pub language: Language,
}

/// A run of units of a page.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Passage {
    /// First to last.
    pub units: Range<usize>,
    pub seed: usize,
    pub logit: f32,
    /// Passages that were left out because they nearly repeat this one.
    pub twins: Vec<Run>,
}

/// Units of one of the pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub page: usize,
    pub units: Range<usize>,
}
