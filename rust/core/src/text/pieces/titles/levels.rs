//! The levels of headings: of the order in which their looks appear.

use super::super::lines::LineShape;
use super::look::Look;

/// The looks of the headings that are open, outermost first.
#[derive(Default)]
pub(super) struct Levels(Vec<Look>);

impl Look {
    /// The look of a heading, from that of the heading below it and the shape of the line below that.
    pub(super) fn above(self, below: Option<(Self, LineShape)>, is_first: bool) -> Self {
        match (self, below) {
            (Self::Plain, Some((Self::Plain, LineShape::Item))) => Self::Outer,
            (Self::Plain | Self::Capitals, Some(_)) if is_first => Self::Page,
            (Self::Plain, Some((Self::Plain, _))) => Self::Outer,
            _ => self,
        }
    }
}

impl Levels {
    /// Ends the headings of a look, and those in them.
    pub(super) fn close(&mut self, look: Look) {
        if let Some(place) = self.0.iter().rposition(|other| *other == look) {
            self.0.truncate(place);
        }
    }

    /// The level of the next heading of this look: that of the last such one, or one below all that are open; of `ends` if that
    /// is the look of sections which end before it.
    pub(super) fn next(&mut self, look: Look, ends: Option<Look>) -> u8 {
        let Self(outer) = self;
        // `References` after the last of several sections with numbers.
        let place = ends.and_then(|main| outer.iter().position(|other| *other == main));
        if let Some(place) = place.filter(|_| !outer.contains(&look)) {
            outer.truncate(place);
        }
        let is_deeper = |other: &Look| matches!((look, other), (Look::Numbered(depth, form), Look::Numbered(other, same)) if *other >= depth && *same == form);
        if let Some(place) = outer.iter().rposition(|other| *other == look) {
            outer.truncate(place);
        } else {
            while outer.pop_if(|other| is_deeper(other)).is_some() {}
            while outer.pop_if(|other| *other == Look::Plain).is_some() {}
        }
        outer.push(look);
        u8::try_from(outer.len()).unwrap_or(u8::MAX)
    }
}
