//! Titles that only their marks and place show: in brackets, with commas or a full stop, years and dates.

use super::super::abbreviations::{first_word, is_opener};
use super::super::lines::{LineShape, content};
use super::super::list_marks::System;
use super::super::marks::is_terminal;
use super::super::records::is_person;
use super::super::wrapping::{ends_sentence, has_room, width};
use super::look::{Candidate, Look, is_plain, is_title_case, look};
use super::neighbours::{NARROWEST_PROSE, Neighbours};
use crate::text::outline::is_quotation;

/// Words and characters of a title with commas and other marks.
const MOST_WORDS_WITH_MARKS: usize = 8;
const WIDEST_WITH_MARKS: usize = 60;

/// The same of a numbered one that ends with a full stop.
const MOST_WORDS_WITH_STOP: usize = 5;

/// Bytes of what stands after a bold title in its line.
const LONGEST_REMARK: usize = 60;

/// Lines between two years of a history.
const LINES_OF_YEAR: usize = 20;

/// Brackets around titles.
const BRACKETS: [(char, char); 5] = [('[', ']'), ('【', '】'), ('＜', '＞'), ('《', '》'), ('〔', '〕')];

/// What stands before the name of an author.
const BY: [&str; 8] = ["By", "by", "Von", "Par", "Por", "Di", "Door", "Autor:"];

/// What stands between the names of authors.
const AND: [&str; 7] = [", ", " and ", " & ", " und ", " et ", " y ", " e "];

/// Labels of what is about a page, not on its subject: a credit, a day, another page.
const CREDITS: [&str; 40] = [
    "Photo", "Photos", "Photograph", "Image", "Picture", "Credit", "Source", "Foto", "Bild", "Quelle", "Crédit",
    "Fuente", "Updated", "Published", "Posted", "Effective", "Stand", "Aktualisiert", "Veröffentlicht", "Publié",
    "Actualizado", "Publicado", "Aggiornato", "Related", "Last updated", "Last modified", "Last reviewed",
    "Last revised", "Image source", "Photo credit", "Read more", "Read also", "See also", "Lesen Sie auch",
    "Lire aussi", "Leia também", "Dernière mise à jour", "Ultimo aggiornamento", "Última atualização",
    "Última actualización",
];

/// Lines between the paragraphs of an article that are no part of it.
const ADVERTISEMENTS: [&str; 9] = [
    "Advertisement", "ADVERTISEMENT", "Anzeige", "Werbung", "Publicité", "Publicidad", "Pubblicità", "Publicidade",
    "Share this article",
];

/// The look of versions and days.
const VERSION: Look = Look::Label(0);

/// Words and bytes of a line with a version or a day.
const MOST_WORDS_OF_DATE: usize = 4;
const LONGEST_DATE: usize = 40;

impl<'text> Neighbours<'_, 'text> {
    /// `[Departure]` between a blank line and text.
    pub(super) fn bracketed(&self) -> Option<Candidate<'text>> {
        let own = self.text_of(self.number);
        let title = BRACKETS.iter().find_map(|(open, close)| own.strip_prefix(*open)?.strip_suffix(*close))?;
        let begins = title.starts_with(|c: char| c.is_alphabetic() && !c.is_lowercase());
        let is_title = begins && is_plain(title, title.split_whitespace().count());
        let is_apart = self.is_alone() && (!self.is_gap() || !own.is_ascii());
        (is_apart && is_title).then_some(Candidate { look: Look::Capitals, mark: None })
    }

    /// `2.4.0 (2024-02-11)`, `March 2024`: a version or a day alone on its line, above what belongs to it.
    pub(super) fn dated(&self) -> Option<Candidate<'text>> {
        let own = content(self.text_of(self.number));
        let is_part = |word: &str| {
            let word = word.trim_matches(['(', ')', '[', ']', ',', 'v']);
            word.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'/'))
                || matches!(word, "Version" | "Release")
        };
        let is_short = own.len() <= LONGEST_DATE && own.split_whitespace().count() <= MOST_WORDS_OF_DATE;
        let is_dated =
            is_short && own.contains(['(', '[', '-']) && own.contains('.') && own.split_whitespace().all(is_part);
        let has_version = own.split(' ').count() > 1;
        (is_dated && has_version && self.is_alone() && self.below.is_some())
            .then_some(Candidate { look: VERSION, mark: None })
    }

    /// `2.1.0` right above a list of changes.
    pub(super) fn version(&self) -> Option<Candidate<'text>> {
        let own = content(self.text_of(self.number));
        let (version, rest) = own.split_once([' ', ':']).unwrap_or((own, ""));
        let numbers = version.trim_start_matches(['v', '[']).trim_end_matches(']');
        let is_version = numbers.split('.').count() > 2
            && numbers.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
        let is_dated = rest.is_empty() || rest.len() <= LONGEST_DATE && rest.starts_with(['(', '-', '–', '—']);
        let is_above = self.lines.get(self.number + 1).is_some_and(|below| below.shape == LineShape::Item);
        (is_version && is_dated && is_above).then_some(Candidate { look: VERSION, mark: None })
    }

    /// Whether this is a line between the title of a page and its text: the author, the day, the version.
    pub(super) fn is_line_of_head(&self, candidate: &Candidate) -> bool {
        let own = content(self.text_of(self.number));
        let words = own.split_whitespace().count();
        if candidate.look == Look::Plain && (is_credit(own) || ADVERTISEMENTS.contains(&own)) {
            return true;
        }
        if candidate.look == Look::Plain
            && BY.iter().any(|by| {
                own.split_once(' ')
                    .is_some_and(|(first, name)| first == *by && is_person(name.split(',').next().unwrap_or_default()))
            })
        {
            return true;
        }
        let is_blank = |line: usize| self.lines[line].shape == LineShape::Blank;
        let Some(above) = (0..self.number).rev().find(|line| !is_blank(*line)) else { return false };
        // Who signs: `Kind regards,`, then the name.
        let is_signed = candidate.look == Look::Plain
            && self.is_alone()
            && above + 1 < self.number
            && above.checked_sub(1).is_none_or(is_blank)
            && self.text_of(above).ends_with([',', '，']);
        if is_signed {
            return true;
        }
        // `Maria K. Olsen and Wei Zhang`, and where they work.
        if matches!(candidate.look, Look::Plain | Look::Label(_))
            && (0..above).all(is_blank)
            && !self.is_gap()
            && are_authors(own)
            && !ends_sentence(self.below.map_or("", |below| self.text_of(below)))
        {
            return true;
        }
        // Directly below the first line, which no sentence ends.
        let is_below_title = self.is_alone()
            && self.is_gap()
            && (0..above).all(is_blank)
            && !ends_sentence(self.text_of(above))
            && words <= MOST_WORDS_WITH_MARKS;
        let has_digit = |line: &str| line.contains(|c: char| c.is_ascii_digit());
        let is_numbered =
            matches!(candidate.look, Look::Numbered(..)) && candidate.mark.is_some_and(|mark| !mark.is_bare());
        if !is_below_title || !has_digit(own) || is_numbered {
            return false;
        }
        // In a diary, other days follow.
        let is_other = |line: usize| self.found.get(line).is_some_and(|_| has_digit(self.text_of(line)));
        !(self.number + 1..self.lines.len()).any(is_other)
    }

    /// `If you take more tablets, or take them twice`, `May 10, 2021`, `2.0.0 (2021-01-05)`: a short line between a blank one and
    /// prose, which would go on in it or stands apart.
    pub(super) fn with_marks(&self) -> Option<Candidate<'text>> {
        let own = content(self.text_of(self.number));
        let below = self.text_of(self.below?);
        let is_title = own.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
            && width(own) <= WIDEST_WITH_MARKS
            && own.split_whitespace().count() <= MOST_WORDS_WITH_MARKS
            && !own.ends_with(|c: char| is_terminal(c) || c.is_ascii_punctuation() && c != ')')
            && !own.contains(['|', '=', '{', '<', '@', '_', '\t', '*', '`', '[', '#', ';', '"', '“'])
            && !own.match_indices(". ").any(|(at, _)| !own[..at].ends_with(|c: char| c.is_ascii_digit()))
            && !own.contains("  ");
        let is_apart = if self.is_gap() {
            2 * width(below) >= 3 * width(own)
        } else {
            width(below) >= NARROWEST_PROSE && has_room(own, below, width(below))
        };
        let is_source = self.number >= 2 && is_quotation(self.text_of(self.number - 2));
        (self.is_alone()
            && !is_source
            && is_title
            && is_apart
            && !below.starts_with(char::is_lowercase)
            && ends_sentence(below))
        .then_some(Candidate { look: Look::Plain, mark: None })
    }

    /// `Sec. 12. Penalties.` and `3. Fees.` between blank lines, `1. SERVICES.` above its clause `1.1`.
    pub(super) fn with_stop(&self) -> Option<Candidate<'text>> {
        let own = content(self.text_of(self.number)).strip_suffix('.')?;
        look(own).filter(|one| {
            let Some(mark) = one.mark.filter(|_| self.is_alone()) else { return false };
            let words = own.split_whitespace().count();
            let next = self.below.and_then(|below| self.mark(below));
            let below = self.below.map_or("", |below| self.text_of(below));
            let is_label = matches!(one.look, Look::Label(_));
            let title = own[mark.end..].trim_start_matches(['.', ':', ' ']);
            let counts = mark.style.system == System::Decimal || is_label && mark.style.system == System::Upper;
            let is_parent = next.is_some_and(|next| next.number.is_below(mark.number));
            let is_item = !is_parent && next.is_some_and(|next| next.style == mark.style);
            let most = match is_label {
                true if is_title_case(title) => usize::MAX,
                true => MOST_WORDS_WITH_MARKS,
                false => MOST_WORDS_WITH_STOP,
            };
            let is_apart = self.is_gap()
                || is_parent
                || is_label && ends_sentence(below) && has_room(own, below, width(below).max(NARROWEST_PROSE));
            words <= most && !is_item && is_apart && counts && !title.contains(". ") && !is_opener(first_word(title).0)
        })
    }

    /// `**Environment:**`, `**How long does it take?**` on a page with bold titles.
    pub(super) fn bold_with_colon(&self) -> Option<Candidate<'text>> {
        let own = self.text_of(self.number);
        let bold = own.strip_prefix("**").filter(|_| self.has_bold)?.strip_suffix("**")?;
        let title = bold.strip_suffix([':', '：', '?']).filter(|title| self.is_alone() && !title.contains("**"))?;
        look(title).map(|_| Candidate { look: Look::Capitals, mark: None })
    }

    /// `**Jane Doe** – CEO`, ``**`path`** *(string)*``
    pub(super) fn bold_with_remark(&self) -> Option<Candidate<'text>> {
        let own = self.text_of(self.number);
        let (title, rest) = own.strip_prefix("**")?.split_once("**")?;
        let is_remark = rest.len() <= LONGEST_REMARK
            && [" (", " *(", " –", " —", " - ", " | ", ", "].iter().any(|start| rest.starts_with(start))
            && !ends_sentence(rest.trim_end_matches('*'));
        let is_apart = self.is_alone() && !self.is_gap() && !title.is_empty() && width(title) <= WIDEST_WITH_MARKS;
        let is_text =
            self.below.is_some_and(|below| matches!(self.lines[below].shape, LineShape::Text | LineShape::Item));
        (is_remark && is_apart && is_text).then_some(Candidate { look: Look::Capitals, mark: None })
    }

    /// `1914` right above sentences, one of several years.
    pub(super) fn year(&self) -> Option<Candidate<'text>> {
        let is_year = |line: usize| {
            let text = self.text_of(line);
            text.len() == 4 && text.starts_with(['1', '2']) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        let below = self.below.filter(|below| is_year(self.number) && *below == self.number + 1)?;
        let begins = self
            .number
            .checked_sub(1)
            .is_none_or(|above| self.lines[above].shape == LineShape::Blank || ends_sentence(self.text_of(above)));
        let around = self.number.saturating_sub(LINES_OF_YEAR)..self.lines.len().min(self.number + LINES_OF_YEAR);
        let is_one = begins && ends_sentence(self.text_of(below)) && around.filter(|line| is_year(*line)).count() > 1;
        is_one.then_some(Candidate { look: Look::Plain, mark: None })
    }
}

/// Whether a line is several names, or one with initials.
fn are_authors(line: &str) -> bool {
    let names = AND.iter().fold(vec![line], |names, and| names.iter().flat_map(|name| name.split(and)).collect());
    let is_initial = |word: &str| word.len() == 2 && word.ends_with('.') && word.starts_with(char::is_uppercase);
    let is_name = |name: &&str| {
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '*' | '†'));
        is_person(&name.split(' ').filter(|word| !is_initial(word)).collect::<Vec<_>>().join(" "))
    };
    names.iter().all(is_name) && (names.len() > 1 || line.split(' ').any(is_initial))
}

/// Whether a line says where a picture is from, when a page changed, or what to read next, after a few words and a colon.
fn is_credit(line: &str) -> bool {
    line.split_once(':').is_some_and(|(label, _)| CREDITS.contains(&label.trim_end()))
}
