//! What is acknowledged stays, however the process ends.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::*;

/// Where the child of the test below finds its file.
const FILE: &str = "PULLQUOTE_TEST_STORE";

fn stored(text: &str) -> Stored {
    Stored::new(None, text.to_owned())
}

fn store(path: Option<&Path>, documents: usize, bytes: usize) -> Store {
    Store::new(path, Size { documents, bytes }).unwrap()
}

fn refusal(path: &Path) -> String {
    Store::new(Some(path), Size::default()).err().unwrap().message().to_owned()
}

fn path(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pullquote-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder.join("documents.db")
}

/// A text that only its number makes: short ones, and ones over many pages of the file.
fn text(number: usize) -> String {
    format!("{number} ").repeat(1 + number % 7 * 400)
}

#[test]
fn memory_and_file_behave_alike() {
    let path = path("kinds");
    for kept in [store(None, 2, 20), store(Some(&path), 2, 20)] {
        assert!(kept.put("a", stored("12345")).unwrap());
        assert!(!kept.put("a", stored("1234567")).unwrap());
        assert_eq!(kept.size(), Size { documents: 1, bytes: 8 });
        assert!(kept.put("b", stored("123456789012")).is_err());
        assert!(kept.put("b", stored("12345678901")).unwrap());
        assert_eq!(kept.put("c", stored("")).unwrap_err().cause, Cause::Core(ErrorKind::StoreFull));
        let put = |many: &[(&str, &str)]| {
            let many = many.iter().map(|(id, text)| ((*id).to_owned(), stored(text)));
            kept.put_all(many.collect()).map_err(|refused| (refused.failure.cause, refused.document))
        };
        let full = Cause::Core(ErrorKind::StoreFull);
        assert_eq!(put(&[("a", "x"), ("c", ""), ("b", "x")]), Err((full, Some(1))));
        assert_eq!(put(&[("b", "123456789012"), ("b", "12345678901"), ("b", "123456789012")]), Err((full, Some(0))));
        assert_eq!(kept.get("a").unwrap().unwrap().text, "1234567", "none of a refused batch is stored");
        assert_eq!(put(&[("b", "123456789012"), ("a", "123456"), ("a", "1234567"), ("b", "1")]), Ok(vec![false; 4]));
        assert_eq!(put(&[("b", "12345678901")]), Ok(vec![false]));
        let all = kept.all().unwrap();
        assert_eq!(
            all.iter().map(|(id, stored)| (id.as_str(), stored.text.len())).collect::<Vec<_>>(),
            [("a", 7), ("b", 11)]
        );
        assert!(kept.delete("a").unwrap());
        assert!(!kept.delete("a").unwrap());
        assert_eq!(kept.get("a").unwrap(), None);
        assert_eq!(kept.size(), Size { documents: 1, bytes: 12 });
    }
    assert_eq!(store(Some(&path), 2, 20).size(), Size { documents: 1, bytes: 12 });
}

/// Ids and whether there are more; all pages together after the first id if `most` is small.
fn listed(kept: &Store, prefix: &str, after: &str, most: usize) -> (Vec<String>, usize, bool) {
    let Page { documents, total, has_more } = kept.list(prefix, after, most).unwrap();
    (documents.into_iter().map(|document| document.id).collect(), total, has_more)
}

#[test]
fn documents_are_listed_and_deleted_by_prefix_in_the_order_of_ids() {
    let path = path("prefixes");
    let ids = ["b/1", "a", "b/2", "b", "b/10", "b0", "B/1", "b/é", "b/\u{10ffff}x", "b/\u{d7ff}1", "%_", "b/%"];
    for kept in [store(None, 99, 9999), store(Some(&path), 99, 9999)] {
        for id in ids {
            kept.put(id, stored(id)).unwrap();
        }
        let mut sorted = ids.map(str::to_owned);
        sorted.sort();
        assert_eq!(listed(&kept, "", "", 99), (sorted.to_vec(), 12, false));
        for prefix in ["b/", "b", "%", "b/\u{10ffff}", "b/\u{d7ff}", "c", "b/é", "\u{10ffff}"] {
            let with_prefix: Vec<String> = sorted.iter().filter(|id| id.starts_with(prefix)).cloned().collect();
            let (mut paged, mut after) = (Vec::new(), String::new());
            loop {
                let (page, total, has_more) = listed(&kept, prefix, &after, 2);
                assert_eq!(total, with_prefix.len());
                paged.extend(page);
                if !has_more {
                    break;
                }
                after.clone_from(paged.last().unwrap());
            }
            assert_eq!(paged, with_prefix, "{prefix:?}");
        }
        let first = kept.list("b/1", "", 1).unwrap().documents.remove(0);
        assert_eq!((first.bytes, first.format.as_deref(), first.title), (6, Some("text"), None));
        assert!(first.stored_at.is_some_and(|seconds| seconds > 1_700_000_000));
        assert_eq!(kept.delete_all("b/", &pullquote_core::runtime::call::unstopped).unwrap(), 7);
        assert_eq!(listed(&kept, "", "", 99).0, ["%_", "B/1", "a", "b", "b0"]);
        assert_eq!(found(&kept, "10"), Vec::<String>::new());
        assert_eq!(kept.size(), Size { documents: 5, bytes: 2 * 9 });
        assert_eq!(kept.delete_all("b/", &pullquote_core::runtime::call::unstopped).unwrap(), 0);
    }
    let kept = store(Some(&path), 9999, 99999);
    for number in 0..600 {
        kept.put(&format!("many/{number}"), stored("x")).unwrap();
    }
    assert_eq!(kept.delete_all("", &pullquote_core::runtime::call::unstopped).unwrap(), 605);
    assert_eq!(kept.size(), Size::default());
}

#[test]
fn deletion_ends_with_its_call_and_page_ends_before_its_titles_are_too_long() {
    let kept = store(None, 9999, 1 << 30);
    for number in 0..600 {
        kept.put(&format!("{number:03}"), Stored::new(Some("\u{1f35e}".repeat(5000)), String::new())).unwrap();
    }
    let Page { documents, total, has_more } = kept.list("", "", 1000).unwrap();
    assert_eq!((documents.len(), total, has_more), (32, 600, true), "a title counts at 4,000 bytes");
    let checks = std::sync::atomic::AtomicUsize::new(0);
    let check = || match checks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => Ok(()),
        _ => Err(pullquote_core::error::Error::new(ErrorKind::DeadlineExceeded, "late")),
    };
    assert_eq!(kept.delete_all("", &check).unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(kept.size().documents, 600 - 256);
}

#[test]
fn store_of_the_older_layout_is_brought_up_to_date() {
    let path = path("older");
    drop(store(Some(&path), 9, 9999));
    let older = rusqlite::Connection::open(&path).unwrap();
    older
        .execute_batch(
            "ALTER TABLE documents DROP COLUMN format; ALTER TABLE documents DROP COLUMN stored_at; PRAGMA user_version = 2;
             INSERT INTO documents (id, text, text_hash, bytes) VALUES ('old', 'text', 'hash', 7);",
        )
        .unwrap();
    drop(older);
    for _ in 0..2 {
        let kept = store(Some(&path), 9, 9999);
        kept.put("new", stored("# Title")).unwrap();
        let formats = kept.list("", "", 9).unwrap().documents.into_iter().map(|listed| (listed.id, listed.format));
        assert_eq!(
            formats.map(|(id, format)| (id, format.is_some())).collect::<Vec<_>>(),
            [("new".to_owned(), true), ("old".to_owned(), false)]
        );
        assert_eq!(kept.get("old").unwrap().unwrap().text, "text");
    }
}

#[test]
fn documents_of_many_threads_share_transactions_and_keep_the_bounds() {
    let path = path("groups");
    let kept = store(Some(&path), 100, 1000);
    let put = |thread: usize| (0..20).filter(|at| kept.put(&format!("{thread}-{at}"), stored("a")).is_ok()).count();
    let stored = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || put(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    assert_eq!((stored, kept.size().documents), (100, 100));
    drop(kept);
    let kept = store(Some(&path), 100, 1000);
    assert_eq!((kept.size().documents, kept.all().unwrap().len(), found(&kept, "a").len()), (100, 100, 10));
}

fn found(kept: &Store, query: &str) -> Vec<String> {
    kept.search(query, 10).unwrap()
}

#[test]
fn search_finds_words_of_any_script_and_follows_changes() {
    let path = path("words");
    for kept in [store(None, 9, 9999), store(Some(&path), 9, 9999)] {
        kept.put("bread", Stored::new(Some("Baking".to_owned()), "Breads are baked from flour.".to_owned())).unwrap();
        kept.put("moon", stored("The moon is white. How is it made?")).unwrap();
        kept.put("tokyo", stored("東京は日本の首都です。")).unwrap();
        kept.put("thai", stored("กรุงเทพเป็นเมืองหลวงของประเทศไทย")).unwrap();
        assert_eq!(found(&kept, "How is bread baked?"), ["bread"]);
        assert_eq!(found(&kept, "日本の首都"), ["tokyo"]);
        assert_eq!(found(&kept, "ประเทศไทย"), ["thai"]);
        assert_eq!(found(&kept, "\"moon\" OR (white*"), ["moon"]);
        assert!(found(&kept, "?!").is_empty());
        kept.put("bread", stored("It is gone.")).unwrap();
        assert!(found(&kept, "flour").is_empty());
        kept.delete("moon").unwrap();
        assert!(found(&kept, "moon").is_empty());
    }
    assert_eq!(found(&store(Some(&path), 9, 9999), "首都"), ["tokyo"]);
}

#[test]
#[cfg(unix)]
fn new_file_is_for_its_owner_and_a_locked_one_is_an_error_within_a_second() {
    use std::os::unix::fs::PermissionsExt;
    let path = path("mode");
    let kept = store(Some(&path), 9, 9999);
    kept.put("a", stored("a")).unwrap();
    for file in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.path());
    }
    let began = std::time::Instant::now();
    assert!(refusal(&path).contains("another process"));
    assert!(began.elapsed() < std::time::Duration::from_secs(1));
}

/// Not a test: the process that the next one kills. Says each number as soon as its document is acknowledged.
#[test]
#[ignore = "it is run by the test below"]
fn child() {
    let Ok(path) = std::env::var(FILE) else { return };
    let store = store(Some(Path::new(&path)), usize::MAX, usize::MAX);
    let first = store.size().documents;
    for number in first.. {
        store.put(&number.to_string(), stored(&text(number))).unwrap();
        println!("put {number}");
    }
}

#[test]
fn file_store_survives_kills_while_writing() {
    let path = path("kills");
    let mut acknowledged = 0;
    for life in 0..20 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::child", "--ignored", "--nocapture"])
            .env(FILE, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            let Some(number) = line.strip_prefix("put ") else { continue };
            acknowledged = acknowledged.max(number.parse::<usize>().unwrap() + 1);
            said += 1;
            // What is on its way when the kill comes is read, and counts.
            if said == 1 + life * 3 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let store = store(Some(&path), usize::MAX, usize::MAX);
        for number in 0..acknowledged {
            let kept = store.get(&number.to_string()).unwrap();
            assert_eq!(kept.map(|kept| kept.text.clone()), Some(text(number)), "document {number} in life {life}");
        }
    }
    assert!(acknowledged > 400, "only {acknowledged} documents were written");
}

#[test]
fn file_of_another_program_is_refused() {
    let other = path("other");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap();
    assert!(refusal(&other).contains("another program"));
    let mine = path("mine");
    let open = store(Some(&mine), 9, 9999);
    assert!(refusal(&mine).contains("another process"), "{}", refusal(&mine));
    drop(open);
    let newer = rusqlite::Connection::open(&mine).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    assert!(refusal(&mine).contains("99"));
}
