//! A line that may be a heading, and the lines around it, which say whether it is one.

use super::super::abbreviations::{first_word, is_opener};
use super::super::lines::{Line, LineShape, content, line_above};
use super::super::list_marks::{Mark, System};
use super::super::page_headers_footers::is_numbered_head;
use super::super::records::{is_attribution, is_person};
use super::super::table_captions::is_caption;
use super::super::wrapping::{NARROWEST_PARAGRAPH, column, continues_sentence, ends_sentence, has_room, width};
use super::Candidates;
use super::look::{Candidate, LONGEST, Look, has_small, is_open, look};
use crate::text::outline::{goes_on_in_lower_case, is_quotation, starts_quotation};

/// Wider lines are prose, whether a sentence ends in them or not.
pub(super) const NARROWEST_PROSE: usize = 50;
/// Characters of the longest heading between lines of text.
const WIDEST_BETWEEN: usize = 30;

/// Characters of the number before a title.
const LONGEST_NUMBER: usize = 6;

/// Wider lines are paragraphs, which end there although no sentence may.
const WIDEST_LINE: usize = 140;

/// Words of an entry of a menu.
const WORDS_OF_ENTRY: usize = 3;

/// Lines were wrapped at this width or a wider one.
const NARROWEST_WRAP: usize = 60;

/// Lines of an item, and blank ones after it.
const LINES_OF_ITEM: usize = 6;

/// A line and what is known of the others.
pub(super) struct Neighbours<'page, 'text> {
    pub(super) text: &'text str,
    pub(super) lines: &'page [Line],
    /// Of the lines below.
    pub(super) found: &'page Candidates<'text>,
    /// Whether markup says what is an item.
    pub(super) has_markup: bool,
    /// Whether bold titles stand on the page: of those, some may end with a colon.
    pub(super) has_bold: bool,
    pub(super) number: usize,
    /// The next line that is not blank.
    pub(super) below: Option<usize>,
    pub(super) is_first: bool,
}

impl<'text> Neighbours<'_, 'text> {
    pub(super) fn text_of(&self, number: usize) -> &'text str {
        self.lines[number].span().of(self.text)
    }

    pub(super) fn mark(&self, number: usize) -> Option<Mark<'text>> {
        Mark::at_start(content(self.text_of(number)))
    }

    pub(super) fn candidate(&self) -> Option<Candidate<'text>> {
        let line = &self.lines[self.number];
        if !matches!(line.shape, LineShape::Text | LineShape::Item) || line.span().len() > LONGEST {
            return None;
        }
        let candidate = look(self.text_of(self.number))
            .or_else(|| self.bracketed())
            .or_else(|| self.with_stop())
            .or_else(|| self.bold_with_colon())
            .or_else(|| self.year())
            .or_else(|| self.dated())
            .or_else(|| self.version())
            .or_else(|| self.bold_with_remark())
            .or_else(|| self.with_marks())?;
        if self.is_line_of_head(&candidate) || is_caption(content(self.text_of(self.number))) {
            return None;
        }
        // `12          Handbook`
        if !self.has_markup && self.is_alone() && self.is_gap() && is_numbered_head(self.text_of(self.number)) {
            return None;
        }
        // `30 days` is an item of a list.
        let is_numbered = |mark: Mark| {
            let marked = content(self.text_of(self.number))[..mark.end].ends_with(['.', ')', '、', '．']);
            let is_apart = self.is_alone() && self.is_gap();
            !self.has_markup || if mark.style.label.is_empty() { marked } else { is_apart }
        };
        if line.shape == LineShape::Item && !candidate.mark.is_some_and(is_numbered)
            || candidate.look == Look::Plain && self.names_source()
            || self.is_first_part(&candidate)
        {
            return None;
        }
        (self.may_follow(&candidate) && self.has_content(&candidate)).then_some(candidate)
    }

    /// Whether a line with a small letter is an item directly below its parent: `a. Mix the paint`.
    fn is_first_part(&self, candidate: &Candidate) -> bool {
        let is_letter = candidate.mark.is_some_and(|mark| mark.style.system == System::Lower);
        let own = &self.lines[self.number];
        let is_deeper = |above: &Line| above.shape == LineShape::Item && own.depth > above.depth;
        is_letter && own.shape == LineShape::Item && line_above(self.lines, self.number).is_some_and(is_deeper)
    }

    /// Whether a line names the source of the quotation that is all of the paragraph above it.
    fn names_source(&self) -> bool {
        let is_blank = |line: usize| self.lines[line].shape == LineShape::Blank;
        let Some(end) = self.number.checked_sub(2).filter(|end| is_blank(end + 1) && !is_blank(*end)) else {
            return false;
        };
        let start = (0..=end).rev().take_while(|line| !is_blank(*line)).last().unwrap_or(end);
        is_quotation(self.text_of(end)) && starts_quotation(self.text_of(start)) && is_person(self.text_of(self.number))
    }

    /// Whether a heading may stand after the line above.
    fn may_follow(&self, candidate: &Candidate) -> bool {
        let Some(above) = self.number.checked_sub(1) else { return true };
        let (line, text, own) = (&self.lines[above], self.text_of(above), self.text_of(self.number));
        let is_between = match line.shape {
            LineShape::Text | LineShape::Item if !line.hard => true,
            _ => return true,
        };
        let is_mark = candidate.mark.is_some_and(|mark| mark.is_sure) && !matches!(candidate.look, Look::Label(_));
        // A full line was wrapped, and goes on below.
        let widest = width(text).max(width(own));
        let is_full = widest >= NARROWEST_PARAGRAPH
            && self.below.is_some_and(|below| !has_room(own, self.text_of(below), widest));
        let is_short = !is_full && !has_room(text, own, width(text)) && has_room(text, own, NARROWEST_WRAP);
        let is_after_item = line.shape == LineShape::Item && is_short && column(own) <= column(text);
        let begins = above.checked_sub(1).is_none_or(|before| {
            !matches!(self.lines[before].shape, LineShape::Text | LineShape::Item)
                || ends_sentence(self.text_of(before))
        });
        let above = look(text).filter(|above| begins && above.look != Look::Plain);
        let is_ended = ends_sentence(text) || width(text) > WIDEST_LINE;
        let is_next =
            |above: Mark| candidate.mark.is_some_and(|own| own.is_bare() && !own.number.follows(above.number));
        let is_quantity = Mark::at_start(content(text)).is_some_and(|above| above.is_bare() && is_next(above));
        match candidate.look {
            _ if is_mark => false,
            Look::Plain if self.starts_clauses() => false,
            Look::Plain if above.is_some() => is_between,
            Look::Plain => (is_ended || is_after_item) && width(own) <= WIDEST_BETWEEN && !self.is_gap(),
            Look::Capitals if has_cells(text) => true,
            // `MIT, 2016`, the last line of a card.
            // `Sat 10-2`, the last line of hours.
            Look::Capitals | Look::Label(_) if self.is_gap() && !is_ended && above.is_none() => false,
            // `Hauptstr. 12`
            Look::Label(_) if is_bare_label(own) && !is_ended => false,
            Look::Capitals | Look::Label(_) | Look::Page | Look::Outer => is_ended || is_short || above.is_some(),
            // Quantities: `2 tsp Salt` above `1 tsp Sugar`.
            Look::Numbered(..) if is_quantity => false,
            Look::Numbered(..) => is_ended || above.is_some() || is_after_item,
        }
    }

    /// Whether no line stands directly above.
    pub(super) fn is_alone(&self) -> bool {
        self.number.checked_sub(1).is_none_or(|above| self.lines[above].shape == LineShape::Blank)
    }

    /// Whether a list stands directly below a line.
    fn starts_list(&self, line: usize) -> bool {
        self.lines.get(line + 1).is_some_and(|next| next.shape == LineShape::Item) && self.has_another_item(line + 1)
    }

    /// Whether clauses with letters stand directly below this line, which then begins their sentence.
    fn starts_clauses(&self) -> bool {
        let is_letter = |mark: Mark| matches!(mark.style.system, System::Lower | System::Upper);
        self.below.is_some_and(|below| self.mark(below).is_some_and(is_letter))
    }

    /// Whether a sentence stands above a blank line.
    fn is_below_sentence(&self) -> bool {
        self.is_alone() && self.number.checked_sub(2).is_some_and(|above| ends_sentence(self.text_of(above)))
    }

    /// Whether `Article 9` stands directly above, or above a blank line.
    pub(super) fn is_below_label(&self) -> bool {
        let is_blank = |line: &usize| self.lines[*line].shape == LineShape::Blank;
        let above = self.number.checked_sub(1 + usize::from(self.number > 1 && is_blank(&(self.number - 1))));
        above.is_some_and(|above| !is_blank(&above) && is_bare_label(self.text_of(above)))
    }

    /// Whether a blank line stands below.
    pub(super) fn is_gap(&self) -> bool {
        self.below.is_some_and(|below| below > self.number + 1) || self.lines[self.number].hard
    }

    /// Whether text, a list, a table, code or another heading stands below that this line may name.
    fn has_content(&self, candidate: &Candidate) -> bool {
        let Some(below) = self.below else { return false };
        let (own, text, is_gap) = (self.text_of(self.number), self.text_of(below), self.is_gap());
        let is_plain = candidate.look == Look::Plain;
        if let Some(next) = self.found.get(below) {
            // Nor does one item of a list.
            let is_sibling =
                |(mark, next): (Mark, Mark)| mark.style == next.style && mark.number.depth() >= next.number.depth();
            if candidate.look == next.look && candidate.mark.zip(next.mark).is_some_and(is_sibling) {
                return false;
            }
            // What a bold title says, above the next one.
            if is_plain && !self.is_first && content(text).starts_with("**") {
                return false;
            }
            // A menu of titles names nothing.
            return !is_plain
                || next.look != Look::Plain
                || ((self.is_first || self.is_below_sentence()) && is_gap)
                || (self.starts_list(below) && !self.is_in_menu());
        }
        let is_marked = candidate.mark.is_some_and(|mark| mark.is_sure) && !matches!(candidate.look, Look::Label(_));
        let next = self.mark(below);
        // `1. Term`, and its clause `1.1`.
        let is_parent = candidate.mark.zip(next).is_some_and(|(own, next)| next.number.is_below(own.number));
        let is_row = |(own, next): (Mark, Mark)| own.style == next.style && own.number.depth() == next.number.depth();
        let is_agenda = is_marked && !is_gap && self.is_agenda_item(text);
        match self.lines[below].shape {
            LineShape::Item => {
                // Wrapping may move a dash or `(a)` to the start of a line.
                let is_sure = next.is_some_and(|mark| {
                    mark.style.system == System::Bullet && !matches!(mark.style.label, "-" | "–" | "—")
                });
                let is_sibling = candidate.mark.zip(next).is_some_and(|(mark, next)| mark.style == next.style);
                (is_parent || !is_sibling && !is_marked)
                    && (!is_plain
                        || is_sure
                        || self.has_another_item(below)
                        || self.is_below_label()
                        || self.is_above_one_item(below))
                    && (is_plain || column(text) <= column(own) || candidate.mark.is_none())
                    && !is_open(own)
            }
            // Below a title, a bare one underlines it.
            LineShape::Fence { mark: b'~', bare: true, .. } => false,
            LineShape::Row | LineShape::Fence { .. } => !is_marked,
            LineShape::Text if is_marked && !is_gap && !is_parent && !is_agenda && !content(own).starts_with("**") => {
                false
            }
            // `Plum cake`, `Ingredients`, and a list.
            LineShape::Text if is_plain && !is_gap && self.is_alone() && self.starts_list(below) => {
                let is_lead_in =
                    ends_sentence(text) && (has_room(own, text, width(text)) || is_opener(first_word(text).0));
                (is_lead_in || look(text).is_some_and(|next| next.look == Look::Plain)) && !self.is_in_menu()
            }
            // `9.00 Welcome`, `9.30 Opening`
            LineShape::Text if !is_gap && candidate.mark.zip(next).is_some_and(is_row) => false,
            LineShape::Text => {
                let is_capitals = candidate.look == Look::Capitals && !is_gap && !has_small(text);
                let is_prose = ends_sentence(text)
                    || text.contains(". ")
                    || text.contains(['，', '。', '、'])
                    || width(text) >= NARROWEST_PROSE;
                let is_clear = !is_plain || is_gap || 2 * width(text) >= 3 * width(own) || self.is_above_sentence(text);
                // Addresses and menus have lines without a sentence.
                let is_line = |line: usize| self.lines.get(line).is_some_and(|line| line.shape == LineShape::Text);
                let is_close = !is_gap || candidate.look == Look::Capitals && is_line(below + 1);
                let names = is_prose
                    || (!is_plain && is_close && candidate.mark.is_none())
                    || !is_plain && self.starts_list(below)
                    || is_agenda
                    || content(own).starts_with("**")
                    || is_caption_of_article(text)
                    || self.is_alone() && is_bare_label(own)
                    || self.is_alone() && !is_gap && self.is_term(below);
                let is_menu = is_plain && self.is_in_menu();
                let goes_on = if is_gap {
                    (is_plain || candidate.look == Look::Capitals)
                        && (!self.is_first || is_open(own) || width(own) >= NARROWEST_PARAGRAPH)
                        && goes_on_in_lower_case(content(text))
                } else {
                    continues_sentence(own, text)
                };
                // Who signed the mail above.
                let is_signature = is_plain && is_gap && is_attribution(text);
                !goes_on && !is_capitals && names && is_clear && !is_menu && !is_signature
            }
            _ => false,
        }
    }

    /// Whether a line is a short one with deeper text below it: an option, a parameter.
    fn is_term(&self, line: usize) -> bool {
        let (term, below) = (self.text_of(line), self.lines.get(line + 1));
        let is_deeper = |below: &Line| {
            let text = below.span().of(self.text);
            below.shape == LineShape::Text && column(text) > column(term) + 1 && has_room(term, text, NARROWEST_WRAP)
        };
        column(term) == column(self.text_of(self.number)) && !ends_sentence(term) && below.is_some_and(is_deeper)
    }

    /// Whether a numbered line below a blank one is a title: it is short, and the text below begins a sentence; or it has
    /// room for the first word of that.
    fn is_agenda_item(&self, below: &str) -> bool {
        let own = self.text_of(self.number);
        let is_short = width(own) <= WIDEST_BETWEEN + LONGEST_NUMBER && has_room(own, below, NARROWEST_WRAP);
        self.is_alone()
            && (is_short && (ends_sentence(below) || self.ends_paragraph())
                || width(below) >= NARROWEST_PROSE && has_room(own, below, width(below)))
            && column(own) == column(below)
            && below.starts_with(char::is_uppercase)
    }

    /// Whether the line below is the last of its paragraph.
    pub(super) fn ends_paragraph(&self) -> bool {
        let after = self.below.and_then(|below| self.lines.get(below + 1));
        after.is_none_or(|line| line.shape == LineShape::Blank)
    }

    /// Whether this begins a paragraph, and the next line is a sentence that would have gone on in this one: `Opening hours` above
    /// `We open at nine.`
    fn is_above_sentence(&self, below: &str) -> bool {
        let own = self.text_of(self.number);
        let begins = below.starts_with(|c: char| c.is_alphabetic() && !c.is_lowercase());
        let is_new = has_room(own, below, width(below)) || below.ends_with('?') && is_opener(first_word(below).0);
        self.is_alone() && begins && ends_sentence(below) && !below.ends_with(':') && is_new
    }

    /// Whether a short line begins a paragraph that has only one item below it.
    fn is_above_one_item(&self, item: usize) -> bool {
        self.is_alone()
            && !self.is_gap()
            && self.ends_paragraph()
            && width(self.text_of(self.number)) <= WIDEST_BETWEEN
            && self.lines[item].shape == LineShape::Item
    }

    /// Whether a list goes on after its first item.
    fn has_another_item(&self, first: usize) -> bool {
        let Some(mark) = self.mark(first) else { return false };
        let is_next = |next: Mark| {
            next.style == mark.style && (next.style.system == System::Bullet || next.number.follows(mark.number))
        };
        let mut below = first + 1..self.lines.len().min(first + 1 + LINES_OF_ITEM);
        below.any(|line| self.lines[line].shape == LineShape::Item && self.mark(line).is_some_and(is_next))
    }

    /// Whether the two paragraphs above are short lines like this one, as in a menu.
    fn is_in_menu(&self) -> bool {
        let is_entry = |line: &usize| {
            let text = self.text_of(*line);
            self.lines[*line].shape == LineShape::Text
                && line.checked_sub(1).is_none_or(|above| self.lines[above].shape == LineShape::Blank)
                && !ends_sentence(text)
                && width(text) < NARROWEST_PROSE
                && text.split_whitespace().count() <= WORDS_OF_ENTRY
                && !has_digit(text)
        };
        let is_blank = |line: &usize| self.lines[*line].shape == LineShape::Blank;
        let mut above = (0..self.number).rev().filter(|line| !is_blank(line));
        let last = above.next().filter(|last| last + 1 < self.number);
        last.is_some_and(|last| {
            is_entry(&last) && above.next().is_some_and(|first| is_entry(&first)) && !self.is_headline(last)
        })
    }

    /// Whether the last of several lines above prose has more words than the one above it, as no entry of a menu has.
    fn is_headline(&self, above: usize) -> bool {
        let words = |line: usize| self.text_of(line).split_whitespace().count();
        let below = self.below.map(|below| self.text_of(below));
        words(self.number) > 1 && words(above) == 1 && below.is_some_and(ends_sentence)
    }
}

fn has_digit(line: &str) -> bool {
    line.contains(|c: char| c.is_ascii_digit())
}

/// Whether a line in brackets says what the article below it is about, as in Japanese laws: `（目的）`.
fn is_caption_of_article(line: &str) -> bool {
    line.starts_with('（') && line.ends_with('）')
}

/// Whether a line has cells with dots or spaces between them.
fn has_cells(line: &str) -> bool {
    line.contains("....") || line.trim_start().contains("   ")
}

/// Whether a line is nothing but the label and number of a part: `Article 9`, `§ 5`.
fn is_bare_label(line: &str) -> bool {
    let is_all = |mark: Mark| mark.end == content(line).trim_end().len();
    look(line).is_some_and(|one| matches!(one.look, Look::Label(_)) && one.mark.is_some_and(is_all))
}

/// The title of a part whose predecessor in number has one, although no blank line stands above it, or it is long, or no sentence
/// below it.
pub(super) fn next_title<'text>(text: &'text str, lines: &[Line], number: usize) -> Option<Candidate<'text>> {
    let is_blank = |line: &usize| lines.get(*line).is_some_and(|line| line.shape == LineShape::Blank);
    let is_alone = number.checked_sub(1).is_none_or(|above| is_blank(&above));
    let line_below =
        (number + 1..lines.len()).find(|line| !is_blank(line)).filter(|line| is_alone || *line == number + 1)?;
    let own = lines[number].span().of(text);
    let (below, shape) = (lines[line_below].span().of(text), lines[line_below].shape);
    let marks = [below, own].map(|line| Mark::at_start(content(line)));
    let [style, own_style] = marks.map(|mark| mark.map(|mark| mark.style));
    // `2. Related work` above `2.1. Counting`
    let is_parent = matches!(marks, [Some(below), Some(own)] if below.number.is_below(own.number));
    if is_parent || shape == LineShape::Item && is_alone && (style != own_style || number + 1 == line_below) {
        return look(own).filter(|one| matches!(one.look, Look::Numbered(..)));
    }
    if shape != LineShape::Text {
        return None;
    }
    let is_title = below.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit() && is_alone)
        && column(own) == column(below)
        && (is_alone || has_room(own, below, width(below).max(NARROWEST_PROSE)));
    look(own).filter(|one| is_title && matches!(one.look, Look::Numbered(..)))
}
