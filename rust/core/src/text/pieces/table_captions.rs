//! Captions of tables and figures: `Table 3: Prices`.

/// Words before the number of a table's caption.
const TABLES: [&str; 17] = [
    "Table", "TABLE", "Tab.", "Listing", "Exhibit", "Tabelle", "Tableau", "TABLEAU", "Tabla", "TABLA", "Tabella",
    "Tabela", "Tabel", "Tablo", "Таблица", "Табл.", "Taulukko",
];

/// The same of pictures, which may show a table.
const FIGURES: [&str; 13] = [
    "Figure", "FIGURE", "Fig.", "FIG.", "Abbildung", "Abb.", "Figura", "Rys.", "Рис.", "Рисунок", "Chart", "Diagram",
    "Grafik",
];

/// The same of both, without a space before the number.
const TIGHT: [char; 6] = ['表', '図', '图', '圖', '표', '그'];

/// What says where the numbers of a table are from, and what they mean.
const NOTES: [&str; 24] = [
    "Source", "Sources", "Note", "Notes", "Quelle", "Quellen", "Anmerkung", "Anmerkungen", "Fuente", "Fuentes", "Nota",
    "Notas", "Fonte", "Fonti", "Fontes", "Bron", "Źródło", "Источник", "Примечание", "出典", "出所", "注", "来源",
    "資料",
];

/// Bytes of the label of a note.
const LONGEST_LABEL: usize = 24;

pub(crate) fn is_caption(text: &str) -> bool {
    is_caption_of(text, &TABLES) || is_figure(text) || {
        let rest = text.strip_prefix(TIGHT).map(|rest| rest.trim_start_matches(['림', ' ']));
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_numeric()))
            // Pandoc's.
            || text.strip_prefix(": ").is_some_and(|text| text.trim_start().starts_with(char::is_uppercase))
    }
}

/// Whether this is the caption of a picture.
pub(crate) fn is_figure(text: &str) -> bool {
    is_caption_of(text, &FIGURES)
}

fn is_caption_of(text: &str, names: &[&str]) -> bool {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    // The number comes before the names: in most texts the second word is none.
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, 'I' | 'V' | 'X'));
    words.next().is_some_and(is_number) && names.contains(&name.trim_start_matches(['*', '_']))
}

/// Whether a line below a table is a note on it: `Source: Harbour office`, `¹ Without fishing boats.`
pub(crate) fn is_note(text: &str) -> bool {
    let text = text.trim_start_matches(['_', '*']);
    let end = text.char_indices().take(LONGEST_LABEL).find(|(_, c)| matches!(c, ':' | '：'));
    end.is_some_and(|(end, _)| NOTES.contains(&text[..end].trim_end()))
        || text.starts_with(['¹', '²', '³', '⁴', '†', '‡', '※'])
}
