//! Captions of tables and figures: `Table 3: Prices`.

/// Words before the number of a caption.
const NAMES: [&str; 17] = [
    "Table", "Tab.", "Figure", "Fig.", "Listing", "Tabelle", "Abbildung", "Abb.", "Tableau", "Tabla", "Figura",
    "Tabella", "Tabela", "Tabel", "Таблица", "Рис.", "Tablo",
];

pub(crate) fn is_caption(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let name = words.next().is_some_and(|word| NAMES.contains(&word.trim_start_matches(['*', '_'])));
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, 'I' | 'V' | 'X'));
    name && words.next().is_some_and(is_number)
}
