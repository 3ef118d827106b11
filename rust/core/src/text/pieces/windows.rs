//! Windows: ranges of units, all of one length, at equal steps.
//!
//! The first window starts at the first unit. The last one is the first to reach the last unit, and may be shorter.
//! Unless the caller allows gaps, every unit is in at least one window.

use std::ops::Range;

use crate::error::{Error, Result};

/// Windows of `highlight_length` units, one every `step_size` units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// At least 1.
    highlight_length: usize,
    /// At least 1; above `highlight_length` only with gaps.
    step_size: usize,
}

/// Units of all windows of a page together that are always allowed: 16 million.
const FREE_UNITS: usize = 1 << 24;

/// How often the windows of a longer page may repeat its text.
const MAX_REPEATS: usize = 1000;

impl Windows {
    /// Checks both options.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if either is below 1, or if the step is larger than the length, which would skip text, without
    /// `allow_gaps`.
    pub fn new(highlight_length: i64, step_size: i64, allow_gaps: bool) -> Result<Self> {
        for (name, value) in [("highlight_length", highlight_length), ("step_size", step_size)] {
            if value < 1 {
                return Err(Error::of_field(name, format!("{name} must be at least 1, not {value}")));
            }
        }
        if step_size > highlight_length && !allow_gaps {
            let message = format!(
                "step_size {step_size} is larger than highlight_length {highlight_length}, so text between windows \
                 would be skipped; pass allow_gaps=True if that is intended"
            );
            return Err(Error::of_field("step_size", message));
        }
        // A number beyond usize is larger than any text.
        let count = |value: i64| usize::try_from(value).unwrap_or(usize::MAX);
        Ok(Self { highlight_length: count(highlight_length), step_size: count(step_size) })
    }

    pub const fn highlight_length(self) -> usize {
        self.highlight_length
    }

    pub const fn step_size(self) -> usize {
        self.step_size
    }

    /// Checks the length of all windows over this number of units together: every stage reads them.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` above [`FREE_UNITS`] plus [`MAX_REPEATS`] for each unit.
    pub fn check_total(self, units: usize) -> Result<()> {
        let length = self.highlight_length.min(units);
        let count = |step: usize| (units - length).div_ceil(step) + 1;
        let (windows, most) = (count(self.step_size), FREE_UNITS.saturating_add(units.saturating_mul(MAX_REPEATS)));
        if windows.saturating_mul(length) <= most {
            return Ok(());
        }
        let steps = (most / length).saturating_sub(1).max(1);
        let step = (units - length).div_ceil(steps);
        Err(Error::of_field(
            "highlight_length",
            format!(
                "highlight_length {length} with step_size {} cuts a page of {units} units into {windows} windows, which repeat \
                 its text {} times; pass a step_size of at least {step}, or a smaller highlight_length",
                self.step_size,
                windows.saturating_mul(length) / units,
            ),
        ))
    }

    /// The windows over this number of units, as ranges of their indexes.
    pub fn ranges(self, units: usize) -> impl Iterator<Item = Range<usize>> {
        let range = move |start: usize| start..start.saturating_add(self.highlight_length).min(units);
        std::iter::successors((units > 0).then(|| range(0)), move |window| {
            let start = window.start.saturating_add(self.step_size);
            (window.end < units && start < units).then(|| range(start))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use proptest::prelude::*;

    fn ranges(highlight_length: i64, step_size: i64, units: usize) -> Vec<(usize, usize)> {
        let windows = Windows::new(highlight_length, step_size, true).expect("both are positive");
        windows.ranges(units).map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn the_last_window_is_the_first_to_reach_the_end() {
        assert_eq!(ranges(3, 2, 0), []);
        assert_eq!(ranges(3, 2, 1), [(0, 1)]);
        assert_eq!(ranges(3, 2, 3), [(0, 3)]);
        assert_eq!(ranges(3, 2, 6), [(0, 3), (2, 5), (4, 6)]);
        assert_eq!(ranges(3, 5, 5), [(0, 3)]);
        assert_eq!(ranges(3, 5, 6), [(0, 3), (5, 6)]);
        assert_eq!(ranges(i64::MAX, i64::MAX, 2), [(0, 2)]);
        assert_eq!(ranges(1, i64::MAX, 2), [(0, 1)]);
    }

    #[test]
    fn invalid_options_are_errors_with_their_name_and_value() {
        for (length, step, named) in [
            (0, 1, ["highlight_length", "0"]),
            (3, -2, ["step_size", "-2"]),
            (3, 5, ["step_size 5", "highlight_length 3"]),
            (3, 5, ["step_size", "allow_gaps"]),
        ] {
            let error = Windows::new(length, step, false).expect_err("out of range");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(named.iter().all(|name| error.message().contains(name)), "{error}");
        }
    }

    #[test]
    fn windows_that_repeat_their_page_too_often_name_a_step_size_that_works() {
        let windows = |length, step| Windows::new(length, step, false).unwrap();
        for (length, step, units) in [(3, 1, 1 << 30), (1000, 1, 1 << 30), (4000, 1, 5000), (i64::MAX, 1, 1 << 30)] {
            windows(length, step).check_total(units).unwrap();
        }
        for (length, step, units) in [(10_000, 1, 20_000), (500_000, 1, 1_000_000), (500_000, 200, 1_000_000)] {
            let error = windows(length, step).check_total(units).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let advised = error.message().split("at least ").nth(1).unwrap().split(',').next().unwrap();
            let advised: i64 = advised.parse().unwrap();
            assert!(error.message().contains(&format!("highlight_length {length} with step_size {step}")), "{error}");
            windows(length, advised).check_total(units).unwrap();
            assert!(windows(length, advised - 1).check_total(units).is_err(), "{error}");
        }
    }

    proptest! {
        #[test]
        fn windows_cover_every_unit(length in 1_i64..9, step in 1_i64..9, units in 0_usize..60) {
            let step = step.min(length);
            let windows = ranges(length, step, units);
            let mut covered = 0;
            for (index, &(start, end)) in windows.iter().enumerate() {
                prop_assert_eq!(Ok(start), usize::try_from(step).map(|step| index * step));
                prop_assert!(start <= covered && covered < end, "window {} adds nothing or leaves a hole", index);
                prop_assert!(i64::try_from(end - start) == Ok(length) || index + 1 == windows.len());
                covered = end;
            }
            prop_assert_eq!(covered, units);
        }
    }
}
