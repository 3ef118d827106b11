//! Terms: forms of one word share a term, spans lie in the text, and scores follow the formula of BM25.

use std::collections::HashMap;
use std::ops::Range;

use proptest::prelude::*;
use pullquote_core::ranking::terms::{Language, PageTerms, QueryTerm, Term, guess_language, query_terms, terms};
use pullquote_core::text::page::ByteSpan;

use crate::common::sentences;

/// The words of the terms, as written in the text.
fn words_of(text: &str, language: Language) -> Vec<&str> {
    terms(text, language).iter().map(|word| word.span.of(text)).collect()
}

fn ids(text: &str, language: Language) -> Vec<Term> {
    terms(text, language).iter().map(|word| word.term).collect()
}

#[test]
fn words_numbers_and_compounds_have_terms_for_the_whole_and_the_parts() {
    let cases: &[(&str, &[&str])] = &[
        ("The cat, sat!", &["The", "cat", "sat"]),
        ("max_batch_tokens=8", &["max_batch_tokens", "max", "batch", "tokens", "8"]),
        ("maxBatchTokens", &["maxBatchTokens", "max", "Batch", "Tokens"]),
        ("HTTPServer2", &["HTTPServer2", "HTTP", "Server", "2"]),
        ("RFC 9110 by NATO", &["RFC", "9110", "by", "NATO"]),
        ("an e-mail.", &["an", "e-mail", "e", "mail"]),
        ("the U.S. of", &["the", "U.S", "of"]),
        ("Warsaw's “O’Brien” l'homme", &["Warsaw", "O’Brien", "O", "Brien", "l", "homme"]),
        ("3.5 and 2.11", &["3.5", "and", "2.11"]),
        ("v2.11.0", &["v2.11.0", "v", "2.11.0", "2.11.0"]),
        ("10,000 people, 1,2", &["10,000", "people", "1,2", "1,2", "1,2"]),
        ("1000,2000,3000,4000,5000,6000,7,8", &["1000", "2000", "3000", "4000", "5000", "6000", "7", "8"]),
        ("in 2024-05-01.", &["in", "2024-05-01", "2024", "05", "01"]),
        ("C++, F# or C", &["C++", "C", "F#", "F", "or", "C"]),
        ("room B or B, and I went", &["room", "B", "B", "or", "B", "and", "I", "went"]),
        ("1 250,00 a day", &["1 250,00", "1", "250", "00", "a", "day"]),
        ("0113 496 0172", &["0113 496 0172", "0113", "496", "0172"]),
        ("2019 2020 2021, 10 20 30", &["2019", "2020", "2021", "10", "20", "30"]),
        ("AT&T __init__ a/b", &["AT&T", "AT", "T", "init", "a", "b"]),
        ("1970s", &["1970s", "1970", "s"]),
        ("soft\u{ad}ly m² word¹", &["soft\u{ad}ly", "m", "word"]),
        ("infor-\nmation", &["infor-\nmation", "infor", "mation"]),
        ("Sub-\r\n  Committee", &["Sub-\r\n  Committee", "Sub", "Committee"]),
        ("soft\u{ad}\nly", &["soft\u{ad}\nly", "soft\u{ad}", "ly"]),
        ("one -\ntwo-\n- three-\n\nfour- five", &["one", "two", "three", "four", "five"]),
        ("2024-\n05 x-\n5", &["2024", "05", "x", "5"]),
        ("צה\"ל, \"ד״ר\" צ'רצ'יל", &["צה\"ל", "ד״ר", "צ'רצ'יל", "צ", "רצ", "יל"]),
        ("我来到北京。", &["我来", "来到", "到北", "北京"]),
        ("東京タワーです", &["東京", "京タ", "タワー", "タワ", "ワー", "ーで", "です"]),
        ("AI技術, 木", &["AI", "技術", "木"]),
        ("세종대왕이 만든", &["세종대왕이", "세종대왕", "세종", "종대", "대왕", "왕이", "만든"]),
        ("집에서 책을", &["집에서", "집", "집에", "에서", "책을", "책"]),
        ("ภาษาไทยง่าย มาก", &["ภาษา", "ไทย", "ง่าย", "มาก"]),
        ("हिन्दी में", &["हिन्दी", "में"]),
        ("", &[]),
        ("— … !?", &[]),
    ];
    for (text, expected) in cases {
        assert_eq!(words_of(text, Language::None), *expected, "{text:?}");
    }
}

#[test]
fn spellings_of_one_word_share_a_term() {
    let cases: &[(Language, &[&str])] = &[
        (Language::None, &["max_batch_tokens", "maxBatchTokens", "MAX_BATCH_TOKENS", "max-batch-tokens"]),
        (Language::None, &["email", "e-mail", "Email", "E\u{2010}mail", "ｅｍａｉｌ"]),
        (Language::None, &["US", "U.S."]),
        (Language::None, &["10,000", "10000", "１００００", "١٠٠٠٠"]),
        (Language::None, &["1.234.567,5", "1,234,567.5", "1 234 567,5", "1'234'567.5"]),
        (
            Language::None,
            &["1250", "1,250", "1,250.00", "1250.00", "1250,00", "1.250,00", "1 250", "1\u{a0}250", "1\u{202f}250"],
        ),
        (Language::None, &["1250", "1\u{2009}250", "1'250", "1’250.00", "1 250,00"]),
        (Language::None, &["1250000", "12,50,000", "1,250,000", "1.250.000", "1 250 000", "12,50,000.00"]),
        (Language::None, &["01134960172", "0113 496 0172", "011 349 601 72"]),
        (Language::None, &["COVID-19", "covid19"]),
        (Language::None, &["é", "e\u{301}", "E", "É"]),
        (Language::English, &["connected", "connections", "Connecting", "connection's"]),
        (Language::German, &["Häuser", "häusern", "HAUS", "Ha\u{308}usern"]),
        (Language::German, &["Straße", "STRASSE", "Strassen"]),
        (Language::Spanish, &["músicas", "musica", "MÚSICA"]),
        (Language::Greek, &["Αθήνα", "ΑΘΗΝΑ", "αθηνα"]),
        (Language::Turkish, &["IŞIK", "ışık"]),
        (Language::Turkish, &["İstanbul", "istanbul"]),
        (Language::Russian, &["городов", "город", "ГОРОДАМИ"]),
        (Language::None, &["أحمد", "احمد", "أَحْمَد", "احمـــد"]),
        (Language::None, &["مدرسة", "مدرسه"]),
        (Language::None, &["क़लम", "क\u{93c}लम", "कलम"]),
        (
            Language::English,
            &["information", "infor-\nmation", "INFOR-\r\n MATION", "infor\u{ad}\nmation", "in\u{ad}formation"],
        ),
        (Language::English, &["well-known", "well-\nknown", "well\u{2010}\nknown"]),
        (Language::None, &["office", "oﬃce", "ｏｆｆｉｃｅ", "OﬃCE"]),
        (Language::None, &["first flat", "ﬁrst ﬂat"]),
        (Language::None, &["צה\"ל", "צה״ל"]),
        (Language::None, &["پاکستان", "پاكستان"]),
        (Language::None, &["ہفتہ", "هفته"]),
        (Language::Persian, &["کتاب\u{200c}ها", "کتابها"]),
        (Language::None, &["ঢাকা", "ঢাকায়", "ঢাকায\u{9bc}", "ঢাকার", "ঢাকাতে"]),
        (Language::None, &["বাংলাদেশ", "বাংলাদেশের", "বাংলাদেশে"]),
        (Language::None, &["ছাত্র", "ছাত্ররা", "ছাত্রদের", "ছাত্রগুলো"]),
        (Language::Tamil, &["புத்தகம்", "புத்தகங்கள்"]),
        (Language::Indonesian, &["buku", "bukunya", "BUKU"]),
        (Language::None, &["ng'ombe", "Ng’ombe"]),
        (Language::None, &["タワー", "ﾀﾜｰ"]),
        (Language::None, &["ガイド", "ｶﾞｲﾄﾞ"]),
    ];
    for (language, spellings) in cases {
        let first = ids(spellings[0], *language)[0];
        for spelling in &spellings[1..] {
            assert_eq!(ids(spelling, *language)[0], first, "{} and {spelling}", spellings[0]);
        }
    }
    // In Vietnamese accents distinguish words. Only a query without any accents matches all of them.
    let matches = |query: &str, page: &str| {
        let page = ids(page, Language::Vietnamese);
        query_terms(query, Language::Vietnamese).iter().all(|term| page.contains(&term.term))
    };
    assert!(matches("Đà Nẵng", "đà nẵng") && matches("da nang", "Đà Nẵng") && !matches("má", "mã"));
    assert!(ids("v2.11.0", Language::None).contains(&ids("2.11", Language::None)[0]));
    assert!(ids("10.000", Language::None).contains(&ids("10000", Language::None)[0]));
    let different = [
        ("1.5", "15"),
        ("3.14", "314"),
        ("1.2.3", "123"),
        ("1.25", "125"),
        ("192.168.100.200", "192168100200"),
        ("2024-05-01", "20240501"),
        ("1 25", "125"),
        ("01 234", "01234"),
        ("2019 2020 2021", "201920202021"),
        ("1998 250", "1998250"),
        ("C++", "C"),
        ("cat", "car"),
        ("日本", "本日"),
    ];
    for (one, other) in different {
        assert_ne!(ids(one, Language::None)[0], ids(other, Language::None)[0], "{one} and {other}");
    }
}

/// In languages with suffixes, or without spaces between words.
#[test]
fn a_query_matches_the_forms_on_a_page() {
    let cases = [
        (Language::None, "서울", "서울에서 만났다"),
        (Language::None, "서울에서", "그는 서울로 갔다"),
        (Language::None, "집", "집에서 책을 읽었다"),
        (Language::None, "대학교", "대학교에서는"),
        (Language::Persian, "تهران کتاب", "کتاب‌های تهران"),
        (Language::Persian, "خانه", "خانهٔ پدری"),
        (Language::None, "کتاب", "یہ کتاب، اچھی ہے۔"),
        (Language::None, "বই", "বইটি ভালো।"),
        (Language::Tamil, "சென்னை", "சென்னையில் மழை"),
        (Language::None, "ວຽງຈັນ", "ຂ້ອຍຢູ່ວຽງຈັນ"),
        (Language::None, "ភ្នំពេញ", "ខ្ញុំរស់នៅភ្នំពេញ។"),
        (Language::None, "ရန်ကုန်", "ကျွန်တော် ရန်ကုန်မှာနေတယ်။"),
        (Language::None, "กรุงเทพ", "ฉันอยู่กรุงเทพมานาน"),
        (Language::Indonesian, "buku", "Buku-buku itu mahal."),
        (Language::None, "Nairobi", "Aliishi Nairobi."),
        (Language::None, "ירושלים", "העיר ירושלים."),
    ];
    for (language, query, page) in cases {
        let page_terms = ids(page, language);
        let is_match = query_terms(query, language).iter().any(|term| page_terms.contains(&term.term));
        assert!(is_match, "{query} in {page}");
    }
}

#[test]
fn the_language_is_guessed_from_stop_words() {
    for (text, expected) in [
        ("The name of the town was taken from that of a duke who ruled it.", Language::English),
        ("Der Name der Stadt wurde von dem eines Herzogs genommen, der sie regierte.", Language::German),
        ("Le nom de la ville est pris du duc qui la gouvernait.", Language::French),
        ("El nombre de la ciudad fue tomado del duque que la gobernaba y no de su hijo.", Language::Spanish),
        ("O nome da cidade foi tomado do duque que não a governava e de seu filho.", Language::Portuguese),
        ("Название города было взято от герцога, который в нём правил, а не от его сына.", Language::Russian),
        ("Назва міста була взята від герцога, який у ньому правив, а не від його сина.", Language::Ukrainian),
        ("शहर का नाम उस राजा से लिया गया था जो वहाँ राज करता था।", Language::Hindi),
        ("Tên của thành phố được lấy từ tên của một công tước và không có gì khác.", Language::Vietnamese),
        ("東京は日本の首都である。", Language::None),
        ("fn main() { let x = parse(input)?; println!(x); }", Language::None),
        ("", Language::None),
    ] {
        assert_eq!(guess_language(text), expected, "{text}");
    }
}

#[test]
fn query_terms_skip_stop_words_unless_there_is_nothing_else() {
    let words = |query, language| -> Vec<(String, f32)> {
        query_terms(query, language).into_iter().map(|term| (term.text, term.weight)).collect()
    };
    let owned = |expected: &[(&str, f32)]| -> Vec<(String, f32)> {
        expected.iter().map(|&(word, weight)| (word.to_owned(), weight)).collect()
    };
    assert_eq!(words("Who is the king of kings?", Language::English), owned(&[("king", 1.0)]));
    assert_eq!(words("to be or not to be", Language::English).len(), 4);
    assert_eq!(words("¿Donde esta Málaga?", Language::Spanish), owned(&[("Málaga", 1.0)]));
    assert_eq!(words("top_k", Language::English), owned(&[("top_k", 1.0), ("top", 0.5), ("k", 0.5)]));
    assert_eq!(words("", Language::English), owned(&[]));
    let numbered =
        owned(&[("error", 1.0), ("E18", 3.0), ("E", 0.5), ("18", 0.5), ("part", 1.0), ("7", 1.0), ("74", 2.0)]);
    assert_eq!(words("error E18, part 7, 74", Language::English), numbered);
    // A single letter means more with the noun before it, even if it is a stop word.
    let lettered = owned(&[("plan", 1.0), ("plan A", 1.0), ("cost", 1.0)]);
    assert_eq!(words("What does plan A cost?", Language::English), lettered);
}

#[test]
fn coverage_is_the_share_of_the_query_in_a_range() {
    let text = "The cat sat. A dog ran. Cats and dogs.";
    let page = PageTerms::new(text, &sentences(text), Language::English);
    let coverage =
        |query: &str, ranges: &[Range<usize>]| page.find(&query_terms(query, Language::English)).coverage(ranges);
    assert_eq!(coverage("cat or dogs", &[0..1, 1..2, 2..3, 0..3, 1..1]), [0.5, 0.5, 1.0, 1.0, 0.0]);
    // A term that is missing on the page is the rarest of all.
    let rarity = |with: f64| (1.0 + (3.5 - with) / (with + 0.5)).ln();
    let expected = rarity(2.0) / (rarity(2.0) + rarity(0.0));
    assert!((f64::from(coverage("cats or mice", &[0..1, 0..0])[0]) - expected).abs() < 1e-6);
    assert_eq!(coverage("mice", &[0..3, 0..0]), [0.0, 0.0]);
    assert_eq!(coverage("", &[0..3, 0..0]), [0.0, 0.0]);
}

#[test]
fn pages_without_units_and_queries_without_terms_score_zero() {
    let query = query_terms("cat", Language::None);
    assert!(PageTerms::new("", &[], Language::None).find(&query).bm25(&[]).is_empty());
    let page = PageTerms::new("a cat", &[ByteSpan { start: 0, end: 5 }], Language::None);
    assert_eq!(page.find(&[]).bm25(&[0..1, 0..0]), [0.0, 0.0]);
    assert!(page.find(&query).bm25(&[0..1, 0..0])[0] > 0.0);
}

/// The textbook formula of BM25, over strings.
fn plain_bm25(documents: &[Vec<&str>], query: &[&str]) -> Vec<f64> {
    let size = |n: usize| f64::from(u32::try_from(n).expect("a small number"));
    let average = (size(documents.iter().map(Vec::len).sum()) / size(documents.len())).max(1.0);
    let tables: Vec<HashMap<&str, usize>> = documents
        .iter()
        .map(|words| {
            let mut table = HashMap::new();
            for &word in words {
                *table.entry(word).or_insert(0) += 1;
            }
            table
        })
        .collect();
    let score = |table: &HashMap<&str, usize>, length: usize| {
        query
            .iter()
            .filter_map(|&word| {
                let tf = size(*table.get(word)?);
                let df = size(tables.iter().filter(|table| table.contains_key(word)).count());
                let idf = (1.0 + (size(documents.len()) - df + 0.5) / (df + 0.5)).ln();
                Some(idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * size(length) / average)))
            })
            .sum::<f64>()
    };
    tables.iter().zip(documents).map(|(table, words)| score(table, words.len())).collect()
}

const WORDS: [&str; 8] = ["ox", "cat", "dog", "emu", "newt", "yak", "boar", "seal"];

/// Languages with a script, a stemmer or rules of their own.
const LANGUAGES: [Language; 16] = [
    Language::None,
    Language::Arabic,
    Language::Armenian,
    Language::English,
    Language::Finnish,
    Language::French,
    Language::German,
    Language::Greek,
    Language::Hindi,
    Language::Hungarian,
    Language::Persian,
    Language::Polish,
    Language::Russian,
    Language::Tamil,
    Language::Turkish,
    Language::Vietnamese,
];

proptest! {
    #[test]
    fn spans_lie_in_the_text_on_characters_and_in_order(
        text in "\\PC{0,80}|[a-cA-C0-9é漢かカ한ไ '’._,&#+\u{ad}\u{301}ﾞ-]{0,80}|[à-öα-ώа-яա-ֆا-يऄ-हா-்஀-ௐ ]{0,80}"
    ) {
        for language in LANGUAGES {
            let mut last = 0;
            for word in terms(&text, language) {
                let span = word.span;
                prop_assert!(last <= span.start && span.start < span.end && span.end <= text.len());
                prop_assert!(text.is_char_boundary(span.start) && text.is_char_boundary(span.end));
                last = span.start;
            }
            let _ = query_terms(&text, language);
        }
        let _ = guess_language(&text);
    }

    #[test]
    fn bm25_equals_the_textbook_formula(
        sentences in prop::collection::vec(prop::collection::vec(0..WORDS.len(), 1..7), 1..12),
        ends in prop::collection::vec((0..12_usize, 0..12_usize), 1..9),
        query in prop::collection::btree_set(0..WORDS.len(), 0..5),
    ) {
        let sentences: Vec<Vec<&str>> =
            sentences.iter().map(|words| words.iter().map(|&word| WORDS[word]).collect()).collect();
        let (mut text, mut units) = (String::new(), Vec::new());
        for words in &sentences {
            let start = text.len();
            text += &words.join(" ");
            units.push(ByteSpan { start, end: text.len() });
            text += ". ";
        }
        let ranges: Vec<Range<usize>> = ends
            .iter()
            .map(|&(a, b)| a.min(b).min(units.len())..a.max(b).min(units.len()))
            .collect();
        let words: Vec<&str> = query.into_iter().map(|word| WORDS[word]).collect();
        let query: Vec<QueryTerm> = query_terms(&words.join(" "), Language::None);
        let documents: Vec<Vec<&str>> = ranges.iter().map(|range| sentences[range.clone()].concat()).collect();
        let scores = PageTerms::new(&text, &units, Language::None).find(&query).bm25(&ranges);
        for (score, expected) in scores.iter().zip(plain_bm25(&documents, &words)) {
            prop_assert!((f64::from(*score) - expected).abs() < 1e-4, "{score} is not {expected}");
        }
    }
}
