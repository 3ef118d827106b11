//! Units of measures, by all their names: 110.6 m are 110.6 metres, and $5 are 5 dollars. Of what is measured, the height of
//! "110.6 m tall" is that of "110.6 metres high".

use crate::text::pieces::marks::is_unspaced;

/// What a measure counts: a place in [`UNITS`].
pub(super) type Unit = usize;

/// The names of each unit, in English, German, French, Spanish, Italian, Portuguese and Japanese.
const UNITS: [&str; 31] = [
    "m metre metres meter meters metern mètre mètres metro metros metri メートル",
    "km kilometre kilometres kilometer kilometers kilometern kilomètre kilomètres kilómetro kilómetros chilometro chilometri \
        quilómetros quilômetros キロメートル キロ",
    "cm centimetre centimetres centimeter centimeters zentimeter centimètre centimètres centímetro centímetros centimetri センチ",
    "mm millimetre millimetres millimeter millimeters millimètre millimètres milímetro milímetros millimetri ミリ",
    "mi mile miles meile meilen",
    "ft foot feet",
    "inch inches zoll",
    "kg kilogram kilograms kilogramme kilogrammes kilogramm kilo kilos kilogramo kilogramos chilogrammi キログラム",
    "g gram grams gramme grammes gramm gramo gramos grammi グラム",
    "t tonne tonnes tonnen tonelada toneladas tonnellate トン",
    "lb lbs",
    "l litre litres liter liters litern litro litros litri リットル",
    "ml millilitre millilitres milliliter milliliters",
    "ha hectare hectares hektar hectárea hectáreas ettari ヘクタール",
    "s sec second seconds sekunde sekunden seconde secondes segundo segundos secondi 秒",
    "min mins minute minutes minuten minuto minutos minuti 分",
    "h hr hrs hour hours stunde stunden heure heures hora horas ora ore 時間",
    "day days tag tage tagen jour jours día días giorno giorni dia dias 日",
    "week weeks woche wochen semaine semaines semana semanas settimana settimane 週間",
    "month months monat monate monaten mois mes meses mese mesi か月 ヶ月",
    "year years yr yrs jahr jahre jahren an ans année années año años anno anni ano anos 年",
    "% percent pct prozent pourcent パーセント ％",
    "$ dollar dollars usd dólar dólares dollari ドル",
    "€ euro euros eur ユーロ",
    "£ gbp pound pounds sterling ポンド",
    "¥ ￥ yen jpy 円",
    "° degree degrees grad degré degrés grado grados gradi 度",
    "w watt watts ワット",
    "kw kilowatt kilowatts",
    "mw megawatt megawatts",
    "kwh",
];

const PERCENT: Unit = 21;

/// The marks that stand before their number.
const MARKS: [char; 5] = ['$', '€', '£', '¥', '￥'];

/// Words for what is measured, in the same languages.
const DIMENSIONS: [&str; 7] = [
    "tall high height hoch höhe haut hauteur alto alta altura altezza 高さ",
    "long length lang länge longueur largo larga longitud lungo lunga lunghezza 長さ",
    "wide width broad breit breite large largeur ancho ancha anchura largo larghezza 幅",
    "deep depth tief tiefe profond profondeur profundo profunda profundidad profondo profondità 深さ",
    "weigh weighs weighed weight heavy wiegt wog gewicht schwer pèse poids pesa pesaba peso 重さ",
    "cost costs price priced paid kostet kostete preis coûte coûtait prix cuesta costaba precio costa prezzo 値段 価格",
    "last lasts lasted takes took duration dauer dauert dauerte dure durée dura duración durata",
];

fn place(table: &[&str], word: &str) -> Option<usize> {
    let word = word.to_lowercase();
    table.iter().position(|names| names.split_whitespace().any(|name| name == word))
}

/// The unit that a word names. Letters stand for one only after a number.
pub(super) fn unit(word: &str) -> Option<Unit> {
    place(&UNITS, word)
}

/// The unit that a word names in a sentence with a number of that unit: "per cent" is two words.
pub(super) fn unit_in_words(word: &str) -> Option<Unit> {
    let is_percent = ["cent", "ciento", "cento"].contains(&word.to_lowercase().as_str());
    if is_percent { Some(PERCENT) } else { unit(word) }
}

/// What a word says is measured.
pub(super) fn dimension(word: &str) -> Option<usize> {
    place(&DIMENSIONS, word)
}

/// The unit of the number at a place of a text: the word or mark after it, or the mark before it.
pub(super) fn unit_of(text: &str, start: usize, end: usize) -> Option<Unit> {
    let after = text[end..].trim_start_matches([' ', '\u{a0}', '\u{202f}', '-', '‑']);
    if text[end..].len() - after.len() <= '\u{202f}'.len_utf8() {
        if let Some(mark) = after.chars().next().filter(|c| matches!(c, '%' | '％' | '°' | '$' | '€' | '£' | '¥'))
        {
            return unit(&mark.to_string());
        }
        let is_word = |c: char| (c.is_alphabetic() || c == 'ー') && is_unspaced(c) == after.starts_with(is_unspaced);
        let word = &after[..after.find(|c: char| !is_word(c)).unwrap_or(after.len())];
        let two = ["per cent", "por ciento", "por cento", "per cento", "pour cent"];
        if two.iter().any(|name| after.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))) {
            return Some(PERCENT);
        }
        if let Some(unit) = unit(word).or_else(|| unit_at_start(word)) {
            return Some(unit);
        }
    }
    let before = text[..start].trim_end_matches(' ').chars().next_back().filter(|c| MARKS.contains(c))?;
    unit(&before.to_string())
}

/// The longest unit that a run of letters without spaces begins with.
fn unit_at_start(word: &str) -> Option<Unit> {
    let begins = |name: &&str| word.starts_with(*name) && name.chars().all(is_unspaced);
    let all = UNITS.iter().enumerate().flat_map(|(unit, names)| names.split_whitespace().map(move |name| (unit, name)));
    let fitting = all.filter(|(_, name)| begins(name));
    fitting.max_by_key(|(_, name)| name.len()).map(|(unit, _)| unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Unit> {
        let start = text.find(|c: char| c.is_ascii_digit()).unwrap();
        let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
        let length = text[start..].find(|c: char| !is_of_number(c)).unwrap_or(text.len() - start);
        let number = text[start..start + length].trim_end_matches(['.', ',']);
        unit_of(text, start, start + number.len())
    }

    #[test]
    fn a_unit_has_many_names() {
        for (one, other) in [
            ("110.6 m tall", "110.6 metres high"),
            ("5km", "5 kilometers"),
            ("40%", "40 per cent"),
            ("40 percent", "40 %"),
            ("40 Prozent", "40 por ciento"),
            ("$5", "5 dollars"),
            ("€ 7", "7 Euro"),
            ("a 20-year loan", "20 years"),
            ("高さは333メートルである", "333 m"),
            ("500円です", "¥500"),
            ("高さは338 mである", "338 m"),
        ] {
            assert!(of(one).is_some() && of(one) == of(other), "{one:?} {:?}, {other:?} {:?}", of(one), of(other));
        }
        assert_ne!(of("5 km"), of("5 miles"));
        for none in ["5 apples", "5. Meters are long", "5"] {
            assert_eq!(of(none), None, "{none:?}");
        }
        assert_eq!((unit_in_words("cent"), unit_in_words("Metres")), (Some(PERCENT), unit("m")));
        assert_eq!((unit("%"), dimension("Tall")), (Some(PERCENT), dimension("high")));
    }
}
