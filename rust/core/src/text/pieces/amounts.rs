//! Amounts of money after an abbreviation, as price lists have them: `Erw. 5 €, erm. 3 €.`

/// Signs and words of money.
const SIGNS: [char; 5] = ['€', '$', '£', '¥', '₽'];
const WORDS: [&str; 9] = ["EUR", "Euro", "euros", "CHF", "zł", "kr", "Kč", "Ft", "руб"];

/// Whether a text starts with an amount that ends its part of a sentence. Sentences hardly ever start with one.
pub(super) fn starts_with_amount(text: &str) -> bool {
    let number = text.trim_start_matches(SIGNS).trim_start();
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '\'' | '-' | '–');
    let rest = number.trim_start_matches(is_part);
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let after = rest.trim_start();
    let unit = WORDS.iter().find_map(|word| after.strip_prefix(word)).or_else(|| after.strip_prefix(SIGNS));
    if let Some(after) = unit {
        return after.is_empty() || after.starts_with([',', '.', ';', ')', '/']);
    }
    let digits = &number[..number.len() - rest.len()];
    let is_ended = rest.is_empty() || digits.ends_with([',', '.']) || rest.starts_with([';', ')']);
    number.len() < text.len() && is_ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_end_a_part_of_a_sentence() {
        for text in ["3 €. Kinder frei", "5,50 EUR, Gruppen", "€ 4.20; more", "$5."] {
            assert!(starts_with_amount(text), "{text}");
        }
        for text in ["3 Kinder kamen.", "$5 is enough.", "3 € kostet es.", "1990. It", "Euro"] {
            assert!(!starts_with_amount(text), "{text}");
        }
    }
}
