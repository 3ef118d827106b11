//! Languages with a stemmer or a list of stop words.

use frostem::Algorithm;

/// A language with a stemmer or a list of stop words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// Unknown, or one that needs neither, such as Chinese: words stay as they are.
    #[default]
    None,
    Arabic,
    Armenian,
    Catalan,
    Czech,
    Danish,
    Dutch,
    English,
    Finnish,
    French,
    German,
    Greek,
    Hindi,
    Hungarian,
    Indonesian,
    Italian,
    Norwegian,
    Persian,
    Polish,
    Portuguese,
    Romanian,
    Russian,
    Spanish,
    Swedish,
    Tamil,
    Turkish,
    Ukrainian,
    /// Has stop words and no stemmer, because its words never change.
    Vietnamese,
}

impl Language {
    /// Snowball's stemmer of the language.
    pub(super) const fn algorithm(self) -> Option<Algorithm> {
        Some(match self {
            Self::None | Self::Vietnamese => return None,
            Self::Arabic => Algorithm::Arabic,
            Self::Armenian => Algorithm::Armenian,
            Self::Catalan => Algorithm::Catalan,
            Self::Czech => Algorithm::Czech,
            Self::Danish => Algorithm::Danish,
            Self::Dutch => Algorithm::Dutch,
            Self::English => Algorithm::English,
            Self::Finnish => Algorithm::Finnish,
            Self::French => Algorithm::French,
            Self::German => Algorithm::German,
            Self::Greek => Algorithm::Greek,
            Self::Hindi => Algorithm::Hindi,
            Self::Hungarian => Algorithm::Hungarian,
            Self::Indonesian => Algorithm::Indonesian,
            Self::Italian => Algorithm::Italian,
            Self::Norwegian => Algorithm::Norwegian,
            Self::Persian => Algorithm::Persian,
            Self::Polish => Algorithm::Polish,
            Self::Portuguese => Algorithm::Portuguese,
            Self::Romanian => Algorithm::Romanian,
            Self::Russian => Algorithm::Russian,
            Self::Spanish => Algorithm::Spanish,
            Self::Swedish => Algorithm::Swedish,
            Self::Tamil => Algorithm::Tamil,
            Self::Turkish => Algorithm::Turkish,
            Self::Ukrainian => Algorithm::Ukrainian,
        })
    }

    /// Whether words that differ only in accents are mostly different words.
    pub(super) const fn accents_distinguish_words(self) -> bool {
        matches!(self, Self::Vietnamese)
    }

    pub(super) const fn bit(self) -> u32 {
        1 << self as u32
    }
}
