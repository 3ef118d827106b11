//! Numbers by value: 10,000 is 10000, and 1.250,00 is 1,250.

/// Whether words have the same numbers, however these are written; false if there are none.
pub(super) fn are_equal(first: &[&str], second: &[&str]) -> bool {
    let (first, second) = (alternatives(first), alternatives(second));
    first.iter().any(|one| {
        let matches =
            |other: &Vec<String>| one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_same(a, b));
        !one.is_empty() && second.iter().any(matches)
    })
}

/// What words have besides the digits of their numbers.
pub(super) fn without_digits(words: &[&str]) -> String {
    words.iter().flat_map(|word| word.chars()).filter(|c| !c.is_ascii_digit() && !is_mark(*c)).collect()
}

const fn is_mark(char: char) -> bool {
    matches!(char, '.' | ',')
}

/// The numbers of words: each by itself, and with groups of three digits after a space as parts of one number.
fn alternatives(words: &[&str]) -> [Vec<String>; 2] {
    let (mut alone, mut grouped): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for word in words {
        for number in word.split(|c: char| !c.is_ascii_digit() && !is_mark(c)) {
            let number = number.trim_matches(is_mark);
            if number.is_empty() {
                continue;
            }
            alone.push(number.to_owned());
            let is_group = number.split(is_mark).next().is_some_and(|digits| digits.len() == 3);
            match grouped.last_mut() {
                Some(last) if is_group && !last.contains(is_mark) => last.push_str(number),
                _ => grouped.push(number.to_owned()),
            }
        }
    }
    [alone, grouped]
}

fn is_same(first: &str, second: &str) -> bool {
    let second = readings(second);
    readings(first).iter().any(|reading| second.contains(reading))
}

/// The numbers that may be meant, in a normal form: a mark either groups digits or begins the decimals.
pub(crate) fn readings(number: &str) -> Vec<String> {
    let parts: Vec<&str> = number.split(is_mark).collect();
    let are_groups = |parts: &[&str]| {
        parts.first().is_some_and(|first| parts.len() == 1 || first.len() <= 3)
            && parts.iter().skip(1).all(|part| part.len() == 3)
    };
    let whole = |parts: &[&str]| {
        let digits = parts.concat();
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() { "0".to_owned() } else { digits.to_owned() }
    };
    let mut readings = Vec::new();
    if are_groups(&parts) {
        readings.push(whole(&parts));
    }
    if let Some((decimals, before)) = parts.split_last().filter(|(_, before)| are_groups(before)) {
        // 2.10 may be a version, which is not 2.1.
        readings.push(if decimals.trim_matches('0').is_empty() {
            whole(before)
        } else {
            format!("{}.{decimals}", whole(before))
        });
    }
    if readings.is_empty() {
        readings.push(number.to_owned());
    }
    readings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_by_value() {
        for (first, second) in [("1,250", "1.250,00"), ("10 000", "10000"), ("007", "7"), ("12.05.2020", "12.05.2020")]
        {
            let words = |text: &'static str| text.split(' ').collect::<Vec<_>>();
            assert!(are_equal(&words(first), &words(second)), "{first} {second}");
        }
        for (first, second) in [("1,250", "1,251"), ("1.5", "15"), ("10 20", "1020"), ("x", "y"), ("2.10", "2.1")] {
            let words = |text: &'static str| text.split(' ').collect::<Vec<_>>();
            assert!(!are_equal(&words(first), &words(second)), "{first} {second}");
        }
    }
}
