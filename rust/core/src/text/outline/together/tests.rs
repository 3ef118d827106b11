use crate::text::pieces::Units;

fn groups(text: &str) -> Vec<&str> {
    let units = Units::sentences(text, None, &[], &crate::runtime::call::unstopped).unwrap();
    units.groups.iter().map(|group| units.span(group).of(text)).collect()
}

#[test]
fn headings_items_tables_and_code_stay_together() {
    let cases: [(&str, &[&str]); 8] = [
        ("# One\n\nFirst. Second.", &["# One\n\nFirst.", "Second."]),
        ("# One\n## Two\nFirst. Second.", &["# One\n## Two\nFirst.", "Second."]),
        ("Intro.\n- A thing. And more.\n- Another.", &["Intro.\n- A thing. And more.\n- Another."]),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n\nText.", &["| a | b |\n|---|---|\n| 1 | 2 |", "Text."]),
        ("Run:\n\n```\nls\n\nps\n```\n\nDone.", &["Run:\n\n```\nls\n\nps\n```", "Done."]),
        (
            "It runs. It locks nothing. (But ALTER does.) More.",
            &["It runs.", "It locks nothing. (But ALTER does.)", "More."],
        ),
        (
            "To build, run\n\n```\nmake\n```\n\nfrom here. Done.",
            &["To build, run\n\n```\nmake\n```\n\nfrom here.", "Done."],
        ),
        ("EXIT STATUS\n   It is 0. Errors are 1.\n", &["EXIT STATUS\n   It is 0.", "Errors are 1."]),
    ];
    for (text, expected) in cases {
        assert_eq!(groups(text), expected, "{text:?}");
    }
}

#[test]
fn a_line_with_a_colon_groups_with_the_text_after_it() {
    let cases: [(&str, &[&str]); 10] = [
        ("We need:\n- Apples\n- Pears\n\nDone.", &["We need:\n- Apples\n- Pears", "Done."]),
        (
            "Nothing here. It appears::\n\nMy name is one\nTwo is my name\n\nDone.",
            &["Nothing here.", "It appears::\n\nMy name is one\nTwo is my name", "Done."],
        ),
        ("Note:", &["Note:"]),
        ("**Which potatoes.** Old ones. New ones are wet.", &["**Which potatoes.** Old ones.", "New ones are wet."]),
        ("7. Is it free?\n\nYes, it is. More.\n\nAnd more.", &["7. Is it free?\n\nYes, it is. More.", "And more."]),
        ("Who knows? Nobody does.", &["Who knows?", "Nobody does."]),
        (
            "Text.\n\n(12) It got no smaller. Is this a bug?\n\nNo, this is how it works. More.",
            &["Text.", "(12) It got no smaller. Is this a bug?\n\nNo, this is how it works. More."],
        ),
        ("8. It is slow\n\nIndexes make it fast. More.", &["8. It is slow\n\nIndexes make it fast.", "More."]),
        ("1. One thing.\n\n2. Another.", &["1. One thing.", "2. Another."]),
        ("One: two.\n\nThree.", &["One: two.", "Three."]),
    ];
    for (text, expected) in cases {
        assert_eq!(groups(text), expected, "{text:?}");
    }
    let list = format!("We need:\n{}", "- One thing of about fifty characters for this list.\n".repeat(30));
    assert_eq!(groups(&list).len(), 30, "the first item comes along");
}

#[test]
fn what_announces_is_never_the_end() {
    let cases: [(&str, &[&str]); 9] = [
        (
            "Is it dry?\nYes, in most of the cases seen. More.\n\nIs it old?\nNo, it is not.",
            &["Is it dry?\nYes, in most of the cases seen. More.", "Is it old?\nNo, it is not."],
        ),
        (
            "Q: Is it dry?\nA: Yes, it is.\nQ: Is it old?\nA: No, never.",
            &["Q: Is it dry?\nA: Yes, it is.", "Q: Is it old?\nA: No, never."],
        ),
        ("Is it dry?\nIs it old?\n\nText.", &["Is it dry?", "Is it old?\n\nText."]),
        (
            "- One plan\n  - Price: 2\n  - Users: 3\n- Two plan\n  - Price: 4",
            &["- One plan\n  - Price: 2\n  - Users: 3", "- Two plan\n  - Price: 4"],
        ),
        (
            "You may leave if\n\n- you are done\n- it is late\n\nText.",
            &["You may leave if\n\n- you are done\n- it is late", "Text."],
        ),
        ("Text. Use this command.\n\n```\nls\n```\n\nMore.", &["Text.", "Use this command.\n\n```\nls\n```", "More."]),
        (
            "Table 1: Prices.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nText.",
            &["Table 1: Prices.\n\n| a | b |\n|---|---|\n| 1 | 2 |", "Text."],
        ),
        ("All is well. It ends.\n— Ann Lee\n\nText.", &["All is well. It ends.\n— Ann Lee", "Text."]),
        (
            "The cost of it was\n\n7\n\nfive million. Then more.",
            &["The cost of it was\n\n7\n\nfive million.", "Then more."],
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(groups(text), expected, "{text:?}");
    }
}

#[test]
fn what_people_say_after_dashes_is_no_list() {
    let text = "Ann Lee, asked by us\n\n— Where is it?\n— Here. It was there.\n\n— And the other one?\n— There.";
    let expected = ["Ann Lee, asked by us\n\n— Where is it?\n— Here. It was there.", "— And the other one?\n— There."];
    assert_eq!(groups(text), expected);
}

#[test]
fn an_answer_that_does_not_fit_is_begun() {
    let answer = "It is a long answer, as people give it. ".repeat(20);
    assert_eq!(groups(&format!("Is it dry?\n\n{answer}"))[0], "Is it dry?\n\nIt is a long answer, as people give it.");
    assert_eq!(groups("Q. Is it?\nA. Yes. It is.\nOnly here.\n\nQ. Was it?\nA. No.").len(), 2);
}

#[test]
fn a_title_with_nothing_but_a_list_stays_with_all_of_it() {
    let text = "# Needed\n\n- a spade\n- two rakes\n\n# Done\n\n- One day. It was long.\n  - a part\n- Another.";
    assert_eq!(
        groups(text)[..2],
        ["# Needed\n\n- a spade\n- two rakes", "# Done\n\n- One day. It was long.\n  - a part"]
    );
}

#[test]
fn the_title_of_a_page_stays_with_its_start() {
    let cases: [(&str, &[&str]); 3] = [
        ("Leaflet: Opticlar\n1 mg/ml\n\nIt is new. More.", &["Leaflet: Opticlar\n1 mg/ml\n\nIt is new.", "More."]),
        ("It is new.\n\nAnn Lee, Quay Road\n\nMore.", &["It is new.", "Ann Lee, Quay Road", "More."]),
        (
            "4 Tests\n=======\n\n4.1 Tight\n---------\nFill it. Wait.",
            &["4 Tests\n=======\n\n4.1 Tight\n---------\nFill it.", "Wait."],
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(groups(text), expected, "{text:?}");
    }
    assert_eq!(groups("Text is here.\n\nIt is so.\n\n::\n\n    ls\n\nMore.")[1], "It is so.\n\n::\n\n    ls");
}

#[test]
fn all_of_a_quotation_stays_with_its_source() {
    let text = "Text.\n\n> All is well.\n> It ends.\n\n— Ann Lee, *Letters*, 1911\n\nMore.";
    assert_eq!(groups(text), ["Text.", "> All is well.\n> It ends.\n\n— Ann Lee, *Letters*, 1911", "More."]);
}

#[test]
fn objects_of_a_list_stand_alone() {
    let text = "{\n  \"all\": [\n    {\n      \"a\": 1,\n      \"b\": 2\n    },\n    {\n      \"a\": 3\n    }\n  ]\n}";
    let all = groups(text);
    assert_eq!(all[1..3], ["{\n      \"a\": 1,\n      \"b\": 2\n    },", "{\n      \"a\": 3\n    }"], "{all:?}");
    let one = groups("{\n  \"all\": [\n    {\n      \"a\": 1,\n      \"b\": 2\n    }\n  ]\n}");
    assert_eq!(one.len(), 1, "{one:?}");
}

#[test]
fn parts_of_a_difference_stand_alone_and_the_first_one_names_its_file() {
    let first = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n-two\n+too\n\n three";
    let text = format!("{first}\n@@ -9,2 +9,2 @@\n four\n-five\n+six");
    assert_eq!(groups(&text), [first, "@@ -9,2 +9,2 @@\n four\n-five\n+six"]);
}

#[test]
fn another_voice_answers_in_subtitles() {
    let text = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ann>Is it dry?\n\n00:03.000 --> 00:04.000\n<v Bob>It is\n\n\
                00:04.000 --> 00:05.000\n<v Bob>by now.\n\n00:06.000 --> 00:07.000\n<v Bob>Who asks?\n\n\
                00:08.000 --> 00:09.000\n<v Bob>I do.";
    let groups = groups(text);
    let answer =
        "<v Ann>Is it dry?\n\n00:03.000 --> 00:04.000\n<v Bob>It is\n\n00:04.000 --> 00:05.000\n<v Bob>by now.";
    assert!(groups.contains(&answer) && groups.contains(&"<v Bob>Who asks?"), "{groups:?}");
}

#[test]
fn a_head_of_a_page_interrupts_a_sentence() {
    let head = "3                         Ann Lee and others";
    for between in
        [head.to_owned(), format!("The Last Word             2\n\n\n{head}"), "- 2 -\n\nThe Last Word".to_owned()]
    {
        let text = format!("It begins here and it goes\n\n{between}\n\non after the head. More.");
        assert_eq!(groups(&text)[0], format!("It begins here and it goes\n\n{between}\n\non after the head."));
    }
    let list = "Apples                   7\nPears                    8";
    assert_eq!(groups(&format!("{list}\n\nmore of it.")), [list, "more of it."]);
}

#[test]
fn terms_stay_with_their_definitions() {
    use crate::text::formats::{Document, Format};
    let source = "<dl><dt>One<dt>Uno<dd><p>First. More.<p>Again.<dd>Other.<dt>Two<dd>Second.</dl><p>Text.";
    let page = Document::read(source, Format::Html, &crate::runtime::call::unstopped).unwrap();
    let units = Units::sentences(page.text(), page.blocks(), &[], &crate::runtime::call::unstopped).unwrap();
    let groups: Vec<&str> = units.groups.iter().map(|group| units.span(group).of(page.text())).collect();
    assert_eq!(groups, ["One\nUno\n\nFirst. More.\n\nAgain.\n\nOther.", "Two\nSecond.", "Text."]);
}

#[test]
fn a_table_with_columns_to_look_up_is_read_by_rows_unless_a_caption_is_about_all_of_it() {
    let table = "Train  Leaves  Track\nOs 1   6:12    1\nSp 2   6:40    2\nOs 3   8:12    1\nR 4    9:15    3";
    let rows = ["Train  Leaves  Track\nOs 1   6:12    1", "Sp 2   6:40    2", "Os 3   8:12    1", "R 4    9:15    3"];
    assert_eq!(groups(table), rows);
    assert_eq!(groups(table.rsplit_once('\n').unwrap().0).len(), 1, "a short one is read whole");
    assert_eq!(groups(&format!("Table 1. Trains\n\n{table}")).len(), 1);
    assert_eq!(groups(&format!("{table}\n\nTable 1. Trains")).len(), 1);
}

#[test]
fn a_question_may_have_a_sentence_before_it() {
    let answers = [
        "Comment êtes-vous venue à la musique ?\nPar ma grand-mère, qui tenait l'harmonium.",
        "Vous jouiez à Nancy. Pourquoi avoir quitté l'orchestre ?\nÀ cause d'une tendinite. J'ai choisi le bois.",
        "Et maintenant ?\nJe joue le dimanche.",
    ];
    assert_eq!(groups(&answers.join("\n\n")), answers);
}

#[test]
fn a_list_may_go_on_on_the_next_page() {
    let page = |number: u8, text: &str| format!("Handbook    2023\n\n{text}\n\n                {number}\n\n");
    let first = page(7, "On the first day a child must have\n\n   - a rucksack\n   - rain trousers");
    let text = first + &page(8, "   - a bottle of water\n\nIllness\n\nChildren with a fever stay at home.");
    let list = groups(&text).into_iter().find(|group| group.starts_with("On the first")).unwrap();
    assert!(list.ends_with("of water"), "{list}");
    let foot = "School - Ferry Nab              Page";
    let page = |number: u8, rest: &str| format!("School          Notes\n\n{rest}\n\n{foot} {number}\n\n");
    let text = page(1, "What to bring\n\n  - a towel\n  - a jacket")
        + &page(2, "  - a lunch\n\nWhere you sleep\n\nIn a bunk.");
    let list = groups(&text).into_iter().find(|group| group.starts_with("What to bring")).unwrap();
    assert!(list.ends_with("a lunch"), "{list}");
    let list = "断られる場合\n次のときは、お断りします\n・営利を目的とするとき\n・酒気を帯びているとき";
    assert_eq!(groups(&format!("{list}\n\n利用料金\n六百円です。"))[0], list);
}

#[test]
fn items_are_no_code_and_count_in_the_letters_of_their_script() {
    for list in [
        "Sono previsti tre interventi:\na) il rinforzo delle travi;\nb) la sostituzione dei giunti;\nc) il limite di transito.",
        "في الحالات الآتية:\nأ) إذا قدم معلومات كاذبة.\nب) إذا استخدم بطاقة لا يملكها.\nج) إذا أساء إلى السائقين.",
        "이용할 수 없는 경우는 다음과 같다:\n가. 영리를 목적으로 할 때\n나. 술에 취했을 때\n다. 요금을 내지 않았을 때",
        "Отказ возможен в случаях:\nж) продажа товаров;\nз) шум;\nи) порча имущества;\nк) неуплата.",
    ] {
        assert_eq!(groups(&format!("{list}\n\nMore is below.")), [list, "More is below."]);
    }
}

#[test]
fn commands_stay_with_the_paragraph_above_them() {
    let paragraph = "Nothing may use it. Pipe it to the other host over ssh.";
    let commands = "    docker run --rm alpine tar -cf - . \\\n      | ssh new \"tar -xf -\"";
    let groups_of = |below: &str| groups(&format!("{paragraph}\n\n{below}\n\nThen go on.")).len();
    assert_eq!(
        (groups_of(commands), groups_of("    timedatectl status"), groups_of("    The deep sea is cold.")),
        (3, 3, 4)
    );
}

#[test]
fn the_rest_of_an_item_may_stand_on_the_next_page() {
    let item = "9.2 The seller shall mend a pump, unless\nPage 6 of 11\n\nthe cause was sand in the water.";
    let page = format!("9.1 The buyer looks at each pump.\n{item}\n9.3 Others count.\n9.4 Some do.\nPage 7 of 11");
    assert!(groups(&page).contains(&item), "{:?}", groups(&page));
}

#[test]
fn a_question_in_the_middle_of_a_turn_is_answered_and_names_its_answer_alone() {
    let text = "Ann Lee  9:31 AM\nwhere is the dump? the old place is gone\n\nBob Ray  9:33 AM\nin the attic\n\n\
                Cy Poe  9:40 AM\nwe close at noon";
    let units = Units::sentences(text, None, &[], &crate::runtime::call::unstopped).unwrap();
    let of = |start: &str| units.spans.iter().position(|span| span.of(text).starts_with(start)).unwrap();
    assert_eq!(groups(text).len(), 2, "{:?}", groups(text));
    let names = |unit: usize| units.names.above(unit).count();
    assert_eq!((names(of("Bob")), names(of("Cy"))), (1, 0));
}

#[test]
fn long_tables_code_and_items_are_split() {
    let rows = "| 12345 | 67890 |\n".repeat(60);
    let table = format!("| a | b |\n|---|---|\n{rows}");
    let parts = groups(&table);
    assert_eq!((parts[0], parts.len()), ("| a | b |\n|---|---|\n| 12345 | 67890 |", 60));
    let part = "let total = one + two;\n".repeat(10);
    let code = format!("```\n{part}\n{part}\n{part}\n{part}```");
    let parts = groups(&code);
    assert_eq!(parts.len(), 4);
    assert!(parts[0].starts_with("```\nlet") && parts[3].ends_with("two;\n```"), "{parts:?}");
    let item = format!("- {}", "This is one more sentence of it. ".repeat(30));
    assert_eq!(groups(&item).len(), 30);
    assert_eq!(groups(&format!("```\n{}\n```", "x".repeat(5000))).len(), 5);
    assert!(groups(&"# A menu entry\n".repeat(1000)).len() > 50);
}

#[test]
fn options_of_a_program_are_read_one_by_one() {
    let options =
        ["-h, --help   show this", "-o DIR       where to write", "-q N         from 1 to 9", "-v           say more"];
    let first = format!("options:\n  {}", options[0]);
    assert_eq!(
        groups(&format!("options:\n  {}\n", options.join("\n  "))),
        [&first, options[1], options[2], options[3]]
    );
    let other_script = [
        "-f ФОРМАТ    формат файла: srt, vtt;\n               иначе по расширению",
        "-t ФОРМАТ    формат результата",
        "-o КАТАЛОГ   куда записать\n               результат",
        "-s СЕКУНДЫ   сдвинуть все метки",
    ];
    assert_eq!(groups(&format!("Ключи:\n  {}\n", other_script.join("\n  "))).len(), 4);
}

#[test]
fn a_title_introduces_no_sections() {
    let sections = ["Note 4. Parts\nThe group has two. Both are here.", "Note 5. Staff\nIt has nine. Two are new."];
    let page = format!("Halden Bearings plc        Report 2023\n\n{}", sections.join("\n\n"));
    assert_eq!(groups(&page).last(), Some(&sections[1]));
}

#[test]
fn commands_sources_directives_entries_and_columns_are_whole() {
    let push = "ann@tern:~/maps$ git push\nTo tern.example\n ! [rejected] tiles -> tiles\nerror: it failed";
    let list = "ann@tern:~/maps$ ls\n a  b";
    assert_eq!(groups(&format!("{push}\n{list}\n")), [push, list]);
    assert_eq!(groups("ann@shop.example takes 5 % off. More.\n"), ["ann@shop.example takes 5 % off.", "More."]);
    let one = "TY  - JOUR\nAU  - Moss, Ida\nTI  - Eelgrass: a list. And more.\nER  -";
    let other = "TY  - BOOK\nTI  - Cod\nER  -";
    assert_eq!(groups(&format!("{one}\n\n{other}\n")), [one, other]);
    let load =
        ".. function:: load(path)\n\n   Read one document.\n\n   .. deprecated:: 5.0\n      Use open. It is safe.";
    let dump = ".. function:: dump(path)\n\n   Write it.";
    assert_eq!(groups(&format!("{load}\n\n{dump}\n")), [load, dump]);
    let entries = ["streams:", "  - name: access\n    days: 14", "  - name: audit\n    # Two years.\n    days: 730"];
    assert_eq!(groups(&entries.join("\n")), entries.map(str::trim));
    let columns = "Gluing the chine                    Varnishing the rails\n\
                   Mix no more glue than you can       Thin the first coat by a third.\n\
                   use in a quarter of an hour. The    It soaks in, and looks poor. Do\n\
                   glue takes nine hours to set at     not be tempted to add more. Four\n\
                   15 degrees.";
    assert_eq!(groups(&format!("{columns}\n\nNext.\n")), [columns, "Next."]);
}
