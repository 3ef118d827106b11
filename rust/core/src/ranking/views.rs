//! Which windows of a page a query is compared with.

/// Which windows of a page a query is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// All of them.
    Whole,
    /// These, in order.
    Part(Vec<usize>),
}

/// The windows of a page that tell how cosines lie on it: those that words choose, each for itself, and some of the others,
/// which stand for all of those. The same ones tell it whatever the effort, so that this changes no score.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) chosen: Vec<usize>,
    pub(crate) others: Vec<usize>,
}

impl View {
    /// The rows of a page that has so many, in order: windows, and what is encoded beside them where all are.
    pub(crate) fn rows(&self, all: usize) -> Vec<usize> {
        match self {
            Self::Whole => (0..all).collect(),
            Self::Part(windows) => windows.clone(),
        }
    }

    /// Some windows and others.
    pub(crate) fn of(windows: &[usize], more: &[usize]) -> Self {
        let mut windows = [windows, more].concat();
        windows.sort_unstable();
        windows.dedup();
        Self::Part(windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_has_each_window_once_and_in_order() {
        assert_eq!(View::of(&[3, 4], &[9, 2, 3]), View::Part(vec![2, 3, 4, 9]));
        assert_eq!(View::Part(vec![2, 5]).rows(7), [2, 5]);
        assert_eq!(View::Whole.rows(3), [0, 1, 2]);
    }
}
