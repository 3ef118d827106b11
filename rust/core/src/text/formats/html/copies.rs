//! Elements with `aria-hidden` that say what something visible next to them says too.
//!
//! A browser shows what is hidden from screen readers only, so it stays: a page behind a dialog, a paragraph. It is left
//! out if it is decoration without a letter or digit, or the copy of a formula or of text for screen readers.

use super::events::{Event, Events};

/// Events of an element whose parts are compared: copies are short.
const MAX_EVENTS: usize = 512;

/// Characters of those parts.
const MAX_CHARS: usize = 2000;

/// What the visible part of a page has had so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Events.
    pub(super) events: usize,
    /// Formulas of `math`, and elements for screen readers only.
    pub(super) spoken: usize,
}

/// An element with `aria-hidden`.
#[derive(Debug)]
pub(super) struct Candidate {
    /// Its depth among the open elements.
    pub(super) depth: usize,
    pub(super) start: Progress,
    /// `None` while it is open.
    pub(super) end: Option<Progress>,
}

/// Removes those of the candidates, which are children of one element, that are copies of the rest of that element.
pub(super) fn remove(page: &mut Events, source: &str, parent: Progress, end: Progress, candidates: &[Candidate]) {
    if end.events - parent.events > MAX_EVENTS {
        return;
    }
    let ranges: Vec<_> = candidates.iter().filter_map(|c| Some((c.start, c.end?))).collect();
    let inside: usize = ranges.iter().map(|(start, end)| end.spoken - start.spoken).sum();
    let is_spoken = end.spoken - parent.spoken > inside;
    let mut rest = String::new();
    let mut at = parent.events;
    let bounds = ranges.iter().map(|(start, end)| (start.events, end.events));
    for (start, next) in bounds.chain([(end.events, end.events)]) {
        rest.extend(said(page, source, at, start));
        at = next;
    }
    for (start, end) in ranges.into_iter().rev() {
        let is_line = page.list[start.events..end.events].iter().all(Event::is_in_line);
        let is_same = || {
            let own: String = said(page, source, start.events, end.events).collect();
            !own.is_empty() && own == rest
        };
        if is_spoken && is_line || is_same() {
            page.list.drain(start.events..end.events);
        }
    }
}

/// Whether the element that these last events are of says nothing.
pub(super) fn is_decoration(page: &Events, source: &str, start: usize) -> bool {
    page.list.len() - start <= MAX_EVENTS && said(page, source, start, page.list.len()).next().is_none()
}

/// The letters and digits of a range of events, as far as they are compared.
fn said<'page>(
    page: &'page Events,
    source: &'page str,
    start: usize,
    end: usize,
) -> impl Iterator<Item = char> + 'page {
    let texts = page.list[start..end].iter().map(|event| match *event {
        Event::Text(span) => span.of(source),
        Event::Decoded { text, .. } => text.of(&page.decoded),
        _ => "",
    });
    texts.flat_map(str::chars).take(MAX_CHARS).filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase)
}
