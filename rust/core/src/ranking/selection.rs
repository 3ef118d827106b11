//! Selection: which windows of a page are encoded for a query, and which of them estimate its cosines.

/// The windows of a page to score against a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WindowSelection {
    /// All, and the units if they are encoded.
    All,
    /// Sorted.
    Only(Vec<usize>),
}

/// The windows that estimate a page's cosines. They are the same for every effort.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CosineSample {
    /// The best by prediction.
    pub(crate) best: Vec<usize>,
    /// Some of the others, which correct the prediction.
    pub(crate) others: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) windows: WindowSelection,
    /// `None` if all windows estimate the page's cosines.
    pub(crate) sample: Option<CosineSample>,
    /// Whether it is a preview: a few windows, from whose scores more are selected if the page may answer.
    pub(crate) is_preview: bool,
}

impl WindowSelection {
    /// The selected rows of a page with `all` rows, sorted.
    pub(crate) fn rows(&self, all: usize) -> Vec<usize> {
        match self {
            Self::All => (0..all).collect(),
            Self::Only(windows) => windows.clone(),
        }
    }

    pub(crate) fn contains(&self, window: usize) -> bool {
        match self {
            Self::All => true,
            Self::Only(windows) => windows.binary_search(&window).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_has_the_rows_that_it_names() {
        assert!(WindowSelection::Only(vec![2, 5]).contains(5) && !WindowSelection::Only(vec![2, 5]).contains(3));
        assert_eq!(WindowSelection::Only(vec![2, 5]).rows(7), [2, 5]);
        assert_eq!(WindowSelection::All.rows(3), [0, 1, 2]);
    }
}
