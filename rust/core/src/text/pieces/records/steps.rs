//! Steps of builds, tests and histories, each a line above what belongs to it: `Step 3/9 : RUN make`, `#7 [3/4] COPY . .`,
//! `=== RUN   TestOpen`, `commit 9f3c1e0`, `@@ -3,7 +3,7 @@`, `src/price.js` above what was found there.

/// Marks of a step whose line has its name.
const MARKS: [&str; 9] =
    ["=== RUN ", "=== PAUSE ", "=== CONT ", "##[group]", "::group::", "> Task :", "● ", "diff --git ", "@@ -"];

/// Bytes of the shortest name of a commit.
const SHORTEST_HASH: usize = 7;

/// Whether a line without its indentation starts a step.
pub(super) fn is_step(text: &str) -> bool {
    MARKS.iter().any(|mark| text.starts_with(mark)) && (!text.starts_with('●') || text.contains(" › "))
        || is_counted(text)
}

/// `Step 3/9 : RUN make`, `STEP 3/9: RUN make`, `[3/9] Linking`
fn is_counted(text: &str) -> bool {
    let (counts, ends): (&str, &[&str]) = match text.as_bytes().first() {
        Some(b'[') => (&text[1..], &["] "]),
        Some(b'S') => match text.strip_prefix("Step ").or_else(|| text.strip_prefix("STEP ")) {
            Some(counts) => (counts, if text.starts_with("STEP") { &[": "] } else { &[" : "] }),
            None => return false,
        },
        _ => return false,
    };
    let rest = counts.trim_start_matches([' ', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    let Some(all) = rest.strip_prefix('/').filter(|_| rest.len() < counts.len()) else { return false };
    let rest = all.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < all.len() && ends.iter().any(|end| rest.starts_with(end))
}

/// Whether a line below a blank one is still part of a difference: nothing is left of a blank line that did not change.
pub(super) fn goes_on_in_diff(step: &str, text: &str) -> bool {
    step.starts_with("@@ -") && text.starts_with([' ', '+', '-', '@'])
}

/// The number of the step that a line belongs to, with its mark: `#7` of `#7 [3/4] COPY . .`.
pub(super) fn numbered(text: &str) -> Option<&str> {
    let number = text.strip_prefix('#')?;
    let rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
    let end = text.len() - rest.len();
    (rest.len() < number.len() && rest.starts_with(' ')).then(|| &text[..end])
}

/// `commit 9f3c1e07a5d2 (HEAD -> main)`
pub(super) fn is_commit(text: &str) -> bool {
    text.strip_prefix("commit ").is_some_and(|name| {
        let hash = name.bytes().take_while(u8::is_ascii_hexdigit).count();
        hash >= SHORTEST_HASH && matches!(name.as_bytes().get(hash..), Some([] | [b' ', b'(', ..]))
    })
}

/// Whether a line is only the path of a file, and the one below is something found in it: `12:5  error  …`.
pub(super) fn is_listing(text: &str, below: &str) -> bool {
    let is_path = !text.contains([' ', '\t']) && text.len() > 3 && text.contains(['/', '\\', '.']);
    let place = below.trim_start();
    let number = place.bytes().take_while(u8::is_ascii_digit).count();
    let is_deeper = place.len() < below.len();
    let ends = match place.as_bytes().get(number) {
        Some(b':') => is_deeper || !place[number + 1..].starts_with([' ', '/']),
        Some(b'-') => !is_deeper,
        _ => false,
    };
    is_path && number > 0 && ends && !text.ends_with([':', ',', ';', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_start_with_their_marks() {
        for line in [
            "Step 3/9 : RUN make", "STEP 3/9: RUN make", "[ 3/12] Linking", "=== RUN   TestOpen",
            "> Task :app:compile", "● price › adds the tax",
        ] {
            assert!(is_step(line), "{line}");
        }
        for line in ["Step 3: wash it", "Step 1/3: wash it", "[3] Lee, A.", "[1/2 cup] milk", "● Apples", "> Task"] {
            assert!(!is_step(line), "{line}");
        }
        assert_eq!(numbered("#12 [5/9] RUN make"), Some("#12"));
        assert_eq!([numbered("# 12"), numbered("#tag"), numbered("#12")], [None; 3]);
        assert!(is_commit("commit 9f3c1e07a5d2 (HEAD -> main)") && !is_commit("commit added later"));
        assert!(is_listing("src/price.js", "  12:5  error  Missing semicolon") && is_listing("src/a.rs", "12:let x"));
        assert!(
            !is_listing("See a.rs.", "12:5") && !is_listing("src/a.rs", "12: let x") && !is_listing("a.rs", "12 x")
        );
    }
}
